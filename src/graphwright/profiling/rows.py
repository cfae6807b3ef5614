"""The rows of a table: calls of tasks and nodes, summed by kernel, by source node or by op."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from graphwright.ir.arrays import Array, np
from graphwright.profiling.task_facts import TaskFacts, facts_of
from graphwright.records import dataclass, field
from graphwright.runtime.events.recording import Events
from graphwright.runtime.events.task_calls import task_calls
from graphwright.support.event_sink import EventKind

GROUPS: Final = ("kernel", "source", "op")
SORTS: Final = ("self", "total", "calls", "name", "operations", "bytes", "roofline")
BETWEEN: Final = "(between tasks)"
"""The name of the row for the time of runs outside of their tasks, such as waking threads."""


@dataclass
class Row:
    """The sum of all calls with one name. Times are in nanoseconds; ``self_ns`` excludes the tasks, runs and
    nodes inside. ``share`` is the share of ``self_ns`` in the sum over all rows.
    """

    name: str
    calls: int = 0
    total_ns: int = 0
    self_ns: int = 0
    share: float = 0.0
    operations: int = 0
    read: int = 0
    written: int = 0
    roofline_ns: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    """The values of hardware counters, summed over threads."""

    @property
    def gflops(self) -> float:
        """Operations per nanosecond."""
        return self.operations / self.total_ns if self.total_ns else 0.0

    @property
    def gbps(self) -> float:
        """Bytes read and written per nanosecond."""
        return (self.read + self.written) / self.total_ns if self.total_ns else 0.0

    @property
    def roofline(self) -> float:
        """The least time at the rates of the machine, as a share of the measured time."""
        return self.roofline_ns / self.self_ns if self.self_ns else 0.0

    def add(self, calls: int, total_ns: int, self_ns: int, facts: TaskFacts) -> None:
        """Adds ``calls`` calls of a task with ``facts``."""
        self.calls += calls
        self.total_ns += total_ns
        self.self_ns += self_ns
        self.operations += calls * facts.operations
        self.read += calls * facts.read
        self.written += calls * facts.written
        self.roofline_ns += calls * facts.roofline_ns


@dataclass(frozen=True)
class Span:
    """A run, or a node that runs in Python, on one thread; ``text`` is the number of the text of the node."""

    start: int
    end: int
    text: int | None = None


def rows_of(events: Events, group: str) -> list[Row]:
    """A row for each name, and one for the time between tasks. Raises ValueError for an unknown ``group``."""
    if group not in GROUPS:
        raise ValueError(f"group {group!r} is not one of {', '.join(GROUPS)}")
    rows: dict[str, Row] = {}
    calls = task_calls(events)
    facts = facts_of(events)
    for count, total, own, task, counted in _tasks(calls, facts):
        name = getattr(task, group)
        row = rows.setdefault(name, Row(name))
        row.add(count, total, own, task)
        for counter, number in zip(events.counters, counted, strict=False):
            row.counts[counter] = row.counts.get(counter, 0) + number
    for span, own in _nodes(events):
        assert span.text is not None
        op, _, source = events.texts[span.text].partition(" ")
        node = TaskFacts(-1, op, source, op)
        name = getattr(node, group)
        rows.setdefault(name, Row(name)).add(1, span.end - span.start, own, node)
    between = between_tasks(events, calls, facts)
    if between:
        rows[BETWEEN] = Row(BETWEEN, 0, between, between)
    whole = sum(row.self_ns for row in rows.values()) or 1
    for row in rows.values():
        row.share = row.self_ns / whole
    return list(rows.values())


def sorted_rows(rows: Iterable[Row], sort: str) -> list[Row]:
    """``rows``, the largest first; by name in its order. Raises ValueError for an unknown ``sort``."""
    if sort not in SORTS:
        raise ValueError(f"sort {sort!r} is not one of {', '.join(SORTS)}")
    if sort == "name":
        return sorted(rows, key=lambda row: row.name)
    keys = {
        "self": lambda row: row.self_ns,
        "total": lambda row: row.total_ns,
        "calls": lambda row: row.calls,
        "operations": lambda row: row.operations,
        "bytes": lambda row: row.read + row.written,
        "roofline": lambda row: row.roofline,
    }
    return sorted(rows, key=keys[sort], reverse=True)


def _tasks(
    calls: Array, facts: Mapping[int, Sequence[TaskFacts]]
) -> Iterator[tuple[int, int, int, TaskFacts, list[int]]]:
    """For each task of each plan: the number of calls, their total time, this time without inner calls, the
    facts about the task, and the values of counters.
    """
    for serial in np.unique(calls["plan"]).tolist():
        own = calls[calls["plan"] == serial]
        count = int(own["task"].max()) + 1
        known = facts.get(serial) or [
            TaskFacts(k, f"task {k}", "(unknown plan)", "(unknown plan)") for k in range(count)
        ]
        times = np.bincount(own["task"], own["end"] - own["start"], minlength=len(known)).astype(np.int64)
        numbers = np.bincount(own["task"], minlength=len(known)).tolist()
        counted = np.zeros((len(known), own["counted"].shape[1]), np.int64)
        np.add.at(counted, own["task"], own["counted"])
        for task in known:
            if numbers[task.number]:
                total = int(times[task.number])
                inner = int(times[list(task.inside)].sum()) if task.inside else 0
                yield numbers[task.number], total, max(total - inner, 0), task, counted[task.number].tolist()


def _nodes(events: Events) -> Iterator[tuple[Span, int]]:
    """The nodes that ran in Python, with their time without the runs and nodes inside."""
    for thread in events.threads:
        kinds = thread.events["kind"]
        found = thread.events[(kinds == EventKind.NODE) | (kinds == EventKind.RUN)]
        columns = (found[name].tolist() for name in ("start", "end", "kind", "id"))
        spans = [
            Span(start, end, number if kind == EventKind.NODE else None)
            for start, end, kind, number in zip(*columns, strict=True)
        ]
        yield from ((span, own) for span, own in own_times(spans) if span.text is not None)


def own_times(spans: Iterable[Span]) -> Iterator[tuple[Span, int]]:
    """Each of ``spans``, which are nested or disjoint, with its time outside of the spans in it."""
    open_spans: list[list[int]] = []  # (position, time of the spans directly inside)
    ordered = sorted(spans, key=lambda span: (span.start, -span.end))
    for number, span in enumerate(ordered):
        while open_spans and ordered[open_spans[-1][0]].end <= span.start:
            yield _closed(ordered, open_spans)
        if open_spans:
            open_spans[-1][1] += span.end - span.start
        open_spans.append([number, 0])
    while open_spans:
        yield _closed(ordered, open_spans)


def _closed(ordered: Sequence[Span], open_spans: list[list[int]]) -> tuple[Span, int]:
    number, inside = open_spans.pop()
    span = ordered[number]
    return span, max(span.end - span.start - inside, 0)


def between_tasks(events: Events, calls: Array, facts: Mapping[int, Sequence[TaskFacts]]) -> int:
    """The time of runs during which none of their tasks ran."""
    runs = events.whole_runs()
    total = int((runs["end"] - runs["start"]).sum())
    outer = calls[~_are_inner(calls, facts)]
    outer = outer[np.lexsort((outer["start"], outer["run"]))]
    firsts = np.flatnonzero(np.diff(outer["run"], prepend=-1))
    for first, end in pairwise([*firsts, len(outer)]):
        starts, ends = outer["start"][first:end], np.maximum.accumulate(outer["end"][first:end])
        before = np.concatenate([starts[:1], ends[:-1]])
        total -= int(np.maximum(ends - np.maximum(starts, before), 0).sum())
    return total


def _are_inner(calls: Array, facts: Mapping[int, Sequence[TaskFacts]]) -> Array:
    """For each call, whether its task is inside a branch or a loop."""
    inner = {(serial, task.number) for serial, tasks in facts.items() for task in tasks if task.is_inner}
    pairs = zip(calls["plan"].tolist(), calls["task"].tolist(), strict=True)
    return np.fromiter((pair in inner for pair in pairs), bool, len(calls))

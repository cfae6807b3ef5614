"""Assembles the calls of tasks from recorded events: each thread records the chunks that it ran."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from graphwright.ir.arrays import Array, np
from graphwright.records import dataclass
from graphwright.runtime.events.recording import Events, Recording, event_type
from graphwright.support.event_sink import EventKind

if TYPE_CHECKING:
    from graphwright.low_ir.tasks import Task, TaskGraph

T = TypeVar("T")
_CALL: Final = (
    ("run", "i8"), ("plan", "i8"), ("task", "i8"), ("start", "i8"), ("end", "i8"), ("busy", "i8"),
    ("processor", "i8"), ("pieces", "i8"), ("slot", "i8"), ("thread", "i8"), ("first_thread", "i8"),
    ("last_start", "i8"), ("is_block", "?"), ("counted", "i8", (4,)),
)  # fmt: skip


@dataclass(frozen=True)
class TaskTime:
    """One call of a task; times in nanoseconds on the monotonic clock.

    ``predicted`` is the time on one core that the cost model predicts, in nanoseconds, 0 if unknown;
    ``processor`` the CPU time of its threads in nanoseconds, if recorded; ``ops`` what it computes, such as
    ``Conv + Relu``.
    """

    task: int
    name: str
    kernel: str
    start: int
    end: int
    thread: int
    predicted: int = 0
    processor: int = 0
    ops: str = ""
    read_weights: int = 0
    """Bytes of the weights that it reads."""
    read: int = 0
    """Bytes of the other buffers that it reads."""
    written: int = 0
    """Bytes of the buffers that it writes."""


def task_calls(events: Events) -> Array:
    """The calls of tasks in :meth:`Events.whole_runs`, ordered by start.

    A structured array with times in nanoseconds, and the fields:

    - ``run``, ``task`` and ``plan`` (serial numbers), and ``is_block``: a branch or a loop, which contains
      other calls;
    - ``start``, ``end``, ``busy`` (the sum over threads), ``processor`` (CPU time), ``pieces`` (the number of
      recorded chunks), and ``counted`` (hardware counters);
    - ``first_thread``; of the chunk that ended last, ``slot``, ``thread`` and ``last_start``.
    """
    runs = events.whole_runs()
    plans = dict(zip(runs["run"].tolist(), runs["id"].tolist(), strict=True))
    pieces = _with_threads(events, EventKind.PIECE)
    found = [_blocks(events), _merged(pieces, events, plans)]
    calls = np.concatenate(found)
    calls = calls[np.isin(calls["run"], list(plans))]
    calls["plan"] = [plans[run] for run in calls["run"].tolist()]
    ordered: Array = calls[np.lexsort((calls["task"], calls["start"]))]
    return ordered


def _with_threads(events: Events, *kinds: EventKind) -> Array:
    """The events of ``kinds`` with the additional field ``thread``, ordered by run, task and start."""
    found = []
    for each in events.threads:
        chosen = each.events[np.isin(each.events["kind"], kinds)]
        wide = np.empty(len(chosen), [*chosen.dtype.descr, ("thread", "i8")])
        for name in chosen.dtype.names:
            wide[name] = chosen[name]
        wide["thread"] = each.thread
        found.append(wide)
    if not found:
        return np.empty(0, [*event_type().descr, ("thread", "i8")])
    every = np.concatenate(found)
    ordered: Array = every[np.lexsort((every["start"], every["id"], every["run"]))]
    return ordered


def _equal(events: Array, *names: str) -> Array:
    """For each event but the first, whether the fields ``names`` equal those of the event before it."""
    same = np.ones(max(len(events) - 1, 0), bool)
    for name in names:
        same &= events[name][1:] == events[name][:-1]
    return same


def _merged(pieces: Array, events: Events, plans: dict[int, int]) -> Array:
    """Groups pieces into calls: each call covers all units of its task once, as calls of one task in a run do
    not overlap.
    """
    units = pieces["b"] - pieces["a"]
    is_first = np.ones(len(pieces), bool)
    is_first[1:] = ~_equal(pieces, "run", "id")
    before = np.cumsum(units) - units
    firsts = np.flatnonzero(is_first)
    own = before - np.repeat(before[firsts], np.diff([*firsts, len(pieces)]))
    grids = _grids(pieces, events, plans)
    starts = is_first | (own % np.maximum(grids, 1) == 0) | (units == 0)
    at = np.flatnonzero(starts)
    calls = np.zeros(len(at), list(_CALL))
    if len(at) == 0:
        return calls
    ends = np.diff([*at, len(pieces)])
    calls["run"], calls["task"], calls["start"] = pieces["run"][at], pieces["id"][at], pieces["start"][at]
    calls["end"] = np.maximum.reduceat(pieces["end"], at)
    calls["busy"] = np.add.reduceat(pieces["end"] - pieces["start"], at)
    calls["processor"] = np.add.reduceat(pieces["processor"], at)
    calls["pieces"] = ends
    calls["counted"] = np.add.reduceat(pieces["counted"], at)
    is_last = pieces["end"] == np.repeat(calls["end"], ends)
    last = np.maximum.reduceat(np.where(is_last, np.arange(len(pieces)), -1), at)
    calls["slot"], calls["thread"] = pieces["slot"][last], pieces["thread"][last]
    calls["first_thread"], calls["last_start"] = pieces["thread"][at], pieces["start"][last]
    return calls


def _grids(pieces: Array, events: Events, plans: dict[int, int]) -> Array:
    """For each piece, the grid of its task; 1 if the plan is unknown."""
    grids = np.ones(len(pieces), np.int64)
    for run in np.unique(pieces["run"]).tolist():
        plan = events.plans.get(plans.get(run, 0))
        if plan is not None:
            first, end = np.searchsorted(pieces["run"], [run, run + 1])
            grids[first:end] = np.array(plan.numbers["grids"])[pieces["id"][first:end]]
    return grids


def _blocks(events: Events) -> Array:
    """A call for each branch and loop that ended: the events of one task alternate between begin and end."""
    edges = _with_threads(events, EventKind.OPEN, EventKind.CLOSE)
    edges = edges[np.lexsort((edges["start"], edges["kind"], edges["id"], edges["run"]))]
    is_first = np.ones(len(edges), bool)
    is_first[1:] = ~_equal(edges, "run", "id", "kind")
    firsts = np.flatnonzero(is_first)
    number = np.arange(len(edges)) - np.repeat(firsts, np.diff([*firsts, len(edges)]))
    order = np.lexsort((edges["kind"], number, edges["id"], edges["run"]))
    edges, number = edges[order], number[order]
    pairs = np.flatnonzero(_equal(edges, "run", "id") & (number[1:] == number[:-1]))
    opened, closed = edges[pairs], edges[pairs + 1]
    calls = np.zeros(len(pairs), list(_CALL))
    calls["run"], calls["task"] = opened["run"], opened["id"]
    calls["start"], calls["end"] = opened["start"], closed["end"]
    calls["slot"], calls["thread"] = closed["slot"], closed["thread"]
    calls["is_block"] = True
    return calls


def record_tasks(run: Callable[[], T]) -> tuple[T, list[TaskTime]]:
    """The result of ``run``, and the calls of tasks and nodes of the runs that it began, ordered by start."""
    with Recording() as recording:
        result = run()
    return result, task_times(recording.events(), threading.get_native_id())


def task_times(events: Events, thread: int) -> list[TaskTime]:
    """The calls of tasks in runs that ``thread`` began, and of nodes that it ran in Python, ordered
    by start.
    """
    own = [each.events for each in events.threads if each.thread == thread]
    runs = [run for each in own for run in each["run"][each["kind"] == EventKind.RUN].tolist()]
    calls = task_calls(events)
    times = [_time(events, call) for call in calls[np.isin(calls["run"], runs)].tolist()]
    for each in own:
        times += [_node(events, node) for node in each[each["kind"] == EventKind.NODE]]
    return sorted(times, key=lambda time: time.start)


def _time(events: Events, call: tuple[Any, ...]) -> TaskTime:
    _, serial, task, start, end, _, processor, _, slot, *_ = call
    plan = events.plans.get(serial)
    if plan is None or plan.target is None:
        return TaskTime(task, "", "", start, end, slot, 0, processor)
    graph = plan.target.task_graph
    registers, known = plan.numbers["registers"], graph.tasks[task]
    predicted = registers[known.work] if known.work >= 0 else 0
    kernel, sizes = kernel_name(graph, task), _bytes(graph, known, registers)
    return TaskTime(task, known.name, kernel, start, end, slot, predicted, processor, known.ops, *sizes)


def _bytes(graph: TaskGraph, task: Task, registers: Sequence[int]) -> tuple[int, int, int]:
    """Bytes that a task accesses: weights, other buffers that it reads, and buffers that it writes."""
    weights, read, written = set[int](), set[int](), set[int]()
    for position, operand in enumerate(task.operands):
        number = getattr(operand, "buffer", None)
        if number is None:
            continue
        is_weight = graph.buffers[number].storage.name == "WEIGHT"
        (written if position in task.writes else weights if is_weight else read).add(number)
    sizes = [sum(registers[graph.buffers[k].size] for k in each) for each in (weights, read, written)]
    return sizes[0], sizes[1], sizes[2]


def _node(events: Events, node: Any) -> TaskTime:
    op, _, name = events.texts[node["id"]].partition(" ")
    return TaskTime(int(node["id"]), name, op, int(node["start"]), int(node["end"]), 0, ops=op)


def kernel_name(graph: TaskGraph, task: int) -> str:
    """The symbol of the kernel that a task launches; for other tasks, the kind of task."""
    kind, number = graph.tasks[task].kind.name, graph.tasks[task].kernel
    return graph.kernels[number].symbol if kind == "LAUNCH" else kind.lower()

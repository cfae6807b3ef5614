"""Events in Chrome's Trace Event Format, as Perfetto and chrome://tracing read it.

Each thread is a track. A run is on the track of its caller and contains its tasks, plans and nodes. Branches
and loops can begin on one thread and end on another, so they are asynchronous slices. Arrows lead from a task
to the tasks that wait for it. The bytes of arenas are a counter. Times are in microseconds since the start of
the recording.

The format: "Trace Event Format", Google, 2016.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from graphwright.profiling.task_facts import TaskFacts, facts_of
from graphwright.profiling.totals import arena_use
from graphwright.runtime.events.recording import Events, ThreadEvents
from graphwright.runtime.events.task_calls import task_calls
from graphwright.support.event_sink import EventKind

TraceEvent = dict[str, Any]
_NAMES: Final = {EventKind.STAGE: "compile", EventKind.NODE: "python", EventKind.CACHE: "cache"}
"""Categories of events from Python."""


def trace_text(events: Events, names: Mapping[int, str]) -> str:
    """The trace as JSON; ``names`` are the names of threads by their id in the operating system."""
    rows = _Trace(events).events(names)
    whole = {"traceEvents": rows, "displayTimeUnit": "ns", "otherData": {"lost_events": events.lost}}
    return json.dumps(whole, separators=(",", ":"))


class _Trace:
    def __init__(self, events: Events) -> None:
        self._events, self._facts = events, facts_of(events)
        self._runs = {int(run["run"]): int(run["id"]) for run in events.whole_runs()}
        self._process = os.getpid()

    def events(self, names: Mapping[int, str]) -> list[TraceEvent]:
        """All trace events: names first, then slices ordered by time, outer slices before inner ones."""
        slices = [event for each in self._events.threads for event in self._thread(each)]
        timed = [*slices, *self._counters(), *self._blocks(), *self._arrows()]
        timed.sort(key=lambda event: (event["ts"], -event.get("dur", 0)))
        return [*self._titles(names), *timed]

    def _titles(self, names: Mapping[int, str]) -> Iterator[TraceEvent]:
        yield {**self._at(0), "ph": "M", "name": "process_name", "args": {"name": "graphwright"}}
        for thread in self._events.threads:
            name = names.get(thread.thread) or thread.name or "thread"
            common = self._at(thread.thread)
            yield {**common, "ph": "M", "name": "thread_name", "args": {"name": name}}

    def _at(self, thread: int, time: int | None = None) -> TraceEvent:
        common: TraceEvent = {"pid": self._process, "tid": thread}
        return common if time is None else {**common, "ts": (time - self._events.start) / 1000}

    def _slice(
        self, thread: int, start: int, end: int, kind: str, name: str, details: TraceEvent
    ) -> TraceEvent:
        time = {"ph": "X", "dur": (end - start) / 1000}
        return {**self._at(thread, start), **time, "cat": kind, "name": name, "args": details}

    def _thread(self, of: ThreadEvents) -> Iterator[TraceEvent]:
        """The slices on the track of a thread."""
        thread = of.thread
        for start, end, kind, slot, run, number, a, b, _, counted in of.events.tolist():
            if kind == EventKind.PIECE and run in self._runs:
                task = self._task(run, number)
                details = {**_details(task), "units": f"{a} to {b} of {task.units}", "run": run}
                details |= dict(zip(self._events.counters, map(int, counted), strict=False))
                yield self._slice(thread, start, end, "task", task.source, details)
            elif kind == EventKind.RUN and run in self._runs:
                details = {"run": run, "plan": number, "arena_bytes": a, "threads": b, "failed": slot != 0}
                yield self._slice(thread, start, end, "run", "run", details)
            elif kind == EventKind.PLAN:
                name = "plan from the cache" if a else "plan made"
                yield self._slice(thread, start, end, "plan", name, {"plan": number})
            elif kind in (EventKind.STAGE, EventKind.NODE, EventKind.CACHE):
                text = self._events.texts[number]
                details = {"found": bool(a)} if kind == EventKind.CACHE else {}
                yield self._slice(thread, start, end, _NAMES[EventKind(kind)], text, details)

    def _task(self, run: int, task: int) -> TaskFacts:
        known = self._facts.get(self._runs[run])
        return TaskFacts(task, f"task {task}", f"task {task}", "") if known is None else known[task]

    def _counters(self) -> Iterator[TraceEvent]:
        """Counters of arena bytes: in use by runs, and allocated."""
        memory = self._events.of_kind(EventKind.MEMORY)
        held = sorted(zip(memory["start"].tolist(), memory["b"].tolist(), strict=True))
        for name, bytes in (("in use", arena_use(self._events)), ("held", held)):
            for time, count in bytes:
                common = {**self._at(0, time), "ph": "C", "name": f"arena bytes {name}"}
                yield {**common, "args": {"bytes": count}}

    def _blocks(self) -> Iterator[TraceEvent]:
        """Branches and loops."""
        calls = task_calls(self._events)
        columns = ("run", "task", "start", "end", "thread")
        inner = calls[calls["is_block"]]
        for number, (run, task, start, end, thread) in enumerate(
            zip(*(inner[name].tolist() for name in columns), strict=True)
        ):
            known = self._task(run, task)
            same = {"cat": "control flow", "name": known.source, "id": number}
            yield {**self._at(thread, start), **same, "ph": "b", "args": _details(known)}
            yield {**self._at(thread, end), **same, "ph": "e", "args": {}}

    def _arrows(self) -> Iterator[TraceEvent]:
        """Arrows from the last piece of a task to the first piece of each task that waits for it, in the same
        run; in loops, from the call before.
        """
        first, last = self._ends()
        number = 0
        for (run, task, call), (start, thread) in first.items():
            for before in self._task(run, task).after:
                source = last.get((run, before, call))
                if source is None:
                    continue
                same = {"cat": "dependency", "name": "waits for", "id": number}
                number += 1
                yield {**self._at(source[1], source[0]), **same, "ph": "s"}
                yield {**self._at(thread, start), **same, "ph": "f", "bp": "e"}

    def _ends(self) -> tuple[dict[Any, tuple[int, int]], dict[Any, tuple[int, int]]]:
        """The thread and the time of the first piece of each call, and of its piece that ends last. Both are
        stored by run, task and number of the call.
        """
        first: dict[Any, tuple[int, int]] = {}
        last: dict[Any, tuple[int, int]] = {}
        counts: dict[tuple[int, int], int] = {}
        for call in _calls(task_calls(self._events)):
            run, task, start, thread, last_start, last_thread = call
            number = counts.get((run, task), 0)
            counts[run, task] = number + 1
            first[run, task, number] = start, thread
            last[run, task, number] = last_start, last_thread
        return first, last


def _calls(calls: Any) -> Iterator[Sequence[int]]:
    """For calls other than branches and loops: run, task, and the start and thread of the first and last
    piece.
    """
    columns = ("run", "task", "start", "first_thread", "last_start", "thread")
    pieces = calls[~calls["is_block"]]
    return zip(*(pieces[name].tolist() for name in columns), strict=True)


def _details(task: TaskFacts) -> TraceEvent:
    """The details that a trace viewer shows for a task."""
    return {
        "task": task.number,
        "kernel": task.kernel,
        "nodes": task.source,
        "ops": task.op,
        "bytes_read": task.read,
        "bytes_written": task.written,
        "operations": task.operations,
    }

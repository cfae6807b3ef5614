"""Counts and times of a whole profile."""

from __future__ import annotations

from graphwright.records import dataclass
from graphwright.runtime.events.recording import Events
from graphwright.runtime.events.task_calls import task_calls
from graphwright.support.event_sink import EventKind


@dataclass(frozen=True)
class Totals:
    """Counts and times of a whole profile, in nanoseconds and bytes."""

    runs: int
    failed: int
    """Runs that ended with an error."""
    run_ns: int
    tasks: int
    """Calls of tasks."""
    nodes: int
    """Nodes that ran in Python between programs."""
    plans_made: int
    plans_kept: int
    """Plans that were in the cache."""
    stages: int
    """Stages of compilations."""
    stages_ns: int
    arena_bytes: int
    """The most bytes of arenas that the runs used at the same time."""
    lost: int
    """The number of lost events."""


def totals_of(events: Events) -> Totals:
    """The totals of ``events``."""
    runs, plans = events.whole_runs(), events.of_kind(EventKind.PLAN)
    stages = events.of_kind(EventKind.STAGE)
    kept, new = (int(((plans["a"] == number) & (plans["id"] > 0)).sum()) for number in (1, 0))
    return Totals(
        runs=len(runs),
        failed=int((runs["slot"] != 0).sum()),
        run_ns=int((runs["end"] - runs["start"]).sum()),
        tasks=len(task_calls(events)),
        nodes=len(events.of_kind(EventKind.NODE)),
        plans_made=new,
        plans_kept=kept,
        stages=len(stages),
        stages_ns=int((stages["end"] - stages["start"]).sum()),
        arena_bytes=max((used for _, used in arena_use(events)), default=0),
        lost=events.lost,
    )


def arena_use(events: Events) -> list[tuple[int, int]]:
    """The bytes of arenas in use over time: the times of changes, and the bytes in use from each of these
    times on.
    """
    runs = events.whole_runs()
    starts, ends, arenas = (runs[name].tolist() for name in ("start", "end", "a"))
    changes = [(start, 1, arena) for start, arena in zip(starts, arenas, strict=True)]
    changes += [(end, 0, -arena) for end, arena in zip(ends, arenas, strict=True)]
    used = 0
    usage = []
    for time, _, change in sorted(changes):
        used += change
        usage.append((time, used))
    return usage

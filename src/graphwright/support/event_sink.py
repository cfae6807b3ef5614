"""Records events in Python: nodes that run there, stages of compilations, and cache lookups.

They go to the same buffers as events of native code (``runtime/native/events.h``), if a recording is active.
:mod:`graphwright.runtime.events.recording` reads them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final

from graphwright import _native

is_recording: Final = _native.is_recording
now: Final = _native.now
"""The time of the clock of events, in nanoseconds."""


class EventKind(enum.IntEnum):
    """The kinds of events; the first six are defined in ``runtime/native/events.h``."""

    RUN = 0
    """A run of a program."""
    PIECE = 1
    """A range of units of a task, run by one thread."""
    OPEN = 2
    """A branch or a loop begins."""
    CLOSE = 3
    """A branch or a loop ends."""
    PLAN = 4
    """A plan is taken from the cache (``a`` is 1) or made (0)."""
    MEMORY = 5
    """Arenas have ``a`` bytes more; ``b`` in all."""
    NODE = 6
    """A node that runs in Python; its text is the op and the node."""
    STAGE = 7
    """A stage of a compilation."""
    CACHE = 8
    """A lookup in an on-disk cache: a hit (``a`` is 1) or a miss (0)."""


def record_node(op: str, node: str, start: int) -> None:
    """Records that ``node`` ran in Python from ``start`` until now."""
    if is_recording():
        _native.record(EventKind.NODE, f"{op} {node}", start, now())


def record_stage(stage: str, start: int) -> None:
    """Records that a stage of a compilation ran from ``start`` until now."""
    if is_recording():
        _native.record(EventKind.STAGE, stage, start, now())


def record_cache(cache: str, start: int, found: bool) -> None:
    """Records a lookup in ``cache`` from ``start`` until now."""
    if is_recording():
        _native.record(EventKind.CACHE, cache, start, now(), found)


def recording_stages(observe: Callable[[str, object], None]) -> Callable[[str, object], None]:
    """``observe``, extended to record each stage of a compilation that begins now."""
    start = now()

    def observe_and_record(stage: str, product: object) -> None:
        nonlocal start
        record_stage(stage, start)
        observe(stage, product)
        start = now()

    return observe_and_record

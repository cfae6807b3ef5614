"""Events from Python: nodes that run there, stages of compilations, look-ups in caches.

They go to the sink that native code writes to (``runtime/native/events.h``); nothing happens unless somebody
records. :mod:`graphwright.runtime.events` reads them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final

from graphwright import _native

is_recording: Final = _native.is_recording
now: Final = _native.now
"""Nanoseconds on the clock of events."""


class EventKind(enum.IntEnum):
    """What an event is about; the first six are those of ``runtime/native/events.h``."""

    RUN = 0
    """A run of a program."""
    PIECE = 1
    """Units of a task, on one thread."""
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
    """A look-up in a cache on disk, which found it (``a`` is 1) or did not (0)."""


def record_node(op: str, node: str, start: int) -> None:
    """That ``node``, which began at ``start``, has run in Python until now."""
    if is_recording():
        _native.record(EventKind.NODE, f"{op} {node}", start, now())


def record_stage(stage: str, start: int) -> None:
    """That a stage of a compilation, which began at ``start``, has ended."""
    if is_recording():
        _native.record(EventKind.STAGE, stage, start, now())


def record_cache(cache: str, start: int, found: bool) -> None:
    """That something was looked up in ``cache`` from ``start`` until now."""
    if is_recording():
        _native.record(EventKind.CACHE, cache, start, now(), found)


def recording_stages(observe: Callable[[str, object], None]) -> Callable[[str, object], None]:
    """``observe``, an observer of a compilation that begins now, which records each stage as well."""
    start = now()

    def observe_and_record(stage: str, product: object) -> None:
        nonlocal start
        record_stage(stage, start)
        observe(stage, product)
        start = now()

    return observe_and_record

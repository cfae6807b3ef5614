"""Recordings of the events of all threads of the process, as NumPy arrays.

Native code writes fixed-size events to one buffer per thread (``runtime/native/events.h``); Python adds its
own (:mod:`graphwright.support.event_sink`). Any number of recordings can be open at a time, nested or
overlapping: each has the events of all threads between its start and its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Self

from graphwright import _native
from graphwright.ir.arrays import Array, np
from graphwright.records import dataclass
from graphwright.runtime.events.counters import numbers_of
from graphwright.support.event_sink import EventKind, now

if TYPE_CHECKING:
    from graphwright.executable.target_code import TargetCode

CAPACITY: Final = 1 << 20
"""The most events that are kept per thread: 96 MiB."""
_MOST: Final = 1 << 40
_FIELDS: Final = (
    ("start", "i8"), ("end", "i8"), ("kind", "i4"), ("slot", "i4"), ("run", "i8"), ("id", "i8"),
    ("a", "i8"), ("b", "i8"), ("processor", "i8"), ("counted", "i8", (4,)),
)  # fmt: skip


@cache
def event_type() -> Any:
    """The structured dtype of an event: the fields of ``gw_event``."""
    return np.dtype(list(_FIELDS))


@dataclass(frozen=True)
class ThreadEvents:
    """The events of one thread: ``thread`` is its id in the operating system, ``events`` an array of
    :func:`event_type`, and ``lost`` the number of events that did not fit.
    """

    thread: int
    name: str
    events: Array
    lost: int


@dataclass(frozen=True)
class Plan:
    """The numbers of a plan and the target code that it is for; None for a program that was built by hand."""

    target: TargetCode | None
    numbers: _native.PlanInfo


@dataclass(frozen=True)
class Events:
    """A recording: ``plans`` by serial number, ``texts`` by index."""

    threads: Sequence[ThreadEvents]
    plans: Mapping[int, Plan]
    texts: Sequence[str]
    lost: int
    """Events that did not fit, of all threads."""
    start: int
    """When the recording began, in nanoseconds on the monotonic clock."""
    counters: Sequence[str] = ()
    """The names of the counters in the field ``counted``, in order."""

    def of_kind(self, *kinds: EventKind) -> Array:
        """The events of ``kinds``, of all threads."""
        found = [each.events[np.isin(each.events["kind"], kinds)] for each in self.threads]
        return np.concatenate([np.empty(0, event_type()), *found])

    def whole_runs(self) -> Array:
        """The RUN events of the runs that began and ended within the recording."""
        runs = self.of_kind(EventKind.RUN)
        whole: Array = runs[runs["start"] >= self.start]
        return whole


class Recording:
    """Records the events of a ``with`` block: ``with Recording() as recording: ...; recording.events()``."""

    def __init__(
        self, capacity: int = CAPACITY, processor: bool = False, counters: Sequence[str] = ()
    ) -> None:
        """``capacity`` is the most events per thread. ``processor`` adds the CPU time of each task, and
        ``counters`` the values of these hardware counters: each costs some hundred nanoseconds or more per
        task. Raises ValueError for names that are not counters.
        """
        if not isinstance(capacity, int) or not 1 <= capacity <= _MOST:
            raise ValueError(f"max_events={capacity!r}: must be a whole number, 1 to 2^40")
        self._capacity, self._processor = capacity, processor
        self._counters, self._numbers = tuple(counters), numbers_of(counters)
        self._native: _native.Recording | None = None
        self._events: Events | None = None
        self._start = 0

    def __enter__(self) -> Self:
        self._native = _native.Recording(self._capacity, self._processor, self._numbers)
        self._events, self._start = None, now()
        return self

    def __exit__(self, *error: object) -> None:
        assert self._native is not None
        try:
            self._events = _read(self._native, self._start, self._counters)
        finally:
            self._native.stop()
            self._native = None

    def events(self) -> Events:
        """The events, up to now if the recording goes on. Raises RuntimeError before it begins."""
        if self._native is not None:
            return _read(self._native, self._start, self._counters)
        if self._events is None:
            raise RuntimeError("the recording has not begun: events are recorded inside a `with` block")
        return self._events


def _read(recording: _native.Recording, start: int, counters: Sequence[str]) -> Events:
    threads = [
        ThreadEvents(thread, name, np.frombuffer(data, event_type()), lost)
        for thread, name, data, lost in recording.threads()
    ]
    plans = {serial: Plan(target, numbers) for serial, (target, numbers) in recording.plans.items()}
    lost = recording.lost + sum(thread.lost for thread in threads)
    return Events(threads, plans, list(recording.texts), lost, start, counters)

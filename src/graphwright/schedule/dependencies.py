"""Dependencies of tasks: data hazards (read after write, write after read or write) and stream order."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from graphwright.records import dataclass, field


@dataclass(frozen=True)
class Access:
    """One access of a task to a buffer. ``part`` identifies disjoint parts of the buffer: writes to different
    parts do not depend on each other.
    """

    buffer: int
    part: Hashable
    writes: bool


@dataclass
class _History:
    """The last writer of each part of a buffer, and the tasks that read the buffer since."""

    writers: dict[Hashable, int] = field(default_factory=dict)
    readers: list[int] = field(default_factory=list)
    past: list[int] = field(default_factory=list)
    """Tasks that read it before the first of ``writers``: writers of other parts depend on them as well."""


class Hazards:
    """Computes the dependencies of the tasks of one block, which are added in program order."""

    def __init__(self) -> None:
        self._history: dict[int, _History] = {}
        self._last_of_stream: dict[int, int] = {}

    def add(self, task: int, stream: int, accesses: Sequence[Access]) -> tuple[int, ...]:
        """Adds ``task`` and returns the earlier tasks that it depends on, by data hazards and in its
        stream.
        """
        waits: set[int] = set()
        for access in accesses:
            history = self._history.setdefault(access.buffer, _History())
            if not access.writes:
                waits.update(history.writers.values())
            else:
                waits.update(history.readers, history.past)
                waits.update(
                    w for part, w in history.writers.items() if part == access.part or history.readers
                )
        for access in sorted(accesses, key=lambda a: not a.writes):  # writes first, so that its reads stay
            history = self._history[access.buffer]
            if not access.writes:
                history.readers.append(task)
                continue
            if history.readers:
                history.writers, history.readers, history.past = {}, [], history.readers
            history.writers[access.part] = task
        if stream in self._last_of_stream:
            waits.add(self._last_of_stream[stream])
        self._last_of_stream[stream] = task
        waits.discard(task)
        return tuple(sorted(waits))

"""Which tasks must wait for which: data hazards between tasks, and the order within a stream."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from graphwright.records import dataclass, field


@dataclass(frozen=True)
class Access:
    """One operand of a task. ``part`` tells disjoint parts of one buffer apart: writes to different parts do
    not wait."""

    buffer: int
    part: Hashable
    writes: bool


@dataclass
class _History:
    """Tasks that wrote each part of a buffer, and tasks that read it since."""

    writers: dict[Hashable, int] = field(default_factory=dict)
    readers: list[int] = field(default_factory=list)
    past: list[int] = field(default_factory=list)
    """Those that read it before the first of ``writers``: each further part waits for them as well."""


class Hazards:
    """Takes the tasks of one block in order and answers what each must wait for."""

    def __init__(self) -> None:
        self._history: dict[int, _History] = {}
        self._last_of_stream: dict[int, int] = {}

    def add(self, task: int, stream: int, accesses: Sequence[Access]) -> tuple[int, ...]:
        """Record ``task``; return the earlier tasks it waits for: reads after writes, writes after both, its
        stream."""
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
        for access in sorted(accesses, key=lambda a: not a.writes):  # its writes do not undo its own reads
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

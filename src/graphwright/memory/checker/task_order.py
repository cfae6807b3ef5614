"""The order of tasks, for the independent checker of plans.

Each task has two events: its start and its end. A dependency ``a -> b`` orders the end of a before the start
of b. The tasks of a branch are between the start and the end of their If. Only one of several branches runs,
so tasks of different branches exclude each other. The events of a loop's body stand for one iteration, which
ends before the next begins. A buffer that carries data between iterations is in use during the whole loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from graphwright.low_ir.tasks import TaskGraph, TaskKind
from graphwright.records import dataclass


@dataclass(frozen=True)
class Access:
    """An access of a task to ``buffer`` between two events."""

    task: int
    buffer: int
    offset: int
    writes: bool
    start: int
    end: int
    position: int = -1
    """The position among the task's operands."""


class Events:
    """The events of ``program``, which must be well formed, and their partial order."""

    def __init__(self, program: TaskGraph) -> None:
        self._program = program
        self._block_of = {
            t: number for number, b in enumerate(program.blocks) for t in range(b.first, b.first + b.count)
        }
        self._parent = {block: index for index, task in enumerate(program.tasks) for block in task.blocks}
        self._before = [0] * (2 * len(program.tasks))
        """For each event, the set of events that always happen before it, as a bit mask."""
        self._order(0, 0)

    def _order(self, number: int, outer: int) -> int:
        """Fills ``_before`` for the tasks of a block entered after ``outer``; returns all events up to its
        end.
        """
        block, everything = self._program.blocks[number], 0
        for index in range(block.first, block.first + block.count):
            task, start, end = self._program.tasks[index], 2 * index, 2 * index + 1
            self._before[start] = outer
            for earlier in task.after:
                self._before[start] |= self._before[2 * earlier + 1] | 1 << 2 * earlier + 1
            self._before[end] = self._before[start] | 1 << start
            for branch in task.blocks:
                self._before[end] |= self._order(branch, self._before[start] | 1 << start)
            everything |= self._before[end] | 1 << end
        return everything

    def is_over(self, a: Access, b: Access) -> bool:
        """Whether access ``a`` always ends before ``b`` begins."""
        return bool(self._before[b.start] >> a.end & 1)

    def chain(self, task: int) -> Iterator[tuple[int, int]]:
        """Pairs (block, task in this block) from the task's own block outwards."""
        while True:
            block = self._block_of[task]
            yield block, task
            if block not in self._parent:
                return
            task = self._parent[block]

    def are_exclusive(self, a: int, b: int) -> bool:
        """Whether two tasks are in different branches of the same If."""
        entered = {self._parent.get(block): block for block, _ in self.chain(a)}
        for block, _ in self.chain(b):
            task = self._parent.get(block)
            if task in entered:
                return entered[task] != block
        return False

    def loops_around(self, task: int) -> Iterator[int]:
        """The loops that contain a task, innermost first."""
        for block, _ in self.chain(task):
            parent = self._parent.get(block)
            if parent is not None and self._program.tasks[parent].kind is TaskKind.LOOP:
                yield parent

    def has_ended(self, earlier: int, task: int) -> bool:
        """Whether task ``earlier`` has always ended when ``task`` starts."""
        return bool(self._before[2 * task] >> 2 * earlier + 1 & 1)

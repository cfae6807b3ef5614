"""The facts of a memory plan: sizes and offsets of buffers, and the accesses of tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from graphwright.low_ir.tasks import Buffer, Operand, Storage, Task, TaskGraph, TaskKind
from graphwright.memory.checker.task_order import Access, Events

ALIGNMENT: Final = 64
PLANNED: Final = (Storage.ARENA, Storage.SCRATCH)
"""Storages whose buffers have an offset in the arena."""


class PlanFacts:
    """What ``program`` accesses where; ``_native.Program.plan`` made ``plan`` for ``threads`` threads."""

    def __init__(self, program: TaskGraph, plan: Mapping[str, Any], threads: int) -> None:
        self.program = program
        self.registers: Sequence[int] = plan["registers"]
        self.arena: int = plan["arena"]
        self.offsets: Sequence[int] = plan["offsets"]
        self.sizes = [self._bytes(buffer, threads) for buffer in program.buffers]
        self.events = Events(program)
        self.accesses: dict[int, list[Access]] = defaultdict(list)
        for index, task in enumerate(program.tasks):
            for access in self.accesses_of(index, task):
                self.accesses[access.buffer].append(access)

    def _bytes(self, buffer: Buffer, threads: int) -> int:
        size = self.registers[buffer.size]
        return -(-size // ALIGNMENT) * ALIGNMENT * threads if buffer.storage is Storage.SCRATCH else size

    def accesses_of(self, index: int, task: Task) -> Iterator[Access]:
        """The accesses of task number ``index``."""
        start = end = 2 * index
        if task.kind is not TaskKind.IF:  # an If only reads its operand at its start
            end += 1
        for position, operand in enumerate(task.operands):
            if isinstance(operand, Operand):
                is_empty = self.sizes[operand.buffer] == 0  # never accessed, so the offset does not matter
                offset = 0 if is_empty else self.registers[operand.offset]
                yield Access(index, operand.buffer, offset, position in task.writes, start, end, position)
        if task.scratch >= 0:
            yield Access(index, task.scratch, 0, writes=True, start=start, end=end)

    def name(self, buffer: int) -> str:
        """The text for a buffer in messages."""
        found = self.program.buffers[buffer]
        return f"buffer {buffer} ({found.storage.name.lower()} {found.name!r})"

    def max_iterations(self, loop: int) -> int:
        """The most iterations of the loop of task number ``loop``."""
        args = self.program.tasks[loop].args
        return max(self.registers[args[0]], 0) if args else 2**63

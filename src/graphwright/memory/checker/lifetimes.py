"""Checks the lifetimes of a memory plan: the order of accesses, reads before writes, and shared bytes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import Final

from graphwright.low_ir.tasks import Operand, Storage, TaskKind
from graphwright.memory.checker.plan_facts import PLANNED, PlanFacts
from graphwright.memory.checker.task_order import Access
from graphwright.records import replace

_GIVEN: Final = (Storage.INPUT, Storage.WEIGHT, Storage.STATE)
"""Storages whose contents are defined before the first task."""


class Lifetimes:
    """Finds the faults of a plan about when buffers are written and read."""

    def __init__(self, facts: PlanFacts) -> None:
        self.facts, self.program, self.sizes, self.events = facts, facts.program, facts.sizes, facts.events

    def faults(self) -> Iterator[str]:
        """All faults."""
        yield from self._check_hazards()
        yield from self._check_reads()
        yield from self._check_outputs()
        yield from self._check_overlaps()

    def _check_hazards(self) -> Iterator[str]:
        """Checks the order of accesses to one buffer: two reads, or writes to different parts, need none."""
        for buffer, accesses in self.facts.accesses.items():
            for a, b in combinations(accesses, 2):
                harmless = not (a.writes or b.writes) or (a.writes and b.writes and a.offset != b.offset)
                in_order = a.task == b.task or self.events.is_over(a, b) or self.events.is_over(b, a)
                if (
                    harmless
                    or in_order
                    or self.events.are_exclusive(a.task, b.task)
                    or self._is_loop_around(a.task, b.task)
                ):
                    continue
                yield f"tasks {a.task} and {b.task} may access {self.facts.name(buffer)} at the same time"

    def _is_loop_around(self, a: int, b: int) -> bool:
        """Whether one is a loop around the other: it accesses its operands only between iterations."""
        return a in self.events.loops_around(b) or b in self.events.loops_around(a)

    def _check_reads(self) -> Iterator[str]:
        """Checks that a buffer is written before it is read, whatever branches run."""
        for buffer, accesses in self.facts.accesses.items():
            if self.program.buffers[buffer].storage in _GIVEN:
                continue
            for read in accesses:
                if not read.writes and not self._is_written_before(buffer, read.task):
                    yield f"task {read.task} reads {self.facts.name(buffer)}, which may not have been written"

    def _is_written_before(self, buffer: int, task: int, outermost: int = 0) -> bool:
        """Whether ``buffer`` is always written before ``task``, by tasks in the blocks around it up to
        ``outermost``.
        """
        for number, anchor in self.events.chain(task):
            block = self.program.blocks[number]
            for earlier in range(block.first, block.first + block.count):
                if self.events.has_ended(earlier, anchor) and self._always_writes(earlier, buffer):
                    return True
            if number == outermost:
                break
        return self._is_loop_index(buffer, task)

    def _is_loop_index(self, buffer: int, task: int) -> bool:
        """Whether a loop around ``task`` writes ``buffer`` before each iteration, as its index."""
        numbers = (self.program.tasks[loop].operands[0] for loop in self.events.loops_around(task))
        return any(isinstance(number, Operand) and number.buffer == buffer for number in numbers)

    def _always_writes(self, index: int, buffer: int) -> bool:
        task = self.program.tasks[index]
        if task.kind is TaskKind.IF:
            return all(self._block_writes(block, buffer) for block in task.blocks)
        if task.kind is TaskKind.LOOP and self._fills_rows(index, buffer):
            return True
        return any(a.writes and a.buffer == buffer for a in self.facts.accesses_of(index, task))

    def _fills_rows(self, loop: int, buffer: int) -> bool:
        """Whether a loop with a fixed number of iterations copies to all rows of ``buffer``, or to all rows
        up to where another task writes.
        """
        task = self.program.tasks[loop]
        block = self.program.blocks[task.blocks[0]]
        for index in range(block.first, block.first + block.count):
            inner = self.program.tasks[index]
            target = inner.operands[0] if inner.kind is TaskKind.COPY and len(inner.operands) > 2 else None
            if (
                not isinstance(target, Operand)
                or target.buffer != buffer
                or task.operands[1:] != (None, None)
            ):
                continue
            row = self.facts.registers[inner.args[0]]
            filled = self.facts.registers[target.offset] + self.facts.max_iterations(loop) * row
            others = {a.offset for a in self.facts.accesses[buffer] if a.writes and a.task != index}
            if filled in {self.sizes[buffer], *others}:
                return True
        return False

    def _block_writes(self, number: int, buffer: int) -> bool:
        block = self.program.blocks[number]
        return any(self._always_writes(t, buffer) for t in range(block.first, block.first + block.count))

    def _check_outputs(self) -> Iterator[str]:
        """Checks that each output has exactly one buffer, which is written whatever branches run."""
        buffers = [(n, b.index) for n, b in enumerate(self.program.buffers) if b.storage is Storage.OUTPUT]
        if sorted(index for _, index in buffers) != list(range(len(self.program.outputs))):
            yield f"the output buffers belong to outputs {sorted(index for _, index in buffers)}"
        for number, _ in buffers:
            if self.sizes[number] and not self._block_writes(0, number):
                yield f"{self.facts.name(number)} may not have been written when the run ends"

    def _check_overlaps(self) -> Iterator[str]:
        """Checks that buffers with common bytes have disjoint lifetimes."""
        placed = [
            (self.facts.offsets[n], self.facts.offsets[n] + self.sizes[n], n)
            for n, b in enumerate(self.program.buffers)
            if b.storage in PLANNED and self.sizes[n] > 0
        ]
        active: list[tuple[int, int, int]] = []
        for span in sorted(placed):
            active = [other for other in active if other[1] > span[0]]
            for other in active:
                reason = self._why_both_live(other[2], span[2])
                if reason is not None:
                    names = f"{self.facts.name(other[2])} and {self.facts.name(span[2])}"
                    yield f"{names} share bytes, and {reason}"
            active.append(span)

    def _in_use(self, buffer: int) -> list[Access]:
        """Accesses to a buffer. If a loop carries its contents between iterations, an access in that loop
        counts as one that lasts as long as the loop.
        """
        spans: list[Access] = []
        for access in self.facts.accesses[buffer]:
            loops = [loop for loop in self.events.loops_around(access.task) if self._carries(loop, buffer)]
            if loops:
                access = replace(access, task=loops[-1], start=2 * loops[-1], end=2 * loops[-1] + 1)
            spans.append(access)
        return spans

    def _carries(self, loop: int, buffer: int) -> bool:
        """Whether contents of ``buffer`` pass between iterations of ``loop``, or into or out of the loop."""
        body = self.program.tasks[loop].blocks[0]
        for access in self.facts.accesses[buffer]:
            if loop not in self.events.loops_around(access.task):
                return True
            if not access.writes and not self._is_written_before(buffer, access.task, body):
                return True
        return False

    def _why_both_live(self, x: int, y: int) -> str | None:
        """Why two buffers may be live at the same time; None if they never are."""
        forward = backward = False
        for a, b in product(self._in_use(x), self._in_use(y)):
            if self.events.are_exclusive(a.task, b.task):
                continue
            first, second = self.events.is_over(a, b), self.events.is_over(b, a)
            if not first and not second:
                return f"tasks {a.task} and {b.task} may run at the same time"
            forward, backward = forward or first, backward or second
        return "their uses interleave" if forward and backward else None

"""An independent check of a memory plan: it derives liveness from the tasks by an algorithm of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from graphwright.low_ir.tasks import FunctionOperand, Operand, Storage, Task, TaskGraph, TaskKind
from graphwright.memory.checker.lifetimes import Lifetimes
from graphwright.memory.checker.plan_facts import ALIGNMENT, PLANNED, PlanFacts
from graphwright.memory.checker.task_order import Access

NUMBER_BYTES: Final = 8
"""The size of an i64 that counts iterations."""
_READ_ONLY: Final = (Storage.INPUT, Storage.WEIGHT)


def check_plan(program: TaskGraph, plan: Mapping[str, Any], threads: int) -> list[str]:
    """The faults of ``program`` under ``plan``, which ``_native.Program.plan`` made for ``threads``; [] if
    none.
    """
    faults = _structure(program)
    if faults:
        return faults
    facts = PlanFacts(program, plan, threads)
    return [*_Bounds(facts).faults(), *Lifetimes(facts).faults()]


def _structure(program: TaskGraph) -> list[str]:
    """Faults of the structure, without which the order of tasks is undefined."""
    faults: list[str] = []
    owner: dict[int, int] = {}
    for number, block in enumerate(program.blocks):
        for index in range(block.first, block.first + block.count):
            if index in owner or not 0 <= index < len(program.tasks):
                faults.append(f"task {index} of block {number} does not exist, or is in two blocks")
            owner[index] = number
    faults += [f"task {t} is in no block" for t in range(len(program.tasks)) if t not in owner]
    entered = [block for task in program.tasks for block in task.blocks]
    if sorted([0, *entered]) != list(range(len(program.blocks))):
        faults.append(f"tasks enter blocks {sorted(entered)} of {len(program.blocks)}")
    for index, task in enumerate(program.tasks):
        for earlier in task.after:
            if earlier >= index or owner.get(earlier) != owner.get(index):
                faults.append(f"task {index} waits for task {earlier}, which is not earlier in its block")
        faults += [
            f"task {index} enters block {block}, whose first task is not after it"
            for block in task.blocks
            if 0 <= block < len(program.blocks) and program.blocks[block].first <= index
        ]
        faults += [
            f"task {index} accesses buffer {b}, which does not exist" for b in _missing_buffers(program, task)
        ]
    return faults


def _missing_buffers(program: TaskGraph, task: Task) -> list[int]:
    touched = [operand.buffer for operand in task.operands if isinstance(operand, Operand)]
    if task.scratch != -1:
        touched.append(task.scratch)
    return [buffer for buffer in touched if not 0 <= buffer < len(program.buffers)]


class _Bounds:
    """Finds the faults of a plan about where tasks access memory."""

    def __init__(self, facts: PlanFacts) -> None:
        self.facts, self.program, self.sizes, self.events = facts, facts.program, facts.sizes, facts.events

    def faults(self) -> Iterator[str]:
        """All faults."""
        yield from self._check_bindings()
        yield from self._check_operands()
        yield from self._check_rows()
        yield from self._check_loops()
        yield from self._check_places()

    def _check_bindings(self) -> Iterator[str]:
        inputs, outputs = self.program.inputs, self.program.outputs
        sides = (
            (Storage.INPUT, "input", inputs),
            (Storage.STATE, "input", inputs),
            (Storage.OUTPUT, "output", outputs),
        )
        for storage, side, bindings in sides:
            for number, buffer in enumerate(self.program.buffers):
                if buffer.storage is not storage:
                    continue
                if not 0 <= buffer.index < len(bindings):
                    yield f"{self.facts.name(number)} belongs to {side} {buffer.index} of {len(bindings)}"
                    continue
                binding = bindings[buffer.index]
                size = binding.dtype.bytes
                for dim in binding.dims:
                    size *= self.facts.registers[dim]
                if self.sizes[number] != size:
                    yield f"{self.facts.name(number)} has {self.sizes[number]} bytes, its {side} {size}"

    def _check_operands(self) -> Iterator[str]:
        kernels = len(self.program.kernels)
        for index, task in enumerate(self.program.tasks):
            for position in task.writes:
                if not 0 <= position < len(task.operands):
                    yield f"task {index} writes operand {position} of {len(task.operands)}"
            for operand in task.operands:
                if isinstance(operand, FunctionOperand) and not 0 <= operand.kernel < kernels:
                    yield f"task {index} takes kernel {operand.kernel} of {kernels}"
            accesses = list(self.facts.accesses_of(index, task))
            for buffer, offset in {(a.buffer, a.offset) for a in accesses if a.writes}:
                reads = [a for a in accesses if (a.buffer, a.offset) == (buffer, offset) and not a.writes]
                if len(reads) > 1:  # in place, each element is read once, before it is written
                    name = self.facts.name(buffer)
                    yield f"task {index} reads {name} in {len(reads)} operands and writes it"
            for access in accesses:
                size = self._touched(task, access)
                if access.offset < 0 or access.offset + size > self.sizes[access.buffer]:
                    yield f"task {index} accesses memory outside {self.facts.name(access.buffer)}"
                if access.writes and self.program.buffers[access.buffer].storage in _READ_ONLY:
                    yield f"task {index} writes {self.facts.name(access.buffer)}"
            if task.scratch >= 0 and self.program.buffers[task.scratch].storage is not Storage.SCRATCH:
                yield f"task {index} uses {self.facts.name(task.scratch)} as scratch"

    def _touched(self, task: Task, access: Access) -> int:
        """Bytes that the runtime itself accesses; :meth:`_check_rows` checks copies to rows."""
        args = [self.facts.registers[register] for register in task.args]
        if task.kind is TaskKind.COPY:
            return [0 if len(task.operands) > 2 else args[0], args[0], NUMBER_BYTES][access.position]
        if task.kind is TaskKind.IF:
            return args[0] if args else 1
        return (NUMBER_BYTES, NUMBER_BYTES, 1)[access.position] if task.kind is TaskKind.LOOP else 0

    def _check_rows(self) -> Iterator[str]:
        """Checks that a copy to rows uses the index of the loop around it, with a row for each iteration."""
        for index, task in enumerate(self.program.tasks):
            if task.kind is not TaskKind.COPY or len(task.operands) < 3:
                continue
            loop = next(self.events.loops_around(index), None)
            if loop is None or self.program.tasks[loop].operands[0] != task.operands[2]:
                yield f"task {index} copies to rows, but not by the index of the loop around it"
                continue
            row = self.facts.registers[task.args[0]]
            if self._target_bytes(task) < self.facts.max_iterations(loop) * row:
                yield f"task {index} copies to more rows than its target has"

    def _target_bytes(self, task: Task) -> int:
        """The bytes of the target of a copy, from its offset to the end of the buffer."""
        target = task.operands[0]
        assert isinstance(target, Operand)
        return self.sizes[target.buffer] - self.facts.registers[target.offset]

    def _check_loops(self) -> Iterator[str]:
        """Checks that the body of a loop does not write the index or the limit of the loop."""
        for index, task in enumerate(self.program.tasks):
            for loop in self.events.loops_around(index):
                control = {o.buffer for o in self.program.tasks[loop].operands[:2] if isinstance(o, Operand)}
                for access in self.facts.accesses_of(index, task):
                    if access.writes and access.buffer in control:
                        name = self.facts.name(access.buffer)
                        yield f"task {index} writes {name}, which controls the loop of task {loop}"

    def _check_places(self) -> Iterator[str]:
        for number, buffer in enumerate(self.program.buffers):
            offset, size = self.facts.offsets[number], self.sizes[number]
            inside = 0 <= offset <= self.facts.arena - size and offset % ALIGNMENT == 0
            if buffer.storage in PLANNED and not inside:
                name, arena = self.facts.name(number), self.facts.arena
                yield f"{name} of {size} bytes is at {offset} in an arena of {arena}"

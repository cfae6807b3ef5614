"""An independent check of a memory plan: it derives liveness from the tasks by an algorithm of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

from graphwright.lower.tasks import Buffer, FunctionOperand, Operand, Storage, Task, TaskGraph, TaskKind
from graphwright.memory.events import Access, Events
from graphwright.records import replace

ALIGNMENT = 64
NUMBER_BYTES = 8
"""The size of an i64 that counts iterations."""
_PLANNED = (Storage.ARENA, Storage.SCRATCH)
_READ_ONLY = (Storage.INPUT, Storage.WEIGHT)
_GIVEN = (*_READ_ONLY, Storage.STATE)
"""Storages whose contents are defined before the first task."""


def check_plan(program: TaskGraph, plan: Mapping[str, Any], threads: int) -> list[str]:
    """The faults of ``program`` under ``plan``, which ``_native.Program.plan`` made for ``threads``; [] if
    none.
    """
    faults = _structure(program)
    return faults or _Checker(program, plan, threads).run()


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
            f"task {index} enters block {block}, which begins before it"
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


class _Checker:
    def __init__(self, program: TaskGraph, plan: Mapping[str, Any], threads: int) -> None:
        self.program = program
        self.registers: Sequence[int] = plan["registers"]
        self.arena: int = plan["arena"]
        self.offsets: Sequence[int] = plan["offsets"]
        self.sizes = [self._bytes(buffer, threads) for buffer in program.buffers]
        self.events = Events(program)
        self.accesses: dict[int, list[Access]] = defaultdict(list)
        for index, task in enumerate(program.tasks):
            for access in self._accesses_of(index, task):
                self.accesses[access.buffer].append(access)

    def run(self) -> list[str]:
        return [
            *self._ports(),
            *self._operands(),
            *self._rows(),
            *self._loops(),
            *self._places(),
            *self._hazards(),
            *self._reads(),
            *self._outputs(),
            *self._overlaps(),
        ]

    def _bytes(self, buffer: Buffer, threads: int) -> int:
        size = self.registers[buffer.size]
        return -(-size // ALIGNMENT) * ALIGNMENT * threads if buffer.storage is Storage.SCRATCH else size

    def _accesses_of(self, index: int, task: Task) -> Iterator[Access]:
        start = end = 2 * index
        if task.kind is not TaskKind.IF:  # an If only reads its operand at its start
            end += 1
        for position, operand in enumerate(task.operands):
            if isinstance(operand, Operand):
                is_empty = self.sizes[operand.buffer] == 0  # never accessed, so the offset does not matter
                offset = 0 if is_empty else self.registers[operand.offset]
                yield Access(index, operand.buffer, offset, position in task.writes, start, end, position)
        if task.scratch >= 0:
            yield Access(index, task.scratch, 0, True, start, end)

    def _name(self, buffer: int) -> str:
        made = self.program.buffers[buffer]
        return f"buffer {buffer} ({made.storage.name.lower()} {made.name!r})"

    # -- checks ---------------------------------------------------------------------------------------------

    def _ports(self) -> Iterator[str]:
        inputs, outputs = self.program.inputs, self.program.outputs
        sides = (
            (Storage.INPUT, "input", inputs),
            (Storage.STATE, "input", inputs),
            (Storage.OUTPUT, "output", outputs),
        )
        for storage, side, ports in sides:
            for number, buffer in enumerate(self.program.buffers):
                if buffer.storage is not storage:
                    continue
                if not 0 <= buffer.index < len(ports):
                    yield f"{self._name(number)} belongs to {side} {buffer.index} of {len(ports)}"
                    continue
                port = ports[buffer.index]
                size = port.dtype.bytes
                for dim in port.dims:
                    size *= self.registers[dim]
                if self.sizes[number] != size:
                    yield f"{self._name(number)} has {self.sizes[number]} bytes, its {side} {size}"

    def _operands(self) -> Iterator[str]:
        kernels = len(self.program.kernels)
        for index, task in enumerate(self.program.tasks):
            for position in task.writes:
                if not 0 <= position < len(task.operands):
                    yield f"task {index} writes operand {position} of {len(task.operands)}"
            for operand in task.operands:
                if isinstance(operand, FunctionOperand) and not 0 <= operand.kernel < kernels:
                    yield f"task {index} takes kernel {operand.kernel} of {kernels}"
            for access in self._accesses_of(index, task):
                size = self._touched(task, access)
                if access.offset < 0 or access.offset + size > self.sizes[access.buffer]:
                    yield f"task {index} accesses memory outside {self._name(access.buffer)}"
                if access.writes and self.program.buffers[access.buffer].storage in _READ_ONLY:
                    yield f"task {index} writes {self._name(access.buffer)}"
            if task.scratch >= 0 and self.program.buffers[task.scratch].storage is not Storage.SCRATCH:
                yield f"task {index} uses {self._name(task.scratch)} as scratch"

    def _touched(self, task: Task, access: Access) -> int:
        """Bytes that the runtime itself accesses; :meth:`_rows` checks copies to rows."""
        args = [self.registers[register] for register in task.args]
        if task.kind is TaskKind.COPY:
            return [0 if len(task.operands) > 2 else args[0], args[0], NUMBER_BYTES][access.position]
        if task.kind is TaskKind.IF:
            return args[0] if args else 1
        return (NUMBER_BYTES, NUMBER_BYTES, 1)[access.position] if task.kind is TaskKind.LOOP else 0

    def _rows(self) -> Iterator[str]:
        """A copy to rows uses the index of the loop around it, and there is a row for each iteration."""
        for index, task in enumerate(self.program.tasks):
            if task.kind is not TaskKind.COPY or len(task.operands) < 3:
                continue
            loop = next(self.events.loops_around(index), None)
            if loop is None or self.program.tasks[loop].operands[0] != task.operands[2]:
                yield f"task {index} copies to rows, but not by the index of the loop around it"
            elif self._room(task) < self._max_iterations(loop) * self.registers[task.args[0]]:
                yield f"task {index} copies to more rows than its target has"

    def _max_iterations(self, loop: int) -> int:
        args = self.program.tasks[loop].args
        return max(self.registers[args[0]], 0) if args else 2**63

    def _room(self, task: Task) -> int:
        target = task.operands[0]
        assert isinstance(target, Operand)
        return self.sizes[target.buffer] - self.registers[target.offset]

    def _loops(self) -> Iterator[str]:
        """The body of a loop does not write the loop's index or limit."""
        for index, task in enumerate(self.program.tasks):
            for loop in self.events.loops_around(index):
                control = {o.buffer for o in self.program.tasks[loop].operands[:2] if isinstance(o, Operand)}
                for access in self._accesses_of(index, task):
                    if access.writes and access.buffer in control:
                        name = self._name(access.buffer)
                        yield f"task {index} writes {name}, which controls the loop of task {loop}"

    def _places(self) -> Iterator[str]:
        for number, buffer in enumerate(self.program.buffers):
            offset, size = self.offsets[number], self.sizes[number]
            inside = 0 <= offset <= self.arena - size and offset % ALIGNMENT == 0
            if buffer.storage in _PLANNED and not inside:
                yield f"{self._name(number)} of {size} bytes is at {offset} in an arena of {self.arena}"

    def _hazards(self) -> Iterator[str]:
        """Accesses to one buffer are ordered, except two reads, and writes to different parts."""
        for buffer, accesses in self.accesses.items():
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
                yield f"tasks {a.task} and {b.task} may access {self._name(buffer)} at the same time"

    def _is_loop_around(self, a: int, b: int) -> bool:
        """Whether one is a loop around the other: it accesses its operands only between iterations."""
        return a in self.events.loops_around(b) or b in self.events.loops_around(a)

    def _reads(self) -> Iterator[str]:
        """A buffer that is read was written before, whatever branches ran."""
        for buffer, accesses in self.accesses.items():
            if self.program.buffers[buffer].storage in _GIVEN:
                continue
            for read in accesses:
                if not read.writes and not self._is_written_before(buffer, read.task):
                    yield f"task {read.task} reads {self._name(buffer)}, which may not have been written"

    def _is_written_before(self, buffer: int, task: int, outermost: int = 0) -> bool:
        """Whether tasks in the blocks around ``task``, up to block ``outermost``, always write it before."""
        for number, anchor in self.events.chain(task):
            block = self.program.blocks[number]
            for earlier in range(block.first, block.first + block.count):
                if self.events.has_ended(earlier, anchor) and self._always_writes(earlier, buffer):
                    return True
            if number == outermost:
                break
        return self._is_loop_index(buffer, task)

    def _is_loop_index(self, buffer: int, task: int) -> bool:
        """Whether it is the index of a loop around ``task``, which writes it before each iteration."""
        numbers = (self.program.tasks[loop].operands[0] for loop in self.events.loops_around(task))
        return any(isinstance(number, Operand) and number.buffer == buffer for number in numbers)

    def _always_writes(self, index: int, buffer: int) -> bool:
        task = self.program.tasks[index]
        if task.kind is TaskKind.IF:
            return all(self._block_writes(block, buffer) for block in task.blocks)
        if task.kind is TaskKind.LOOP and self._fills_rows(index, buffer):
            return True
        return any(a.writes and a.buffer == buffer for a in self._accesses_of(index, task))

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
            row = self.registers[inner.args[0]]
            filled = self.registers[target.offset] + self._max_iterations(loop) * row
            others = {a.offset for a in self.accesses[buffer] if a.writes and a.task != index}
            if filled in {self.sizes[buffer], *others}:
                return True
        return False

    def _block_writes(self, number: int, buffer: int) -> bool:
        block = self.program.blocks[number]
        return any(self._always_writes(t, buffer) for t in range(block.first, block.first + block.count))

    def _outputs(self) -> Iterator[str]:
        """Each output has exactly one buffer, which is written whatever branches run."""
        buffers = [(n, b.index) for n, b in enumerate(self.program.buffers) if b.storage is Storage.OUTPUT]
        if sorted(index for _, index in buffers) != list(range(len(self.program.outputs))):
            yield f"the output buffers belong to outputs {sorted(index for _, index in buffers)}"
        for number, _ in buffers:
            if self.sizes[number] and not self._block_writes(0, number):
                yield f"{self._name(number)} may not have been written when the run ends"

    def _overlaps(self) -> Iterator[str]:
        """Buffers that share bytes have disjoint lifetimes."""
        placed = [
            (self.offsets[n], self.offsets[n] + self.sizes[n], n)
            for n, b in enumerate(self.program.buffers)
            if b.storage in _PLANNED and self.sizes[n] > 0
        ]
        active: list[tuple[int, int, int]] = []
        for span in sorted(placed):
            active = [other for other in active if other[1] > span[0]]
            for other in active:
                reason = self._meeting(other[2], span[2])
                if reason is not None:
                    yield f"{self._name(other[2])} and {self._name(span[2])} share bytes, and {reason}"
            active.append(span)

    def _in_use(self, buffer: int) -> list[Access]:
        """Accesses to a buffer; one in a loop that carries it between iterations lasts as long as
        that loop.
        """
        spans: list[Access] = []
        for access in self.accesses[buffer]:
            loops = [loop for loop in self.events.loops_around(access.task) if self._carries(loop, buffer)]
            if loops:
                access = replace(access, task=loops[-1], start=2 * loops[-1], end=2 * loops[-1] + 1)
            spans.append(access)
        return spans

    def _carries(self, loop: int, buffer: int) -> bool:
        """Whether contents of ``buffer`` pass between iterations of ``loop``, or into or out of the loop."""
        body = self.program.tasks[loop].blocks[0]
        for access in self.accesses[buffer]:
            if loop not in self.events.loops_around(access.task):
                return True
            if not access.writes and not self._is_written_before(buffer, access.task, body):
                return True
        return False

    def _meeting(self, x: int, y: int) -> str | None:
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

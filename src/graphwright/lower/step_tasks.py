"""Makes the tasks of steps that run one after the other: launches, copies, and calls into Python."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.cost.machine import Machine
from graphwright.cost.nominal import nominal
from graphwright.cost.predict import Work, predict
from graphwright.ir.free_symbols import sizes_named
from graphwright.ir.graph import Node
from graphwright.ir.interfaces.arithmetic import operations_of
from graphwright.ir.symbols import Dim, SymbolTable, symbol
from graphwright.ir.text import print_op
from graphwright.ir.types import U8, TensorType
from graphwright.kernels.launch import Copy, Launch, Run, SelectedNode
from graphwright.low_ir.tasks import FunctionOperand, HostFunction, Operand, Task, TaskKind
from graphwright.lower.operands import Operands
from graphwright.lower.shape_program import ShapeProgramBuilder
from graphwright.memory.locations import Location, Move
from graphwright.memory.storage import Assignment
from graphwright.records import replace


class StepTasks:
    """Makes tasks that contain no blocks. ``hosts`` are the functions that its tasks call in Python."""

    def __init__(
        self,
        shape: ShapeProgramBuilder,
        symbols: SymbolTable,
        assignment: Assignment,
        operands: Operands,
        machine: Machine,
    ) -> None:
        self.hosts: list[HostFunction] = []
        self._shape, self._symbols, self._assignment = shape, symbols, assignment
        self._operands, self._machine = operands, machine

    def run(self, step: SelectedNode, action: Run) -> list[Task]:
        """The launches and copies of ``action``, with the operation counts that profiles show."""
        items = [item for item in action.launches if not self._is_redundant_copy(item)]
        tasks = [self._copy(item) if isinstance(item, Copy) else self._launch(item) for item in items]
        for k, operations in self._operations(step, items).items():
            if operations != 0 and _fits(operations):
                tasks[k] = replace(tasks[k], operations=self._shape.register(operations))
        return tasks

    def move(self, move: Move, *number: Operand) -> Task:
        """A copy of bytes; ``number`` is the iteration counter if it selects the row to copy to."""
        register = self._shape.register
        target, source = (
            Operand(self._operands.number(p.memory), register(p.offset)) for p in (move.target, move.source)
        )
        work = register(predict(Work(moved=2 * move.size), self._machine))
        return Task(TaskKind.COPY, (target, source, *number), (0,), args=(register(move.size),), work=work)

    def host(self, node: Node) -> Task:
        """A call of the op's reference in Python."""
        registers, operand = self._operands.registers, self._operands.operand
        types = [None if v is None else (v.type.dtype, registers(v.type)) for v in node.inputs]
        results = tuple((v.type.dtype, registers(v.type)) for v in node.outputs)
        inputs = [None if v is None else operand(v) for v in node.inputs]
        outputs = [operand(v) for v in node.outputs]
        if names := sizes_named(node.op):
            types.append((U8, registers(TensorType(U8, (0, *map(symbol, names))))))
            inputs.append(next(filter(None, inputs), outputs[0]))  # any memory: the array is empty
        self.hosts.append(HostFunction(print_op(node.op), tuple(types), results))
        operands = (*inputs, *outputs)
        writes = tuple(range(len(inputs), len(operands)))
        return Task(TaskKind.HOSTCALL, operands, writes, kernel=len(self.hosts) - 1)

    def _is_redundant_copy(self, item: Launch | Copy) -> bool:
        """Whether it is a copy whose source already is at its target."""
        if not isinstance(item, Copy):
            return False
        return item in self._assignment.elided or self._location(item) == self._target(item)

    def _location(self, copy: Copy) -> Location:
        return self._assignment.locations[copy.source]

    def _target(self, copy: Copy) -> Location:
        location = self._assignment.locations[copy.target]
        return Location(location.memory, location.offset + copy.offset)

    def _copy(self, copy: Copy) -> Task:
        return self.move(Move(self._location(copy), self._target(copy), copy.source.bytes))

    def _launch(self, launch: Launch) -> Task:
        operands: list[Operand | FunctionOperand | None] = [
            None if item is None else self._operands.kernel_operand(item) for item in launch.operands
        ]
        writes, args = list(launch.writes), list(launch.args)
        if launch.takes_hook:
            hook = launch.hook
            operands.append(None if hook is None else self._operands.kernel_operand(hook.kernel))
        if launch.hook is not None:
            writes += [position + len(operands) for position in launch.hook.writes]
            operands += [self._operands.operand(value) for value in launch.hook.operands]
            args += launch.hook.args
        return Task(
            TaskKind.LAUNCH,
            tuple(operands),
            tuple(writes),
            kernel=self._operands.kernel(launch.kernel),
            args=tuple(self._shape.register(a) for a in args),
            grid=self._shape.register(launch.grid),
            scratch=self._operands.scratch(launch.scratch),
            work=self._shape.register(launch.work),
        )

    def _operations(self, step: SelectedNode, items: Sequence[Launch | Copy]) -> dict[int, Dim]:
        """The number of operations of each of ``items``. Launches can have numbers of their own; if none has,
        all operations of the step's nodes count for the launch that is predicted to take longest.
        """
        operations = sum(map(operations_of, step.nodes), start=0)
        launches = {k: item for k, item in enumerate(items) if isinstance(item, Launch)}
        known = {k: item.operations for k, item in launches.items() if item.operations is not None}
        if operations == 0 or not launches:
            return {}
        if known:
            return known
        works = {k: nominal(item.work, self._symbols) for k, item in launches.items()}
        return {max(works, key=works.__getitem__): operations}


def _fits(count: Dim) -> bool:
    """Whether ``count`` fits in an int64 register, as far as known without running."""
    return not isinstance(count, int) or count < 1 << 63

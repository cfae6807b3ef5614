"""Lowers scheduled steps to tasks: memory locations become operands, sizes registers, hazards
dependencies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from graphwright.cost.machine import Machine
from graphwright.cost.nominal import nominal
from graphwright.cost.predict import Work, predict
from graphwright.ir.builtin.fused import op_names
from graphwright.ir.free_symbols import sizes_named
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.interfaces.arithmetic import operations_of
from graphwright.ir.symbols import Dim, SymbolTable, symbol
from graphwright.ir.text import print_op
from graphwright.ir.types import BOOL, U8, TensorType
from graphwright.kernels.launch import (
    Alias,
    Branch,
    Copy,
    Host,
    Launch,
    NativeLoop,
    Run,
    SelectedNode,
)
from graphwright.low_ir.tasks import (
    Binding,
    Block,
    Buffer,
    FunctionOperand,
    HostFunction,
    Operand,
    Storage,
    Task,
    TaskGraph,
    TaskKind,
)
from graphwright.lower.checks import refuse_strings
from graphwright.lower.operands import Operands
from graphwright.lower.shape_program import ShapeProgramBuilder
from graphwright.memory.liveness import conflicts
from graphwright.memory.locations import Location, Move
from graphwright.memory.order import order_steps
from graphwright.memory.storage import Assignment, BlockMoves, Weights, assign_storage
from graphwright.records import dataclass, field, replace
from graphwright.schedule.dependencies import Access, Hazards
from graphwright.schedule.streams import assign_streams

Order = Callable[[Sequence[SelectedNode], Assignment], Sequence[SelectedNode]]
"""Chooses an order of steps, given their storage assignment; returns the same sequence to keep the order."""


@dataclass(frozen=True)
class Lowered:
    """The tasks of a program, with the mapping back to its graph, which debuggers need.

    ``steps`` has the step of each task, None for copies at the end of a block; ``operands`` the operand
    through which tasks access each value.
    """

    tasks: TaskGraph
    steps: tuple[SelectedNode | None, ...]
    operands: Mapping[Value, Operand]


def lower(
    module: Module,
    steps: Sequence[SelectedNode],
    weights: Weights,
    machine: Machine,
    streams: int = 1,
    order: Order = order_steps,
) -> Lowered:
    """Lowers the entry graph of ``module``, whose ranks must all be known. Raises ModelError if tensors hold
    strings.

    ``machine`` is the cost model that predicts the times of copies. ``order`` chooses the order of the steps
    if there is one stream. The program updates states in place, and does not return their next values.
    """
    graph, updates = module.main, module.state_updates()
    refuse_strings(graph)
    shape = ShapeProgramBuilder()
    shape.bind_inputs(graph.inputs, module.symbols)
    assignment = assign_storage(module, steps, weights)
    if streams == 1:
        ordered = order(steps, assignment)
        if ordered is not steps:
            steps, assignment = ordered, assign_storage(module, ordered, weights)
    lowering = _Lowering(graph, shape, module.symbols, assignment, machine, streams)
    return lowering.run(steps, [k for k in range(len(graph.outputs)) if k not in updates])


@dataclass
class _Draft:
    """The tasks of a block under construction, numbered within the block."""

    tasks: list[Task] = field(default_factory=list)
    steps: list[SelectedNode | None] = field(default_factory=list)
    """The step of each task."""
    hazards: Hazards = field(default_factory=Hazards)


class _Lowering:
    def __init__(
        self,
        graph: Graph,
        shape: ShapeProgramBuilder,
        symbols: SymbolTable,
        assignment: Assignment,
        machine: Machine,
        streams: int,
    ) -> None:
        self.graph, self.shape, self.symbols, self.machine = graph, shape, symbols, machine
        self.assignment, self.streams = assignment, streams
        self.operands = Operands(shape, symbols, assignment.locations)
        self.hosts: list[HostFunction] = []
        self.blocks: list[_Draft] = []

    def run(self, steps: Sequence[SelectedNode], results: Sequence[int]) -> Lowered:
        """Lowers ``steps``; ``results`` are the positions of the graph's outputs that the program returns."""
        for value in self.graph.inputs:
            self.operands.number(self.assignment.locations[value].memory)
        for memory in self.assignment.outputs:
            self.operands.number(memory)
        inputs = [self._binding(value, value.name) for value in self.graph.inputs]
        names = self.graph.output_names
        outputs = [self._binding(self.graph.outputs[k], names[k]) for k in results]
        self._block(steps, BlockMoves(end=self.assignment.end_moves))
        tasks, blocks = _flatten(self.blocks)
        graph = TaskGraph(
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            shape=tuple(self.shape.instructions),
            buffers=self._with_conflicts(tasks, blocks),
            tasks=tasks,
            blocks=blocks,
            kernels=tuple(self.operands.kernels),
            hosts=tuple(self.hosts),
        )
        steps_of_tasks = chain.from_iterable(block.steps for block in self.blocks)
        return Lowered(graph, tuple(steps_of_tasks), self.operands.of_values)

    def _with_conflicts(self, tasks: Sequence[Task], blocks: Sequence[Block]) -> tuple[Buffer, ...]:
        buffers = self.operands.buffers
        planned = [i for i, b in enumerate(buffers) if b.storage in (Storage.ARENA, Storage.SCRATCH)]
        found = conflicts(planned, tasks, blocks)
        return tuple(replace(b, conflicts=found.get(i, ())) for i, b in enumerate(buffers))

    def _binding(self, value: Value, name: str) -> Binding:
        return Binding(name, value.type.dtype, self.operands.registers(value.type))

    # -- blocks ---------------------------------------------------------------------------------------------

    def _block(self, steps: Sequence[SelectedNode], moves: BlockMoves, number: Value | None = None) -> int:
        """Lowers ``steps`` to a block, with the copies ``moves`` between and after them; returns its index.
        ``number`` is the iteration counter if the block is the body of a loop.
        """
        index = len(self.blocks)
        was_inner, self.operands.is_inner = self.operands.is_inner, index > 0
        draft = _Draft()
        self.blocks.append(draft)
        streams = assign_streams(steps, self.streams)
        self._add_rows(draft, moves, None, number)
        for step in steps:
            for task in self._described(step, self._tasks(step)):
                self._add(draft, task, step, streams[step.node])
            self._add_rows(draft, moves, step.node, number)
        for move in moves.end:
            self._add(draft, self._move(move))
        self.operands.is_inner = was_inner
        return index

    def _add_rows(self, draft: _Draft, moves: BlockMoves, after: Node | None, number: Value | None) -> None:
        """Adds the copies of scan outputs that follow the step of node ``after``."""
        for move in moves.rows.get(after, ()):
            assert number is not None  # only loops have scan outputs
            self._add(draft, self._move(move, self.operands.operand(number)))

    def _add(self, draft: _Draft, task: Task, step: SelectedNode | None = None, stream: int = 0) -> None:
        after = draft.hazards.add(len(draft.tasks), stream, self._accesses(task))
        name = "" if step is None else step.location
        draft.tasks.append(replace(task, after=after, stream=stream, name=name))
        draft.steps.append(step)

    def _accesses(self, task: Task) -> list[Access]:
        own = [
            Access(operand.buffer, operand.offset, position in task.writes)
            for position, operand in enumerate(task.operands)
            if isinstance(operand, Operand)
        ]
        return own + [access for block in task.blocks for access in self._touched(block)]

    def _touched(self, block: int) -> list[Access]:
        """The accesses of all tasks in a block, which count as accesses of the task that contains it."""
        return [access for task in self.blocks[block].tasks for access in self._accesses(task)]

    def _described(self, step: SelectedNode, tasks: Sequence[Task]) -> list[Task]:
        """``tasks`` with the ops and operation counts that profiles show."""
        nodes = (*step.before, step.node)
        ops = " + ".join(name for node in nodes for name in op_names(node))
        counts = self._operations(step, sum((operations_of(node) for node in nodes), start=0))
        return [
            replace(task, ops=ops, operations=self._counter(counts.get(k, 0))) for k, task in enumerate(tasks)
        ]

    def _counter(self, operations: Dim) -> int:
        """The register of the count; -1 for 0."""
        return self.shape.register(operations) if operations != 0 and _fits(operations) else -1

    def _operations(self, step: SelectedNode, operations: Dim) -> dict[int, Dim]:
        """The number of operations of each task of ``step``, which does ``operations``. Launches can have
        numbers of their own; if none has, all count for the launch that is predicted to take longest.
        """
        if not isinstance(step.action, Run) or operations == 0:
            return {}
        items = [item for item in step.action.launches if not self._is_redundant_copy(item)]
        launches = {k: item for k, item in enumerate(items) if isinstance(item, Launch)}
        known = {k: item.operations for k, item in launches.items() if item.operations is not None}
        if known or not launches:
            return known
        works = {k: nominal(item.work, self.symbols) for k, item in launches.items()}
        return {max(works, key=works.__getitem__): operations}

    # -- tasks ----------------------------------------------------------------------------------------------

    def _tasks(self, step: SelectedNode) -> list[Task]:
        action = step.action
        if isinstance(action, Alias):
            return []
        if isinstance(action, Branch):
            return [self._branch(step, action)]
        if isinstance(action, NativeLoop):
            return self._loop(step, action)
        if isinstance(action, Host):
            return [self._host(step)]
        return [self._launch_or_copy(item) for item in action.launches if not self._is_redundant_copy(item)]

    def _is_redundant_copy(self, item: Launch | Copy) -> bool:
        """Whether it is a copy whose source already is at its target."""
        if not isinstance(item, Copy):
            return False
        source, target = self.assignment.locations[item.source], self.assignment.locations[item.target]
        return item in self.assignment.elided or source == Location(
            target.memory, target.offset + item.offset
        )

    def _launch_or_copy(self, item: Launch | Copy) -> Task:
        return self._copy(item) if isinstance(item, Copy) else self._launch(item)

    def _launch(self, launch: Launch) -> Task:
        operands: list[Operand | FunctionOperand | None] = [
            None if item is None else self.operands.kernel_operand(item) for item in launch.operands
        ]
        writes, args = list(launch.writes), list(launch.args)
        if launch.takes_hook:
            operands.append(
                None if launch.hook is None else FunctionOperand(self.operands.kernel(launch.hook.kernel))
            )
        if launch.hook is not None:
            writes += [position + len(operands) for position in launch.hook.writes]
            operands += [self.operands.operand(value) for value in launch.hook.operands]
            args += launch.hook.args
        return Task(
            TaskKind.LAUNCH,
            tuple(operands),
            tuple(writes),
            kernel=self.operands.kernel(launch.kernel),
            args=tuple(self.shape.register(a) for a in args),
            grid=self.shape.register(launch.grid),
            scratch=self.operands.scratch(launch.scratch),
            work=self.shape.register(launch.work),
        )

    def _copy(self, copy: Copy) -> Task:
        location = self.assignment.locations[copy.target]
        target = Location(location.memory, location.offset + copy.offset)
        return self._move(Move(self.assignment.locations[copy.source], target, copy.source.bytes))

    def _move(self, move: Move, *number: Operand) -> Task:
        register = self.shape.register
        target, source = (
            Operand(self.operands.number(p.memory), register(p.offset)) for p in (move.target, move.source)
        )
        work = register(predict(Work(moved=2 * move.size), self.machine))
        return Task(TaskKind.COPY, (target, source, *number), (0,), args=(register(move.size),), work=work)

    def _branch(self, step: SelectedNode, branch: Branch) -> Task:
        index, moves = branch.index, self.assignment.branch_moves
        blocks = tuple(
            self._block(steps, BlockMoves(end=moves[step.node, number]))
            for number, steps in enumerate(branch.blocks)
        )
        args = () if index.type.dtype is BOOL else (self.shape.register(index.type.dtype.bytes),)
        return Task(TaskKind.IF, (self.operands.operand(index),), args=args, blocks=blocks)

    def _loop(self, step: SelectedNode, loop: NativeLoop) -> list[Task]:
        moves = self.assignment.loop_moves[step.node]
        control = (loop.number, loop.limit, loop.condition)
        return [
            *map(self._move, moves.before),
            Task(
                TaskKind.LOOP,
                tuple(None if value is None else self.operands.operand(value) for value in control),
                (0,),
                args=() if loop.trips is None else (self.shape.register(loop.trips),),
                blocks=(self._block(loop.steps, moves, loop.number),),
            ),
        ]

    def _host(self, step: SelectedNode) -> Task:
        node = step.node
        types = [None if v is None else (v.type.dtype, self.operands.registers(v.type)) for v in node.inputs]
        results = tuple((v.type.dtype, self.operands.registers(v.type)) for v in node.outputs)
        inputs = [None if v is None else self.operands.operand(v) for v in node.inputs]
        outputs = [self.operands.operand(v) for v in node.outputs]
        if names := sizes_named(node.op):
            types.append((U8, self.operands.registers(TensorType(U8, (0, *map(symbol, names))))))
            inputs.append(next(filter(None, inputs), outputs[0]))  # any memory: the array is empty
        self.hosts.append(HostFunction(print_op(node.op), tuple(types), results))
        operands = (*inputs, *outputs)
        writes = tuple(range(len(inputs), len(operands)))
        return Task(TaskKind.HOSTCALL, operands, writes, kernel=len(self.hosts) - 1)


def _fits(count: Dim) -> bool:
    """Whether ``count`` fits in an int64 register, as far as known without running."""
    return not isinstance(count, int) or count < 1 << 63


def _flatten(drafts: Sequence[_Draft]) -> tuple[tuple[Task, ...], tuple[Block, ...]]:
    """Numbers the tasks of all blocks consecutively; inner blocks follow the block that contains them."""
    first = 0
    blocks: list[Block] = []
    for draft in drafts:
        blocks.append(Block(first, len(draft.tasks)))
        first += len(draft.tasks)
    tasks = tuple(
        replace(task, after=tuple(blocks[number].first + a for a in task.after)) if number else task
        for number, draft in enumerate(drafts)
        for task in draft.tasks
    )
    return tasks, tuple(blocks)

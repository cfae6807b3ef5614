"""Lowers scheduled steps to tasks: memory locations become operands, sizes registers, hazards
dependencies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from graphwright.cost.machine import Machine
from graphwright.ir.builtin.fused import op_names
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.symbols import SymbolTable
from graphwright.ir.types import BOOL
from graphwright.kernels.launch import Alias, Branch, Host, NativeLoop, SelectedNode
from graphwright.low_ir.tasks import Binding, Block, Buffer, Operand, Storage, Task, TaskGraph, TaskKind
from graphwright.lower.checks import refuse_strings
from graphwright.lower.operands import Operands
from graphwright.lower.shape_program import ShapeProgramBuilder
from graphwright.lower.step_tasks import StepTasks
from graphwright.memory.liveness import conflicts
from graphwright.memory.step_order import order_steps
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
    """Nests the tasks of steps in blocks."""

    def __init__(
        self,
        graph: Graph,
        shape: ShapeProgramBuilder,
        symbols: SymbolTable,
        assignment: Assignment,
        machine: Machine,
        streams: int,
    ) -> None:
        self.graph, self.shape = graph, shape
        self.assignment, self.streams = assignment, streams
        self.operands = Operands(shape, symbols, assignment.locations)
        self.tasks = StepTasks(shape, symbols, assignment, self.operands, machine)
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
            hosts=tuple(self.tasks.hosts),
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
            for task in self._tasks(step):
                self._add(draft, task, step, streams[step.node])
            self._add_rows(draft, moves, step.node, number)
        for move in moves.end:
            self._add(draft, self.tasks.move(move))
        self.operands.is_inner = was_inner
        return index

    def _add_rows(self, draft: _Draft, moves: BlockMoves, after: Node | None, number: Value | None) -> None:
        """Adds the copies of scan outputs that follow the step of node ``after``."""
        for move in moves.rows.get(after, ()):
            assert number is not None  # only loops have scan outputs
            self._add(draft, self.tasks.move(move, self.operands.operand(number)))

    def _add(self, draft: _Draft, task: Task, step: SelectedNode | None = None, stream: int = 0) -> None:
        after = draft.hazards.add(len(draft.tasks), stream, self._accesses(task))
        if step is not None:
            ops = " + ".join(name for node in step.nodes for name in op_names(node))
            task = replace(task, name=step.location, ops=ops)
        draft.tasks.append(replace(task, after=after, stream=stream))
        draft.steps.append(step)

    def _accesses(self, task: Task) -> list[Access]:
        """The accesses of ``task``, and of the tasks in its blocks."""
        own = [
            Access(operand.buffer, operand.offset, position in task.writes)
            for position, operand in enumerate(task.operands)
            if isinstance(operand, Operand)
        ]
        inner = (task for block in task.blocks for task in self.blocks[block].tasks)
        return own + [access for each in inner for access in self._accesses(each)]

    def _tasks(self, step: SelectedNode) -> list[Task]:
        action = step.action
        if isinstance(action, Alias):
            return []
        if isinstance(action, Branch):
            return [self._branch(step, action)]
        if isinstance(action, NativeLoop):
            return self._loop(step, action)
        return [self.tasks.host(step.node)] if isinstance(action, Host) else self.tasks.run(step, action)

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
            *map(self.tasks.move, moves.before),
            Task(
                TaskKind.LOOP,
                tuple(None if value is None else self.operands.operand(value) for value in control),
                (0,),
                args=() if loop.trips is None else (self.shape.register(loop.trips),),
                blocks=(self._block(loop.steps, moves, loop.number),),
            ),
        ]


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

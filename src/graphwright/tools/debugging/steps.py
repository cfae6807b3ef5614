"""Compares each step of a native run with the references of its nodes on the same operands.

Errors of earlier steps are in the operands of both, so only steps that are at fault differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod

import numpy as np

from graphwright.ir.evaluate import Evaluator, evaluate_module, in_f64, input_sizes
from graphwright.ir.graph import Graph, Node, Value
from graphwright.ir.inference.infer import fact_of
from graphwright.ir.op import Array
from graphwright.ir.op.region_op import region_op
from graphwright.kernels.launch import SelectedNode
from graphwright.kernels.steps import step_values
from graphwright.low_ir.probes import Moment
from graphwright.low_ir.tasks import FunctionOperand, Operand, Task, TaskGraph, TaskKind
from graphwright.records import dataclass, field
from graphwright.tools.check import Distance, distance
from graphwright.tools.debugging.history import CompiledGraph
from graphwright.tools.debugging.program_values import ProgramRun, Reading, is_number, is_readable
from graphwright.tools.debugging.programs import DebuggedProgram


@dataclass(frozen=True)
class Span:
    """A step, and the numbers of its first and last task."""

    step: SelectedNode
    first: int
    last: int


@dataclass(frozen=True)
class StepResult:
    """The result of a step for one of its outputs, and the expected result on the same operands."""

    span: Span
    node: Node
    """The node in the snapshot."""
    value: Value
    """The output in the snapshot."""
    got: Array
    expected: Array
    operands: tuple[tuple[Value, Array], ...]
    """The operands that it read, by values of the snapshot."""

    @property
    def distance(self) -> Distance:
        """The distance from the expected result. For integers, a difference of 1 is ignored, as quantization
        rounds.
        """
        if self.got.dtype.kind in "iu" and self.got.shape == self.expected.shape:
            apart = np.abs(self.got.astype(np.float64) - self.expected)
            if self.got.dtype.itemsize == 1 and apart.max(initial=0) <= 1:
                return Distance(0.0, 0.0)
        return distance(self.got, self.expected)


@dataclass
class StepWalk:
    """Walks the steps of a native run in the order of the graph. ``known`` has the values so far: those of
    the run where available, else those of references.
    """

    program: DebuggedProgram
    known: dict[Value, Array] = field(default_factory=dict)
    outputs: list[Array] = field(default_factory=list)
    """The outputs of the run."""
    native: dict[Value, Reading] = field(default_factory=dict)
    """The readings of values of the run."""

    def __iter__(self) -> Iterator[StepResult]:
        """The outputs of all steps that are in memory after their tasks; for branches, those of the taken
        one.
        """
        graph, run = self.program.graph, self.program.run
        module, wide = graph.module, [in_f64(array) for array in run.arrays]
        spans = {graph.nodes[node]: span for node, span in task_spans(graph, run.lowered.steps).items()}
        native, written = self._read(spans), self._written()
        evaluator = Evaluator(module, input_sizes(module.main, wide), wide=True)
        self.known |= dict(zip(module.main.inputs, wide, strict=True))
        for node, results in self._walk(module.main, evaluator, self._branches_that_ran(spans)):
            for value, expected in zip(node.outputs, results, strict=True):
                evaluator.bind_sizes(value, expected)
                got = native.get(value)
                self.known[value] = expected if got is None else in_f64(got)
                if got is not None:
                    pair = _first_elements(got, expected, written.get(value))
                    named = _operands(graph, spans[node].step, self.known)
                    yield StepResult(spans[node], node, value, *pair, named)

    def _walk(
        self, graph: Graph, evaluator: Evaluator, ran: Collection[Graph]
    ) -> Iterator[tuple[Node, Sequence[Array]]]:
        """The nodes of ``graph`` and of the branches that ``ran``, with their results on the known values.
        The nodes of a branch precede the node that selects it.
        """
        for node in graph:
            operands = [None if v is None else self.known[v] for v in node.inputs]
            region = _selected_branch(node, operands) if any(each in ran for each in node.regions) else None
            if region is None or region not in ran:
                yield node, evaluator.node(node, operands)
                continue
            given = operands[len(operands) - len(region.inputs) :]
            for value, array in zip(region.inputs, given, strict=True):
                evaluator.bind_sizes(value, array)
                if array is not None:
                    self.known[value] = array
            yield from self._walk(region, evaluator, ran)
            yield node, [self.known[value] for value in region.outputs]

    def _branches_that_ran(self, spans: Mapping[Node, Span]) -> set[Graph]:
        """The branches of the snapshot with a task that ran."""
        main = self.program.graph.module.main
        if all(node.graph is main for node in spans):
            return set()
        ran = self.program.run.tasks_that_ran()
        found = {node.graph for node, span in spans.items() if span.first in ran}
        return {graph for graph in found if graph is not None and graph is not main}

    def _read(self, spans: Mapping[Node, Span]) -> dict[Value, Array]:
        """The values in memory after the steps, by values of the snapshot."""
        graph, run = self.program.graph, self.program.run
        shapes, values = shapes_of(graph, run.arrays), graph.values
        self.native = {
            values[value]: Reading(Moment(span.last), value, shapes[values[value]])
            for span in spans.values()
            for value in span.step.node.outputs
            if is_readable(value, run.lowered.operands) and values[value] in shapes
        }
        arrays, self.outputs = run.read(list(self.native.values()))
        return dict(zip(self.native, arrays, strict=True))

    def _written(self) -> dict[Value, int]:
        """The written elements of outputs that are only partly written."""
        outputs = self.program.graph.module.main.outputs
        return {
            outputs[number]: abs(int(self.outputs[count]) ** shape.count(-1) * prod(shape))
            for number, (count, shape) in self.program.partial.items()
        }


def _first_elements(got: Array, expected: Array, count: int | None) -> tuple[Array, Array]:
    """The first elements of both arrays, as many as are written; all if the number is None."""
    if count is None or count >= got.size:
        return got, expected
    return got.ravel()[:count], expected.ravel()[:count]


def _selected_branch(node: Node, operands: Sequence[Array | None]) -> Graph | None:
    """The branch that ``node`` takes."""
    number = region_op(node.op).selected_region(*map(fact_of, operands))
    return None if number is None else node.regions[number]


def shapes_of(graph: CompiledGraph, arrays: Sequence[Array]) -> dict[Value, tuple[int, ...]]:
    """The shapes of all arrays among the values of a snapshot for the inputs ``arrays``; if types have
    unknown sizes, they are found by an evaluation.
    """
    module = graph.module
    values = list(graph.values.values())
    if all(value.type.is_static for value in values):
        return {value: value.type.sizes for value in values}
    shapes: dict[Value, tuple[int, ...]] = {}

    def note(value: Value, array: object) -> None:
        if is_number(array):
            shapes[value] = array.shape

    evaluate_module(module, arrays, observe=note)
    return shapes


def task_spans(graph: CompiledGraph, steps: Sequence[SelectedNode | None]) -> dict[Node, Span]:
    """The tasks of each step of ``graph``, by its node, in the order of the tasks."""
    spans: dict[Node, Span] = {}
    for number, step in enumerate(steps):
        if step is not None and step.node in graph.nodes:
            first = spans[step.node].first if step.node in spans else number
            spans[step.node] = Span(step, first, number)
    return spans


def _operands(
    graph: CompiledGraph, step: SelectedNode, known: Mapping[Value, Array]
) -> tuple[tuple[Value, Array], ...]:
    """The values of the snapshot that a step reads, including constants."""
    nodes = [graph.nodes[node] for node in (*step.before, step.node)]
    defined = {value for node in nodes for value in node.outputs}
    read = dict.fromkeys(v for node in nodes for v in node.inputs if v is not None and v not in defined)
    return tuple((value, known[value]) for value in read)


@dataclass(frozen=True)
class Overwritten:
    """An operand that changed after the task that computed it and before a task that read it."""

    value: Value
    """The operand in the snapshot."""
    by: int | None
    """The number of the task after which it had changed; None if it was wrong from the start."""


def overwritten(found: StepResult, walk: StepWalk) -> Overwritten | None:
    """The first operand of the step of ``found`` that was overwritten. Either it differed, right before the
    step, from what its own step had computed, or the step changed it although it declares no write. None if
    there is none.
    """
    graph, run, span = walk.program.graph, walk.program.run, found.span
    wanted = [
        value
        for value in dict.fromkeys(step_values(span.step))
        if is_readable(value, run.lowered.operands) and graph.values.get(value) in walk.known
    ]
    expected = [walk.known[graph.values[value]] for value in wanted]
    readings = [
        Reading(moment, value, array.shape)
        for moment in (Moment(span.first, before=True), Moment(span.last))
        for value, array in zip(wanted, expected, strict=True)
    ]
    if not readings:
        return None
    arrays, _ = run.read(readings)
    written = _written_buffers(run, span)
    for reading, array, right in zip(readings, arrays, expected * 2, strict=True):
        is_own = not reading.moment.before and run.lowered.operands[reading.value].buffer in written
        if same_elements(array, right) or is_own:
            continue
        by = who_changed(run, reading, right) if reading.moment.before else span.last
        return Overwritten(graph.values[reading.value], by)
    return None


def _written_buffers(run: ProgramRun, span: Span) -> set[int]:
    """The buffers that the tasks of a step write, including those in branches and loops."""
    graph = run.lowered.tasks
    pending, written = list(graph.tasks[span.first : span.last + 1]), set()
    while pending:
        task = pending.pop()
        operands = (task.operands[position] for position in task.writes)
        written |= {operand.buffer for operand in operands if isinstance(operand, Operand)}
        for block in (graph.blocks[number] for number in task.blocks):
            pending += graph.tasks[block.first : block.first + block.count]
    return written


def who_changed(run: ProgramRun, reading: Reading, expected: Array) -> int | None:
    """The number of the first task before a reading after which a value differs from ``expected``."""
    tasks = _tasks_before(run.lowered.tasks, reading.moment)
    arrays, _ = run.read([Reading(Moment(task), reading.value, reading.shape) for task in tasks])
    right = [same_elements(array, expected) for array in arrays]
    if True not in right:
        return None
    last = len(right) - 1 - right[::-1].index(True)
    return tasks[last + 1] if last + 1 < len(tasks) else None


def _tasks_before(graph: TaskGraph, moment: Moment) -> list[int]:
    """The numbers of the tasks of the same block that run before a moment, in order."""
    holders = {block: number for number, task in enumerate(graph.tasks) for block in task.blocks}
    tasks: list[int] = []
    task, is_in = moment.task, not moment.before
    while True:
        number, block = next(
            (k, b) for k, b in enumerate(graph.blocks) if b.first <= task < b.first + b.count
        )
        tasks = [*range(block.first, task + is_in), *tasks]
        if number not in holders:
            return tasks
        task, is_in = holders[number], False


def same_elements(array: Array, expected: Array) -> bool:
    """Whether ``array`` equals ``expected``; f32 values are compared in f64."""
    return np.array_equal(in_f64(array), expected, equal_nan=expected.dtype.kind in "fc")


def kernel_names(run: ProgramRun, span: Span) -> list[str]:
    """The kernels of a step's tasks, with the epilogues that they call."""
    tasks = run.lowered.tasks.tasks[span.first : span.last + 1]
    return list(dict.fromkeys(name for task in tasks for name in _kernels(run, task)))


def _kernels(run: ProgramRun, task: Task) -> list[str]:
    graph = run.lowered.tasks
    if task.kind is not TaskKind.LAUNCH:
        return [task.kind.name.lower()]
    numbers = [task.kernel, *(o.kernel for o in task.operands if isinstance(o, FunctionOperand))]
    return [str(graph.kernels[number].symbol) for number in numbers]

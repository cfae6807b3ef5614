"""Host programs, for graphs that no single program can run: steps that the host runs, and a module for each
program that it calls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from graphwright.compiler.code_generation import Compilation
from graphwright.compiler.host_nodes import bound_by
from graphwright.compiler.interface import constraint_texts, guard_texts, input_specs, output_specs, spec_of
from graphwright.compiler.partition import Group, GroupKind, Partition, device_of, partition
from graphwright.compiler.subgraphs import closed_copy, compiled_region, module_of, unbound_sizes
from graphwright.errors import Diagnostic, ModelError
from graphwright.executable.nodes import (
    COMPILE,
    BindSize,
    CallHost,
    CallProgram,
    Dispatch,
    Executable,
    HostProgram,
    HostStep,
    with_callees,
)
from graphwright.executable.specs import TensorSpec
from graphwright.ir.builtin.constant import constant_of
from graphwright.ir.builtin.subgraph import Subgraph
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.op import ConstRef
from graphwright.ir.op.region_op import LoopOp
from graphwright.ir.text import print_op
from graphwright.ops.core.bind_size import BindSize as BindSizeOp
from graphwright.passes.base import Record
from graphwright.passes.dead_code import DeadCode
from graphwright.records import replace


def _place(nodes: Iterable[Node], device: str) -> None:
    """Places ``nodes`` on ``device``; nodes that passes created have no device yet."""
    for value in (value for node in nodes for value in node.outputs):
        value.device = device


def _is_native_loop(node: Node, bodies: Sequence[HostProgram]) -> bool:
    """Whether ``node`` is a loop that native code can run: each size that can change between iterations, and
    that programs of the body receive, is that of an axis.
    """
    if not isinstance(node.op, LoopOp) or not bodies[0].is_native:
        return False
    where, region = node.op.loop_carried(), node.regions[0]
    changing = region.inputs[where.received]
    scaled = bound_by(changing, ()) - {str(dim) for value in changing for dim in value.type.shape or ()}
    calls = [step for step in bodies[0].steps if isinstance(step, CallProgram)]
    ranked = all(spec.shape is not None for call in calls for spec in call.callee.inputs)
    return ranked and scaled.isdisjoint(name for call in calls for name in call.sizes)


class HostProgramDraft:
    """A host program whose callees are not compiled yet. It replaces the nodes of each program in ``module``
    by a Subgraph node.

    ``numbers`` numbers the subgraphs, across several drafts.
    """

    def __init__(self, module: Module, found: Partition, numbers: Iterator[int]) -> None:
        self.module = module
        self.modules: dict[int, Module] = {}
        """The module to compile for each subgraph, by number."""
        self._nodes: dict[int, Node] = {}
        self.read: dict[str, ConstRef] = {}
        """Constants that the host reads, by digest."""
        self._numbers = numbers
        self._program = self._graph(module.main, found, (), module.state_updates())

    def device(self, number: int) -> str:
        """The device of subgraph ``number``; empty for the default."""
        return device_of(self._nodes[number])

    def completed(self, compiled: Mapping[int, Compilation]) -> HostProgram:
        """The host program with its callees. Puts the compiled graphs back into the module."""
        callees: dict[int, Executable] = {}
        for number, compilation in compiled.items():
            node, device = self._nodes[number], self.device(number)
            callees[number] = replace(compilation.program, device=device)
            node.regions = (compiled_region(compilation.module.main, node),)
            _place(node.regions[0].walk(), device)
            self.module.constants.merge(compilation.module.constants)
        DeadCode().run(self.module, Record("dead_code"))
        program = with_callees(self._program, callees)
        return replace(program, guards=guard_texts(self.module), constraints=self._unchecked_constraints())

    def _unchecked_constraints(self) -> tuple[str, ...]:
        """The constraints that no subgraph checks, as they relate sizes of several subgraphs."""
        seen = {each for module in self.modules.values() for each in module.symbols.constraints}
        return constraint_texts(each for each in self.module.symbols.constraints if each not in seen)

    def _graph(
        self,
        graph: Graph,
        found: Partition,
        bound: Collection[str],
        updates: Mapping[int, int] | None = None,
    ) -> HostProgram:
        """The host program of ``graph``, with steps in execution order. ``updates`` maps outputs to the
        states whose next values they are.
        """
        values = _Values(graph.inputs)
        for node in [node for node in graph if node.is_constant]:
            graph.move(node, None)
        constants = self._constants(graph, found, values)
        known = bound_by(graph.inputs, bound)
        steps: list[HostStep] = []
        for group in found.groups:
            if group.kind is not GroupKind.HOST:
                steps.append(self._call(graph, group, values))
                continue
            for node in group.nodes:
                graph.move(node, None)
                if isinstance(node.op, BindSizeOp):
                    steps.append(_bind_size(node, node.op, values))
                else:
                    steps.append(self._host(node, found.reasons[node], values, known))
                known = bound_by(node.outputs, known)
        updates = updates or {}
        numbers = [values.numbers[value] for value in graph.outputs]
        results = tuple(number for k, number in enumerate(numbers) if k not in updates)
        updated = tuple((source, numbers[k]) for k, source in updates.items())
        return HostProgram(len(graph.inputs), tuple(values.specs), constants, tuple(steps), results, updated)

    def _constants(self, graph: Graph, found: Partition, values: _Values) -> tuple[tuple[int, str], ...]:
        """Number and digest of each constant that the host reads or that is an output."""
        read = [value for node in found.reasons for value in node.inputs] + list(graph.outputs)
        numbered = []
        for value in dict.fromkeys(read):
            if value is not None and (constant := constant_of(value)) is not None:
                ref = constant.value
                self.read[ref.digest] = ref
                numbered.append((values.add(value), ref.digest))
        return tuple(numbered)

    def _host(self, node: Node, reason: str, values: _Values, known: set[str]) -> CallHost:
        bodies = tuple(self._graph(region, partition(region, known), known) for region in node.regions)
        return CallHost(
            print_op(node.op),
            node.location,
            reason,
            tuple(None if value is None else values.numbers[value] for value in node.inputs),
            tuple(map(values.add, node.outputs)),
            bodies,
            _is_native_loop(node, bodies),
        )

    def _call(self, graph: Graph, group: Group, values: _Values) -> CallProgram:
        """Replaces the nodes of ``group`` by one Subgraph node, and returns the call of it."""
        number = next(self._numbers)
        region, inputs, outputs = closed_copy(group.nodes, f"subgraph{number}")
        types = [value.type for value in outputs]
        sources = tuple(source for node in group.nodes for source in node.sources)
        op = Subgraph(len(outputs), number)
        node = graph.append(Node(op, inputs, types, (region,), sources=sources))
        _place([node], group.device)
        sizes = unbound_sizes(region)
        for old, new in zip(outputs, node.outputs, strict=True):
            graph.replace_all_uses(old, new)
        for old_node in reversed(group.nodes):
            graph.erase(old_node)
        module = module_of(self.module, region, sizes)
        if group.kind is GroupKind.PROGRAM:
            self.modules[number], self._nodes[number] = module, node
        elif group.device:
            hint = "give the shapes of the inputs, or leave the node on the default device"
            message = f"its inputs have unknown rank, which the device {group.device!r} does not support"
            raise ModelError(Diagnostic("device", message, group.nodes[0].location, hint))
        numbers = tuple(values.numbers[value] for value in inputs)
        results = tuple(map(values.add, node.outputs))
        callee = Dispatch(input_specs(module), output_specs(module), (), COMPILE, number)
        return CallProgram(number, numbers, sizes, results, callee)


def _bind_size(node: Node, op: BindSizeOp, values: _Values) -> BindSize:
    inputs = tuple(values.numbers[value] for value in node.inputs if value is not None)
    return BindSize(op.size, op.shapes, node.location, inputs, tuple(map(values.add, node.outputs)))


class _Values:
    """Numbers the values of a host program, and holds a spec of each."""

    def __init__(self, inputs: Iterable[Value]) -> None:
        self.numbers: dict[Value, int] = {}
        self.specs: list[TensorSpec] = []
        for value in inputs:
            self.add(value)

    def add(self, value: Value) -> int:
        """Numbers ``value``."""
        self.numbers[value] = len(self.specs)
        self.specs.append(spec_of(value, value.name))
        return self.numbers[value]

"""Compiling a graph that was cut: each part as a module of its own, all on one set of weights and kernels."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from graphwright.compiler import Observer, compile_modules, package_module, spec_of
from graphwright.config import Options
from graphwright.ir.clone import clone_graph, copy_node
from graphwright.ir.constant import Constant, is_constant
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.mentions import symbols_of
from graphwright.ir.names import UniqueNames
from graphwright.ir.op import ConstRef
from graphwright.ir.part import Part
from graphwright.ir.symbols import symbol
from graphwright.ir.text import print_op
from graphwright.ir.types import U8, TensorType
from graphwright.ops.front import Front
from graphwright.package.package import Package, TensorSpec, Variant
from graphwright.package.stages import FrontStep, HostStep, PartStep, Stages, Step
from graphwright.package.weights import UnpackedWeights, pack_weights
from graphwright.passes.base import Record
from graphwright.passes.dead_code import DeadCode
from graphwright.records import replace
from graphwright.report import stages_report
from graphwright.stages.cut import Cut, Group, Kind, bound_by, cut


def package_stages(
    module: Module, found: Cut, options: Options, observe: Observer = lambda name, product: None
) -> Package:
    """The package of ``module``, which is changed: the parts that ``found`` cuts it into become Part nodes.

    Raises ModelError, ToolchainError.
    """
    draft = _Draft(module)
    stages = draft.graph(module.main, found, ())
    shared = pack_weights({digest: module.constants[ref] for digest, ref in draft.read.items()})
    compiled = (
        compile_modules(list(draft.modules.values()), options, observe, shared) if draft.modules else []
    )
    made = dict(zip(draft.modules, compiled, strict=True))
    for node, one in made.items():
        node.regions = (_region(one.module.main, node),)
        module.constants.merge(one.module.constants)
    weights = compiled[0].package.weights if compiled else shared
    DeadCode().run(module, Record("dead_code"))
    package = package_module(module, options, weights)
    spare = {r.digest: module.constants.held(r) for r in module.constants if r.digest not in weights.tensors}
    programs = {_number(node): one.package for node, one in made.items()}
    stages = _with_programs(stages, programs)
    report = stages_report(stages, {number: one.report for number, one in programs.items()})
    return replace(package, stages=stages, report=report, spare=partial(UnpackedWeights, spare))


def part_of(module: Module, part: PartStep) -> Module:
    """A part of ``module``, which was cut, as a module of its own."""
    node = next(n for n in module.walk() if isinstance(n.op, Part) and n.op.number == part.number)
    return part_module(module, node.regions[0], part.sizes)


def rank_inputs(module: Module, ranks: Sequence[int]) -> None:
    """Give inputs of unknown rank ``ranks``, and sizes of their own."""
    for value, rank in zip(module.main.inputs, ranks, strict=True):
        if value.type.shape is None:
            dims = tuple(module.symbols.fresh(f"{value.name}_{axis}") for axis in range(rank))
            value.type = TensorType(value.type.dtype, dims)


def part_module(module: Module, region: Graph, sizes: Sequence[str]) -> Module:
    """``region`` as the entry of a module of its own, to which further inputs tell ``sizes``."""
    made = Module()
    made.constants = module.constants.copy()
    main = made.add_graph(clone_graph(region, "main"))
    taken = UniqueNames()
    for value in main.inputs:
        value.name = taken.take(value.name or "value")
    for size in sizes:
        main.add_input(TensorType(U8, (symbol(size), 0)), taken.take(f"size of {size}"))
    table = module.symbols
    told = bound_by(main.inputs, ())
    made.symbols = replace(
        table.copy(),
        constraints={c: None for c in table.constraints if c.names <= told},
        guards={g: None for g in table.guards if g.names <= told},
    )
    return made


def _number(node: Node) -> int:
    assert isinstance(node.op, Part)
    return node.op.number


def _region(main: Graph, node: Node) -> Graph:
    """The compiled ``main`` as the region of its Part: without the inputs that tell sizes."""
    for index in range(len(main.inputs) - 1, len(node.inputs) - 1, -1):
        main.remove_input(index)
    main.name = node.regions[0].name
    return main


def _with_programs(stages: Stages, packages: Mapping[int, Package]) -> Stages:
    """``stages`` with the programs of its parts, and of its bodies'."""

    def filled(step: Step) -> Step:
        if isinstance(step, FrontStep):
            return step
        if isinstance(step, HostStep):
            bodies = (_with_programs(body, packages) for body in step.bodies)
            return replace(step, bodies=tuple(bodies))
        one = packages.get(step.number)
        return replace(step, program=Variant(one.inputs, one.outputs, one.targets)) if one else step

    return replace(stages, steps=tuple(map(filled, stages.steps)))


def _repeats(node: Node, bodies: Sequence[Stages]) -> bool:
    """Whether ``node`` is a loop whose body is one program, which sees every size that a run may change."""
    where = node.op.carried()
    if where is None or len(bodies[0].steps) != 1:
        return False
    (step,) = bodies[0].steps
    region = node.regions[0]
    changing = region.inputs[where.receive : where.receive + where.count]
    return isinstance(step, PartStep) and not step.is_open and not set(step.sizes) & bound_by(changing, ())


class _Draft:
    """Turns graphs into stages; parts get their programs later, all at once."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.modules: dict[Node, Module] = {}
        """What is to be compiled for each Part node."""
        self.read: dict[str, ConstRef] = {}
        """Constants that the host reads."""
        self._parts = 0

    def graph(self, graph: Graph, found: Cut, bound: Collection[str]) -> Stages:
        """The stages of ``graph``, whose parts become Part nodes, in the order in which they run."""
        values = _Values(graph.inputs)
        for node in [node for node in graph if isinstance(node.op, Constant)]:
            graph.move(node, None)
        constants = self._constants(graph, found, values)
        known = bound_by(graph.inputs, bound)
        steps: list[Step] = []
        for group in found.groups:
            if group.kind is Kind.HOST:
                for node in group.nodes:
                    graph.move(node, None)
                    if isinstance(node.op, Front):
                        steps.append(_front(node, node.op, values))
                    else:
                        steps.append(self._host(node, found.reasons[node], values, known))
                    known = bound_by(node.outputs, known)
            else:
                steps.append(self._part(graph, group, values))
        outputs = tuple(values.numbers[value] for value in graph.outputs)
        return Stages(len(graph.inputs), tuple(values.specs), constants, tuple(steps), outputs)

    def _constants(self, graph: Graph, found: Cut, values: _Values) -> tuple[tuple[int, str], ...]:
        """Numbers and digests of the constants that the host reads or that are outputs."""
        read = [value for node in found.reasons for value in node.inputs] + list(graph.outputs)
        numbered = []
        for value in dict.fromkeys(read):
            if value is not None and value.producer is not None and isinstance(value.producer.op, Constant):
                ref = value.producer.op.value
                self.read[ref.digest] = ref
                numbered.append((values.add(value), ref.digest))
        return tuple(numbered)

    def _host(self, node: Node, reason: str, values: _Values, known: set[str]) -> HostStep:
        bodies = tuple(self.graph(region, cut(region, known), known) for region in node.regions)
        return HostStep(
            print_op(node.op),
            node.place,
            reason,
            tuple(None if value is None else values.numbers[value] for value in node.inputs),
            tuple(map(values.add, node.outputs)),
            bodies,
            _repeats(node, bodies),
        )

    def _part(self, graph: Graph, group: Group, values: _Values) -> PartStep:
        """Replace the nodes of ``group`` by one Part."""
        number, self._parts = self._parts, self._parts + 1
        region, inputs, outputs = _closed(group.nodes, f"part{number}")
        types = [value.type for value in outputs]
        sources = tuple(source for node in group.nodes for source in node.sources)
        part = graph.append(Node(Part(len(outputs), number), inputs, types, (region,), sources=sources))
        needed = set[str]().union(*map(symbols_of, group.nodes))
        sizes = tuple(sorted(needed - bound_by(inputs, ())))
        for old, new in zip(outputs, part.outputs, strict=True):
            graph.replace_all_uses(old, new)
        for node in reversed(group.nodes):
            graph.erase(node)
        module = part_module(self.module, region, sizes)
        specs = (
            tuple(spec_of(value, value.name) for value in module.main.inputs),
            tuple(map(spec_of, module.main.outputs, module.main.output_names)),
        )
        if group.kind is Kind.PART:
            self.modules[part] = module
        numbers = tuple(values.numbers[value] for value in inputs)
        made = tuple(map(values.add, part.outputs))
        return PartStep(number, numbers, sizes, made, Variant(*specs, {}))


def _front(node: Node, op: Front, values: _Values) -> FrontStep:
    inputs = tuple(values.numbers[value] for value in node.inputs if value is not None)
    return FrontStep(op.size, op.shapes, node.place, inputs, tuple(map(values.add, node.outputs)))


class _Values:
    """Numbers of values, and what is known of each."""

    def __init__(self, inputs: Iterable[Value]) -> None:
        self.numbers: dict[Value, int] = {}
        self.specs: list[TensorSpec] = []
        for value in inputs:
            self.add(value)

    def add(self, value: Value) -> int:
        """Number ``value``."""
        self.numbers[value] = len(self.specs)
        self.specs.append(spec_of(value, value.name))
        return self.numbers[value]


def _closed(nodes: Sequence[Node], name: str) -> tuple[Graph, list[Value], list[Value]]:
    """A copy of ``nodes`` as a graph of its own, the values that it takes and those that others read."""
    inside = set(nodes)
    read = dict.fromkeys(value for node in nodes for value in node.inputs if value is not None)
    outside = [value for value in read if value.producer not in inside]
    inputs = [value for value in outside if not is_constant(value)]
    region = Graph(name)
    copies = {value: region.add_input(value.type, value.name) for value in inputs}
    for value in outside:
        if value.producer is not None and is_constant(value):
            region.append(copy_node(value.producer, copies))
    for node in nodes:
        region.append(copy_node(node, copies))
    graph = nodes[0].graph
    assert graph is not None
    made = [value for node in nodes for value in node.outputs]
    outputs = [value for value in made if value in graph.outputs or not inside.issuperset(value.users)]
    taken = UniqueNames()
    region.set_outputs([copies[v] for v in outputs], [taken.take(v.name or "value") for v in outputs])
    return region, inputs, outputs

"""Gears as a graph: the true sizes, the number of their gear, and a region for each, and back from it.

The entry gains an input of role ``sizes``, the dims of all other inputs in their order: a BucketIndex makes
them the index of a Case, whose regions hold the model for the shapes of each gear. Where sizes between gears
are padded, a region pads its inputs and crops its outputs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from graphwright.errors import Diagnostic, ModelError
from graphwright.ir.build import Builder
from graphwright.ir.clone import clone_graph, copy_nodes
from graphwright.ir.fail import Fail
from graphwright.ir.free_symbols import symbols_in
from graphwright.ir.graph import ConstantPool, Graph, Module, Node, Role, Signature, Value
from graphwright.ir.symbols import Constraint, names_in
from graphwright.ir.types import I64, TensorType
from graphwright.ops.control.bucket_index import BucketIndex
from graphwright.ops.control.case import Case
from graphwright.ops.core.pad import Pad
from graphwright.ops.core.slice import Slice
from graphwright.passes.bind_sizes import shape_inputs
from graphwright.passes.dead_branches import DeadBranches
from graphwright.passes.manager import run_passes
from graphwright.passes.unfuse import Unfuse
from graphwright.records import dataclass

SIZES = "gear_sizes"
"""What the input with the true sizes is called, unless another has the name."""


@dataclass(frozen=True)
class BucketModules:
    """``outer`` has the inputs and outputs for all sizes; ``buckets`` are the model for the shapes of each,
    and ``dynamic`` is what runs others, if ``otherwise`` says so.
    """

    outer: Module
    otherwise: str
    buckets: tuple[Module, ...]
    dynamic: Module | None = None

    @property
    def modules(self) -> tuple[Module, ...]:
        """All of them, the shape-generic one last."""
        return self.buckets if self.dynamic is None else (*self.buckets, self.dynamic)


def joined_module(made: BucketModules) -> Module:
    """One module of all gears, whose entry chooses."""
    module, source = _surroundings(made.outer), made.outer.main
    module.constants = ConstantPool()
    for part in made.modules:
        module.constants.merge(part.constants)
        module.symbols.ranges |= part.symbols.ranges
        module.symbols.multiples |= part.symbols.multiples
        module.symbols.constraints |= part.symbols.constraints
        module.symbols.guards |= part.symbols.guards
    main = module.add_graph(Graph(source.name))
    inputs = [main.add_input(value.type, value.name) for value in source.inputs]
    rows = tuple(_sizes(part.main) for part in made.buckets)
    sizes = main.add_input(TensorType(I64, (len(rows[0]),)), _free_name(source))
    module.signatures[main.name] = Signature((*(Role.DATA,) * len(inputs), Role.SIZES))
    copied = _padded if made.otherwise == "pad" else _plain
    regions = [copied(part.main, source, f"gear_{number}") for number, part in enumerate(made.buckets)]
    if made.dynamic is not None:
        regions.append(clone_graph(made.dynamic.main, "dynamic"))
    known = dict(module.symbols.ranges)
    b = Builder(module, main)
    case = b.node(
        Case(len(regions), len(source.outputs)),
        b(BucketIndex(rows, made.otherwise), sizes),
        *inputs,
        regions=regions,
    )
    for value, wanted in zip(case.outputs, source.outputs, strict=True):
        value.type = wanted.type
    module.symbols.ranges = known  # without those made for what regions give
    main.set_outputs(case.outputs, source.output_names)
    return module


def padded_modules(made: BucketModules) -> list[Module]:
    """For each bucket the model for all shapes up to it, smallest bucket first: inputs are padded with zeros,
    and outputs cropped. Sizes that all buckets have in common stay as they are.
    """
    rows = [_sizes(bucket.main) for bucket in made.buckets]
    varies = [len(set(column)) > 1 for column in zip(*rows, strict=True)]
    padded = [_padded_module(made, *pair, varies) for pair in zip(made.buckets, rows, strict=True)]
    order = sorted(range(len(rows)), key=lambda number: prod(rows[number]))
    return [padded[number] for number in order]


def _padded_module(made: BucketModules, bucket: Module, row: Sequence[int], varies: Sequence[bool]) -> Module:
    """``bucket``, whose inputs have the sizes of ``row``, for smaller inputs along the axes that vary."""
    module, source = _surroundings(made.outer), made.outer.main
    module.constants = bucket.constants.copy()
    module.symbols.ranges = {**bucket.symbols.ranges, **module.symbols.ranges}
    main = module.add_graph(_padded(bucket.main, source, source.name))
    dims = [(value.name, dim) for value in source.inputs for dim in value.type.dims]
    for (name, dim), size, is_varied in zip(dims, row, varies, strict=True):
        if is_varied:
            module.symbols.guards.setdefault(Constraint("<=", dim, size, name))
    fixed = [None if is_varied else size for size, is_varied in zip(row, varies, strict=True)]
    shape_inputs(module, _shapes(main.inputs, fixed))
    return module


def split_module(module: Module) -> BucketModules | None:
    """What :func:`joined_module` joined, or None for another module. A ModelError where it is neither."""
    signature = module.signatures.get("main")
    if signature is None or Role.SIZES not in signature.roles:
        return None
    run_passes(module, Unfuse(), DeadBranches(), verify_each=False)  # out of regions that were compiled
    try:
        return _split(module, signature)
    except ValueError as error:
        raise ModelError(Diagnostic("gears", f"the graph is malformed for gears: {error}")) from error


def _split(module: Module, signature: Signature) -> BucketModules:
    sizes = module.main.inputs[signature.roles.index(Role.SIZES)]
    (index,) = sizes.users
    (case,) = index.output.users
    if (
        not isinstance(index.op, BucketIndex)
        or not isinstance(case.op, Case)
        or case.inputs[0] is not index.output
    ):
        raise ValueError("its sizes choose no gear")
    inputs = [value for value in module.main.inputs if value is not sizes]
    if (
        sizes is not module.main.inputs[-1]
        or list(case.inputs[1:]) != inputs
        or list(case.outputs) != list(module.main.outputs)
    ):
        raise ValueError("its gears take or give something else than the entry")
    dynamic = index.op.otherwise == "dynamic"
    if not len(case.regions) == case.op.branches == len(index.op.buckets) + dynamic:
        raise ValueError("it has not a region for each gear")
    gears = [_gear(module, *pair) for pair in zip(case.regions, index.op.buckets, strict=False)]
    last = _entry(module, case.regions[-1]) if dynamic else None
    return BucketModules(_outer(module, inputs, case), index.op.otherwise, tuple(gears), last)


def _plain(graph: Graph, source: Graph, name: str) -> Graph:
    return clone_graph(graph, name)


def _padded(graph: Graph, source: Graph, name: str) -> Graph:
    """``graph``, static, between pads of inputs as ``source`` takes them and crops to what it gives."""
    region = Graph(name)
    given = [region.add_input(value.type, value.name) for value in source.inputs]
    operands = [
        _filled_up(region, value, wanted.type) for value, wanted in zip(given, graph.inputs, strict=True)
    ]
    results = copy_nodes(graph, operands, region, None)
    told = symbols_in(value.type for value in source.inputs)
    cropped = [
        _cropped(region, value, known.type, told)
        for value, known in zip(results, source.outputs, strict=True)
    ]
    region.set_outputs(cropped, source.output_names)
    return region


def _filled_up(graph: Graph, value: Value, wanted: TensorType) -> Value:
    """``value`` with zeros behind it along each axis, as many as make it ``wanted``."""
    missing = tuple(size - dim for size, dim in zip(wanted.dims, value.type.dims, strict=True))
    if not any(missing):
        return value
    return _added(graph, Pad((*(0,) * len(missing), *missing)), value, wanted)


def _cropped(graph: Graph, value: Value, wanted: TensorType, told: Collection[str]) -> Value:
    """The first elements of ``value`` along each axis, as many as ``wanted`` has by sizes ``told``: others
    are no matter of padding.
    """
    axes = tuple(
        axis
        for axis, dim in enumerate(wanted.dims)
        if dim != value.type.dims[axis] and names_in(dim).issubset(told)
    )
    if not axes:
        return value
    ends = tuple(wanted.dims[axis] for axis in axes)
    return _added(graph, Slice((0,) * len(axes), ends, axes, (1,) * len(axes)), value, wanted)


def _added(graph: Graph, op: Pad | Slice, value: Value, type: TensorType) -> Value:
    return graph.append(Node(op, [value], [type], name=value.name)).output


def _sizes(graph: Graph) -> tuple[int, ...]:
    """All dims of all inputs, which are numbers."""
    return tuple(size for value in graph.inputs for size in value.type.sizes)


def _shapes(inputs: Sequence[Value], row: Sequence[int | None]) -> dict[str, Sequence[int | None]]:
    """Shapes by input from a row of sizes; a ValueError where it has not one for each."""
    left = iter(row)
    shapes: dict[str, Sequence[int | None]] = {
        value.name: [size for _, size in zip(value.type.dims, left, strict=False)] for value in inputs
    }
    if sum(map(len, shapes.values())) != len(row) or next(left, None) is not None:
        raise ValueError("a gear has not a size for each axis")
    return shapes


def _free_name(graph: Graph) -> str:
    taken = {value.name for value in graph.inputs}
    name = SIZES
    while name in taken:
        name += "_"
    return name


def _entry(module: Module, region: Graph) -> Module:
    """A module whose entry is a copy of ``region``, its ports called as those of the entry of ``module``."""
    made = _surroundings(module)
    graph = made.add_graph(clone_graph(region, module.main.name))
    for inner, value in zip(graph.inputs, module.main.inputs, strict=False):
        inner.name = value.name
    graph.set_outputs(graph.outputs, module.main.output_names)
    return made


def _gear(module: Module, region: Graph, row: Sequence[int]) -> Module:
    """The model for the sizes in ``row``, which is ``region`` with the symbols of the entry bound to them."""
    made = _entry(module, region)
    shapes = _shapes(made.main.inputs, row)
    for value, outer in zip(made.main.inputs, module.main.inputs, strict=False):
        value.type = outer.type
    shape_inputs(made, shapes)
    return made


def _outer(module: Module, inputs: Sequence[Value], case: Node) -> Module:
    """A module with the entry's inputs and outputs alone: what lies between is never run."""
    made = _surroundings(module)
    graph = made.add_graph(Graph(module.main.name))
    for value in inputs:
        graph.add_input(value.type, value.name)
    types = [value.type for value in case.outputs]
    graph.set_outputs(graph.append(Node(Fail(tuple(types)), (), types)).outputs, module.main.output_names)
    return made


def _surroundings(module: Module) -> Module:
    """A module without graphs that has what all of ``module`` share."""
    made = Module()
    made.constants = module.constants.copy()
    made.symbols = module.symbols.copy()
    made.metadata, made.hints = dict(module.metadata), dict(module.hints)
    return made

"""Gears (shape buckets) as a graph, and back: one module whose entry dispatches on the input
sizes.

The entry has an additional input with role ``sizes``, the dims of all other inputs in order. A BucketIndex
maps them to the branch of a Case, whose regions hold the model for the shapes of each bucket. With
``between="pad"``, a region pads its inputs and crops its outputs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from math import prod

from graphwright.errors import Diagnostic, FeedError, ModelError
from graphwright.ir.build import Builder
from graphwright.ir.builtin.fail import Fail
from graphwright.ir.clone import clone_graph, copy_nodes
from graphwright.ir.constants.pool import ConstantPool
from graphwright.ir.free_symbols import symbols_in
from graphwright.ir.graph import Graph, Module, Node, Role, Signature, Value
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
"""Name of the input with the actual sizes, unless another input has it."""


@dataclass(frozen=True)
class BucketModules:
    """``outer`` has the symbolic inputs and outputs; ``buckets`` hold the model with the shapes of each
    bucket; ``dynamic`` runs all other shapes, if ``otherwise`` is ``dynamic``.
    """

    outer: Module
    otherwise: str
    buckets: tuple[Module, ...]
    dynamic: Module | None = None

    @property
    def modules(self) -> tuple[Module, ...]:
        """All modules, the shape-generic one last."""
        return self.buckets if self.dynamic is None else (*self.buckets, self.dynamic)


def joined_module(buckets: BucketModules) -> Module:
    """One module of all buckets, whose entry selects one."""
    module, source = _without_graphs(buckets.outer), buckets.outer.main
    module.constants = ConstantPool()
    for part in buckets.modules:
        module.constants.merge(part.constants)
        module.symbols.ranges |= part.symbols.ranges
        module.symbols.multiples |= part.symbols.multiples
        module.symbols.constraints |= part.symbols.constraints
        module.symbols.guards |= part.symbols.guards
    main = module.add_graph(Graph(source.name))
    inputs = [main.add_input(value.type, value.name) for value in source.inputs]
    rows = tuple(_sizes(part.main) for part in buckets.buckets)
    sizes = main.add_input(TensorType(I64, (len(rows[0]),)), _free_name(source))
    module.signatures[main.name] = Signature((*(Role.DATA,) * len(inputs), Role.SIZES))
    copied = _padded if buckets.otherwise == "pad" else _static
    regions = [copied(part.main, source, f"gear_{number}") for number, part in enumerate(buckets.buckets)]
    if buckets.dynamic is not None:
        regions.append(clone_graph(buckets.dynamic.main, "dynamic"))
    known = dict(module.symbols.ranges)
    b = Builder(module, main)
    case = b.node(
        Case(len(regions), len(source.outputs)),
        b(BucketIndex(rows, buckets.otherwise), sizes),
        *inputs,
        regions=regions,
    )
    for value, wanted in zip(case.outputs, source.outputs, strict=True):
        value.type = wanted.type
    module.symbols.ranges = known  # drop the symbols that inferring the Case made
    main.set_outputs(case.outputs, source.output_names)
    return module


def padded_modules(buckets: BucketModules) -> list[Module]:
    """For each bucket, smallest first, the model for all shapes up to it: inputs are padded with zeros,
    outputs cropped. Sizes that all buckets share stay fixed.
    """
    rows = [_sizes(bucket.main) for bucket in buckets.buckets]
    varies = _varies(rows)
    padded = [_padded_module(buckets, *pair, varies) for pair in zip(buckets.buckets, rows, strict=True)]
    order = sorted(range(len(rows)), key=lambda number: prod(rows[number]))
    return [padded[number] for number in order]


def _padded_module(
    buckets: BucketModules, bucket: Module, row: Sequence[int], varies: Sequence[bool]
) -> Module:
    """``bucket``, whose inputs have the sizes ``row``, extended to smaller inputs along the
    axes that vary.
    """
    module, source = _without_graphs(buckets.outer), buckets.outer.main
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
    """The inverse of :func:`joined_module`; None for a module without buckets. Raises ModelError if the graph
    is malformed.
    """
    if not has_buckets(module):
        return None
    signature = module.signatures["main"]
    run_passes(module, Unfuse(), DeadBranches(), verify_each=False)  # regions may have been compiled
    try:
        return _split(module, signature)
    except ValueError as error:
        raise ModelError(Diagnostic("gears", f"the graph with gears is malformed: {error}")) from error


def has_buckets(module: Module) -> bool:
    """Whether the entry of ``module`` selects a bucket by the sizes of the inputs."""
    signature = module.signatures.get("main")
    return signature is not None and Role.SIZES in signature.roles


def selected_graph(module: Module, shapes: Mapping[str, Sequence[int]]) -> Graph:
    """The region that runs inputs of ``shapes``; the entry of ``module`` if it has no buckets."""
    if not has_buckets(module):
        return module.main
    (index,) = module.main.inputs[-1].users
    (case,) = index.output.users
    assert isinstance(index.op, BucketIndex)
    return case.regions[_bucket_of(index.op, module.main.inputs[:-1], shapes)]


def selected_module(module: Module, shapes: Mapping[str, Sequence[int]]) -> Module:
    """The module that runs inputs of ``shapes``, without buckets; ``module`` itself if it has none."""
    buckets = split_module(module)
    if buckets is None:
        return module
    rows = tuple(_sizes(bucket.main) for bucket in buckets.buckets)
    index = _bucket_of(BucketIndex(rows, buckets.otherwise), buckets.outer.main.inputs, shapes)
    if buckets.otherwise != "pad":
        return buckets.modules[index]
    return _padded_module(buckets, buckets.buckets[index], rows[index], _varies(rows))


def _bucket_of(index: BucketIndex, inputs: Sequence[Value], shapes: Mapping[str, Sequence[int]]) -> int:
    sizes = tuple(size for value in inputs for size in shapes.get(value.name, ()))
    found = index.find(sizes)
    if found is None:
        gears = "; ".join(_sizes_text(inputs, row) for row in index.buckets)
        message = (
            f"no gear {'accepts' if index.otherwise == 'pad' else 'matches'} {_sizes_text(inputs, sizes)}"
        )
        raise FeedError(Diagnostic("gear", message, hint=f"the gears are {gears}"))
    return found


def _sizes_text(inputs: Sequence[Value], sizes: Sequence[int]) -> str:
    """The sizes of all inputs in a row, as in ``x:1,3 y:4``."""
    left = iter(sizes)
    each = (f"{value.name}:{','.join(map(str, islice(left, len(value.type.dims))))}" for value in inputs)
    return " ".join(each)


def _split(module: Module, signature: Signature) -> BucketModules:
    sizes = module.main.inputs[signature.roles.index(Role.SIZES)]
    (index,) = sizes.users
    (case,) = index.output.users
    if (
        not isinstance(index.op, BucketIndex)
        or not isinstance(case.op, Case)
        or case.inputs[0] is not index.output
    ):
        raise ValueError("the input sizes do not select a gear")
    inputs = [value for value in module.main.inputs if value is not sizes]
    if (
        sizes is not module.main.inputs[-1]
        or list(case.inputs[1:]) != inputs
        or list(case.outputs) != list(module.main.outputs)
    ):
        raise ValueError("inputs or outputs of the gears differ from those of the entry")
    dynamic = index.op.otherwise == "dynamic"
    if not len(case.regions) == case.op.branches == len(index.op.buckets) + dynamic:
        raise ValueError("the number of regions is not the number of gears")
    gears = [_gear(module, *pair) for pair in zip(case.regions, index.op.buckets, strict=False)]
    last = _entry(module, case.regions[-1]) if dynamic else None
    return BucketModules(_outer(module, inputs, case), index.op.otherwise, tuple(gears), last)


def _static(graph: Graph, source: Graph, name: str) -> Graph:
    return clone_graph(graph, name)


def _padded(graph: Graph, source: Graph, name: str) -> Graph:
    """The static ``graph`` with padded inputs and cropped outputs, so that it has the inputs and outputs of
    ``source``.
    """
    region = Graph(name)
    given = [region.add_input(value.type, value.name) for value in source.inputs]
    operands = [
        _pad_to(region, value, wanted.type) for value, wanted in zip(given, graph.inputs, strict=True)
    ]
    results = copy_nodes(graph, operands, region, None)
    of_inputs = symbols_in(value.type for value in source.inputs)
    cropped = [
        _crop_to(region, value, known.type, of_inputs)
        for value, known in zip(results, source.outputs, strict=True)
    ]
    region.set_outputs(cropped, source.output_names)
    return region


def _pad_to(graph: Graph, value: Value, wanted: TensorType) -> Value:
    """``value`` padded with zeros at the end of each axis up to the type ``wanted``."""
    missing = tuple(size - dim for size, dim in zip(wanted.dims, value.type.dims, strict=True))
    if not any(missing):
        return value
    return _append(graph, Pad((*(0,) * len(missing), *missing)), value, wanted)


def _crop_to(graph: Graph, value: Value, wanted: TensorType, of_inputs: Collection[str]) -> Value:
    """``value`` cropped to ``wanted`` along axes whose size depends only on ``of_inputs``; other axes are not
    affected by padding.
    """
    axes = tuple(
        axis
        for axis, dim in enumerate(wanted.dims)
        if dim != value.type.dims[axis] and names_in(dim).issubset(of_inputs)
    )
    if not axes:
        return value
    ends = tuple(wanted.dims[axis] for axis in axes)
    return _append(graph, Slice((0,) * len(axes), ends, axes, (1,) * len(axes)), value, wanted)


def _append(graph: Graph, op: Pad | Slice, value: Value, type: TensorType) -> Value:
    return graph.append(Node(op, [value], [type], name=value.name)).output


def _varies(rows: Sequence[Sequence[int]]) -> list[bool]:
    """For each size, whether it differs between buckets."""
    return [len(set(column)) > 1 for column in zip(*rows, strict=True)]


def _sizes(graph: Graph) -> tuple[int, ...]:
    """The static dims of all inputs, in order."""
    return tuple(size for value in graph.inputs for size in value.type.sizes)


def _shapes(inputs: Sequence[Value], row: Sequence[int | None]) -> dict[str, Sequence[int | None]]:
    """Shapes by input from a row of sizes. Raises ValueError if their numbers differ."""
    left = iter(row)
    shapes: dict[str, Sequence[int | None]] = {
        value.name: [size for _, size in zip(value.type.dims, left, strict=False)] for value in inputs
    }
    if sum(map(len, shapes.values())) != len(row) or next(left, None) is not None:
        raise ValueError("a gear does not have one size for each axis")
    return shapes


def _free_name(graph: Graph) -> str:
    taken = {value.name for value in graph.inputs}
    name = SIZES
    while name in taken:
        name += "_"
    return name


def _entry(module: Module, region: Graph) -> Module:
    """A module whose entry is a copy of ``region``, with the input and output names of ``module``."""
    copy = _without_graphs(module)
    graph = copy.add_graph(clone_graph(region, module.main.name))
    for inner, value in zip(graph.inputs, module.main.inputs, strict=False):
        inner.name = value.name
    graph.set_outputs(graph.outputs, module.main.output_names)
    return copy


def _gear(module: Module, region: Graph, row: Sequence[int]) -> Module:
    """The model for the sizes ``row``: ``region`` with the symbols of the entry bound to them."""
    gear = _entry(module, region)
    shapes = _shapes(gear.main.inputs, row)
    for value, outer in zip(gear.main.inputs, module.main.inputs, strict=False):
        value.type = outer.type
    shape_inputs(gear, shapes)
    return gear


def _outer(module: Module, inputs: Sequence[Value], case: Node) -> Module:
    """A module with only the inputs and outputs of the entry; its body is never run."""
    copy = _without_graphs(module)
    graph = copy.add_graph(Graph(module.main.name))
    for value in inputs:
        graph.add_input(value.type, value.name)
    types = [value.type for value in case.outputs]
    graph.set_outputs(graph.append(Node(Fail(tuple(types)), (), types)).outputs, module.main.output_names)
    return copy


def _without_graphs(module: Module) -> Module:
    """A module without graphs that shares constants, symbols, metadata and hints with ``module``."""
    copy = Module()
    copy.constants = module.constants.copy()
    copy.symbols = module.symbols.copy()
    copy.metadata, copy.hints = dict(module.metadata), dict(module.hints)
    return copy

"""Compiles packages again: for this machine, for shapes that no program of theirs accepts, or for one fixed
shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property

from graphwright import plugins
from graphwright.compiler.driver import compile_module, compile_sources, retyped
from graphwright.compiler.subgraphs import subgraph_module
from graphwright.config import Options
from graphwright.errors import (
    Collector,
    Diagnostic,
    FeedError,
    GraphwrightError,
    ModelError,
    PackageError,
    UnknownOpError,
)
from graphwright.executable.nodes import Dispatch, Executable, accepts
from graphwright.ir.builtin.constant import Constant
from graphwright.ir.clone import clone_module
from graphwright.ir.constants.pool import ConstantPool
from graphwright.ir.graph import Module, Value
from graphwright.ir.nesting import regions_of
from graphwright.ir.op import ConstRef
from graphwright.ir.sizes import scaled_symbol
from graphwright.ir.symbols import Constraint, Dim, SymbolError, evaluate, names_in, parse_constraint
from graphwright.ir.text import parse_module
from graphwright.ir.types import TensorType
from graphwright.ir.verify import verify
from graphwright.layout.assign import forget_layouts
from graphwright.layout.transform import unpack
from graphwright.package.package import Package
from graphwright.passes.bind_sizes import bind_sizes, shape_all_inputs
from graphwright.passes.buckets import split_module
from graphwright.records import replace
from graphwright.runtime.executor import Shapes


class Recompiler:
    """Compiles the main entry of ``package`` for shapes that none of its programs accepts. Parses the graph
    only once.
    """

    def __init__(self, package: Package, options: Options) -> None:
        plugins.use(options)
        self._package = package
        self._options = replace(options, tune=0)  # a run is waiting

    def __call__(self, dispatch: Dispatch, shapes: Shapes) -> Package:
        """A package that accepts ``shapes``, which no case of ``dispatch`` accepts. It is as general as
        possible: sizes stay symbolic except those that violate a guard, or all are fixed if ranks are
        unknown.

        Raises FeedError if the shapes do not fit the model, ToolchainError.
        """
        if dispatch.subgraph is not None:
            return self._subgraph(dispatch.subgraph, shapes)
        module = clone_module(self._general)
        try:
            if any(spec.shape is None for spec in dispatch.inputs):
                shape_all_inputs(module, shapes)
                return compile_module(module, self._options)
            broken = sizes_that_break(_guards(dispatch, shapes), _sizes(module, shapes))
            bind_sizes(module, broken)
            return compile_module(module, self._options, assume_all_sizes=bool(broken))
        except ModelError as error:
            raise _shape_error(error) from error

    def _subgraph(self, number: int, shapes: Shapes) -> Package:
        module = subgraph_module(self._partitioned, number)
        _rank_inputs(module, list(map(len, shapes)))
        return compile_module(module, self._options)

    @cached_property
    def _general(self) -> Module:
        return _general_module(self._package)

    @cached_property
    def _partitioned(self) -> Module:
        return unpacked_module(self._package)


def recompile(package: Package, options: Options) -> Package:
    """Compiles the graphs and weights of ``package`` for this machine. Raises PackageError,
    ToolchainError.
    """
    plugins.use(options)
    try:
        modules = {name: source_module(package.only(name)) for name in package.entries}
        with ExitStack() as stack:
            for module in modules.values():
                stack.enter_context(regions_of(module))
            sources = {name: retyped(module) for name, module in modules.items()}
            return compile_sources(sources, options)
    except (GraphwrightError, OSError, MemoryError):
        raise
    except Exception as error:  # a hostile graph text can make ops fail in any way
        raise PackageError(
            Diagnostic("damaged-package", f"the graph is malformed: {error}", hint="compile the model again")
        ) from error


def specialize(package: Package, shapes: Shapes, options: Options) -> Package:
    """Compiles the main entry of ``package`` for ``shapes`` only. Of a model with gears, it compiles the
    graph for shapes that are not a gear.
    """
    plugins.use(options)
    module = _general_module(package)
    shape_all_inputs(module, shapes)
    return compile_module(module, replace(options, tune=0))


def _general_module(package: Package) -> Module:
    """The graph for shapes that have no program of their own."""
    module = source_module(package)
    buckets = split_module(module)
    return module if buckets is None or buckets.dynamic is None else buckets.dynamic


def source_module(package: Package) -> Module:
    """The graph that the main entry is recompiled from: the general graph if there is one."""
    constants = _constants(package)
    module = _unpacked_module(package, constants)
    if not package.main.general:
        return module
    constants.merge(module.constants)
    general = _parsed(package, package.main.general, constants)
    with regions_of(general):
        verify(general)
    return general


def unpacked_module(package: Package) -> Module:
    """The graph of the main entry with all constants in row-major order."""
    return _unpacked_module(package, _constants(package))


def compiled_module(package: Package) -> Module:
    """The graph of the main entry as it was compiled, with layouts. Raises PackageError."""
    unpacked_module(package)  # verifies the graph
    return _parsed(package, package.main.graph, _constants(package))


def _constants(package: Package) -> ConstantPool:
    constants = ConstantPool()
    for digest, array in package.constants().items():
        constants.restore(digest, array)
    return constants


def _unpacked_module(package: Package, constants: ConstantPool) -> Module:
    module = _parsed(package, package.main.graph, constants)
    with regions_of(module):
        for node in module.walk():
            if isinstance(node.op, Constant) and node.output.layout is not None:
                node.op = Constant(_unpacked(module, node.op.value, node.output), node.op.type)
        forget_layouts(module)
        verify(module)
    return module


def _parsed(package: Package, text: str, constants: ConstantPool) -> Module:
    try:
        module = parse_module(text, constants=constants)
    except UnknownOpError as error:
        raise package.lacking(error.name) from error
    module.metadata.update(package.main.metadata)
    return module


def _unpacked(module: Module, ref: ConstRef, value: Value) -> ConstRef:
    layout, packed = value.layout, module.constants[ref]
    shape = tuple(dim for dim in value.type.shape or () if isinstance(dim, int))
    assert layout is not None
    if sorted(layout.order) != list(range(len(shape))) or layout.physical_shape(shape) != packed.shape:
        raise ValueError(f"a constant of shape {packed.shape} is not {value.type} in layout {layout}")
    return module.constants.add(unpack(packed, layout, shape))


def _guards(dispatch: Dispatch, shapes: Shapes) -> list[Constraint]:
    """The guards of the cases that would accept ``shapes`` otherwise, and what follows from guards: sizes of
    inputs that only their case needs.
    """
    found: list[Constraint] = []
    for case in dispatch.cases:
        followed = _sizes_that_follow(dispatch, case) if case.guards else []
        if followed or accepts(case, shapes):
            found += [*map(parse_constraint, case.guards), *followed]
    return found


def _sizes_that_follow(dispatch: Dispatch, case: Executable) -> list[Constraint]:
    """The sizes of inputs that are dynamic in ``dispatch`` but numbers in ``case``, as constraints. They
    follow from the guards of the case and from the graph: if the graph needs ``a == 4``, the guard ``a == b``
    implies ``b == 4``.
    """
    return [
        parse_constraint(f"{general} == {known}")
        for spec, own in zip(dispatch.inputs, case.inputs, strict=True)
        for general, known in zip(spec.shape or (), own.shape or (), strict=False)
        if isinstance(known, int) and not isinstance(general, int)
    ]


def sizes_that_break(guards: Sequence[Constraint], sizes: Mapping[str, int]) -> dict[str, Dim]:
    """The named sizes that have to be fixed so that no guard is violated.

    If two sizes were assumed equal and one of them is 1 (a broadcast), only that one is fixed; the other may
    vary.
    """
    found: dict[str, Dim] = {}
    for guard in guards:
        if guard.broken_by(sizes) is not None:
            ones = [side for side in (guard.left, guard.right) if _is_one(side, sizes)]
            names = names_in(*ones) or guard.names
            found |= {name: sizes[name] for name in sorted(names)}
    return found


def _is_one(dim: Dim, sizes: Mapping[str, int]) -> bool:
    try:
        return not isinstance(dim, int) and evaluate(dim, sizes) == 1
    except SymbolError:
        return False


def _sizes(module: Module, shapes: Shapes) -> dict[str, int]:
    """The value of each symbol, given the ``shapes`` of the inputs."""
    sizes: dict[str, int] = {}
    for value, shape in zip(module.main.inputs, shapes, strict=True):
        for dim, size in zip(value.type.dims, shape, strict=True):
            scaled = scaled_symbol(dim)
            if scaled is not None:
                sizes.setdefault(scaled[0], size // scaled[1])
    return sizes


def _shape_error(error: ModelError) -> FeedError:
    """A FeedError for shapes that do not fit the model, from the ModelError that they caused."""
    faults = Collector(FeedError)
    for each in error.diagnostics:
        faults.add(
            "constraint",
            f"the input shapes do not fit the model: {each.message}",
            each.where,
            each.hint,
        )
    return FeedError(*faults.diagnostics)


def _rank_inputs(module: Module, ranks: Sequence[int]) -> None:
    """Gives inputs of unknown rank the ``ranks`` and fresh symbolic sizes."""
    for value, rank in zip(module.main.inputs, ranks, strict=True):
        if value.type.shape is None:
            value.type = TensorType(value.type.dtype, module.symbols.fresh_sizes(value.name, rank))

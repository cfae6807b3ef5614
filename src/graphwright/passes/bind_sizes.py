"""Binds symbols to numbers, names or ranges, which specializes a module to input shapes. Shape inference has
to run afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import gcd, lcm
from typing import Any

from graphwright.errors import Collector, FeedError
from graphwright.ir.default_values import constant_hint
from graphwright.ir.graph import Graph, Module
from graphwright.ir.sizes import (
    Size,
    SizeRange,
    has_sizes,
    read_size,
    scaled_symbol,
    span_of,
    span_text,
    symbol_for_range,
)
from graphwright.ir.symbols import RELATIONS, Constraint, Dim, Expr, SymbolTable, substitute, symbol
from graphwright.ir.types import TensorType
from graphwright.records import dataclass, field, replace
from graphwright.support.message_text import counted, did_you_mean, listed

Shapes = Mapping[str, Sequence[Size]]
"""Shapes by input name: numbers, names (symbolic sizes, shared by name), ranges, or None for the size in the
model; see :mod:`graphwright.ir.sizes`.
"""


def shape_inputs(module: Module, shapes: Shapes) -> None:
    """Gives inputs of the entry ``shapes``. Raises FeedError with all unknown names, wrong ranks, sizes that
    contradict the model, and ranges that contradict each other.
    """
    binding = _Binding(module.symbols)
    inputs = {value.name: value for value in module.main.inputs}
    for name, wanted in shapes.items():
        if name not in inputs:
            meant = constant_hint([name], module.metadata) or did_you_mean([name], inputs)
            hint = f"{meant}the inputs are {listed(inputs)}"
            binding.faults.add("input-name", f"there is no input {name!r}", hint=hint)
            continue
        known = inputs[name].type.shape
        if known is None:
            known = tuple(module.symbols.fresh(f"{name}_{axis}") for axis in range(len(wanted)))
            inputs[name].type = TensorType(inputs[name].type.dtype, known)
            binding.open |= set(known)
        if len(known) != len(wanted):
            message = f"{counted(len(wanted), 'size')} for input {name!r}, which has {len(known)} axes"
            binding.faults.add("input-rank", message)
            continue
        for axis, (dim, size) in enumerate(zip(known, wanted, strict=True)):
            binding.add(dim, size, f"axis {axis} of input {name!r}")
    bind_sizes(module, binding.finish())


def shape_all_inputs(module: Module, shapes: Sequence[Sequence[Size]]) -> None:
    """:func:`shape_inputs` for all inputs, in order."""
    shape_inputs(module, {v.name: shape for v, shape in zip(module.main.inputs, shapes, strict=True)})


@dataclass
class _Binding:
    """The symbol substitutions that given axis sizes imply."""

    table: SymbolTable
    faults: Collector = field(default_factory=lambda: Collector(FeedError))
    open: set[Dim] = field(default_factory=set)
    """Dims of inputs whose rank is unknown in the model."""
    becomes: dict[str, int | str] = field(default_factory=dict)
    """The number or new name of each symbol."""
    limits: dict[str, list[tuple[SizeRange, str]]] = field(default_factory=dict)
    """For each name, the ranges given for it, and where."""

    def add(self, dim: Dim, given: Size, where: str) -> None:
        """Gives the axis at ``where``, which is ``dim`` in the model, the size ``given``."""
        try:
            size = read_size(given)
        except FeedError as error:
            self.faults.extend(replace(found, where=where) for found in error.diagnostics)
            return
        fault = self._fault(dim, size, where)
        if fault:
            self.faults.add("input-size", f"{where} {fault}")

    def _fault(self, dim: Dim, size: int | SizeRange | None, where: str) -> str:
        """Records the substitutions that make ``dim`` the ``size``. Returns the fault if none does."""
        if size is None:
            return "needs a size, as the model does not give the rank" if dim in self.open else ""
        if dim == size:
            return ""
        scaled = scaled_symbol(dim)
        if scaled is None:
            return f"cannot be {size}: the model has {dim}"
        name, scale = scaled
        if isinstance(size, int):
            span = span_of(dim, self.table)
            fits = span.holds(size)
            return self._become(name, size // scale) if fits else f"cannot be {size}: {dim} is {span.words}"
        if size.name and scale > 1:
            return f"is {dim}, which cannot be renamed to {size.name}: give only a range"
        fault = self._become(name, size.name or name)
        self.limits.setdefault(size.name or name, []).append((_over(size, scale), where))
        return fault

    def _become(self, name: str, size: int | str) -> str:
        if self.becomes.setdefault(name, size) == size:
            return ""
        return f"is {name}, which is {self.becomes[name]} on another axis"

    def finish(self) -> dict[str, Dim]:
        """The substitution of each symbol. Ranges of new symbols are entered into the table."""
        for name in self.limits:
            former = [old for old, new in self.becomes.items() if new == name]
            self.limits[name] += [(known, "the model") for known in self._ranges_of({name, *former})]
        joined = {name: self._joined(name) for name in self.limits}
        self.faults.raise_if_any()
        for name in {*self.becomes, *joined}:
            self.table.ranges.pop(name, None)
            self.table.multiples.pop(name, None)
        dims = {name: symbol_for_range(self.table, size) for name, size in joined.items()}
        return dims | {name: dims[new] if isinstance(new, str) else new for name, new in self.becomes.items()}

    def _ranges_of(self, names: set[str]) -> Iterator[SizeRange]:
        """The ranges of these symbols in the table."""
        for name in sorted(names & {*self.table.ranges, *self.table.multiples}):
            known = span_of(symbol(name), self.table)
            if known != SizeRange():
                yield known

    def _joined(self, name: str) -> SizeRange:
        """The intersection of all ranges of ``name``."""
        said = [size for size, _ in self.limits[name]]
        low = max(size.low for size in said)
        high = min((size.high for size in said if size.high is not None), default=None)
        multiple = lcm(*(size.multiple for size in said))
        if has_sizes(low, high, multiple):
            return SizeRange(name, low, high, multiple)
        texts = dict.fromkeys(
            f"{span_text(s.low, s.high, s.multiple)} ({where})" for s, where in self.limits[name]
        )
        self.faults.add(
            "input-size", f"no size {name} is {' and '.join(texts)}", hint="give ranges that overlap"
        )
        return SizeRange(name)


def _over(size: SizeRange, scale: int) -> SizeRange:
    """The range of ``n`` if ``scale * n`` has the range ``size``."""
    high = None if size.high is None else size.high // scale
    return replace(
        size, low=-(-size.low // scale), high=high, multiple=size.multiple // gcd(size.multiple, scale)
    )


def bind_sizes(module: Module, sizes: Mapping[str, Dim]) -> None:
    """Substitutes the symbols in ``sizes`` everywhere in ``module``.

    Constraints that are now proved are dropped, and so are those between numbers: inference finds these
    again.
    """
    _bind_constraints(module, sizes)
    for graph in module.graphs.values() if sizes else ():
        _bind_graph(graph, sizes)


def _bind_constraints(module: Module, sizes: Mapping[str, Dim]) -> None:
    table = module.symbols
    table.constraints = _bound_constraints(table.constraints, table, sizes)
    table.guards = _bound_constraints(table.guards, table, sizes)


def _bound_constraints(
    known: Iterable[Constraint], table: SymbolTable, sizes: Mapping[str, Dim]
) -> dict[Constraint, None]:
    bound = [
        Constraint(c.relation, substitute(c.left, sizes), substitute(c.right, sizes), c.node) for c in known
    ]
    return {constraint: None for constraint in bound if not _is_decided(constraint, table)}


def _is_decided(constraint: Constraint, table: SymbolTable) -> bool:
    """Whether a constraint is proved, or compares numbers."""
    difference = constraint.right - constraint.left
    if not isinstance(difference, Expr):
        return not isinstance(constraint.left, Expr) or RELATIONS[constraint.relation](0, difference)
    ranges = SymbolTable(table.ranges, table.multiples)  # without its constraints: one must not prove itself
    return constraint.relation == "<=" and ranges.proves_at_least(difference, 0)


def _bind_graph(graph: Graph, sizes: Mapping[str, Dim]) -> None:
    for value in graph.inputs:
        value.type = _bound_type(value.type, sizes)
    for node in graph:
        node.op = node.op.with_attributes(partial(_bound, sizes))
        for value in node.outputs:
            value.type = _bound_type(value.type, sizes)
        for region in node.regions:
            _bind_graph(region, sizes)


def _bound_type(type: TensorType, sizes: Mapping[str, Dim]) -> TensorType:
    if type.shape is None or type.is_static:
        return type
    return TensorType(type.dtype, tuple(substitute(dim, sizes) for dim in type.shape))


def _bound(sizes: Mapping[str, Dim], value: Any) -> Any:
    if isinstance(value, Expr):
        return substitute(value, sizes)
    if isinstance(value, TensorType):
        return _bound_type(value, sizes)
    return tuple(_bound(sizes, item) for item in value) if isinstance(value, tuple) else value

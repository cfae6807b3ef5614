"""Sizes that inference has found to be equal to other sizes, or that a constraint fixes to a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphwright.ir.free_symbols import symbols_in
from graphwright.ir.graph import Module, Node, Value
from graphwright.ir.symbols import Constraint, Dim, Expr, names_in, substitute
from graphwright.ir.types import TensorType
from graphwright.passes.bind_sizes import bind_sizes
from graphwright.passes.traversal import graphs as all_graphs


def apply_substitutions(module: Module, substitutions: Mapping[str, Dim]) -> None:
    """Substitutes symbols that have turned out to equal other sizes, in attributes too; likewise symbols of
    inputs that a constraint requires to be a number.
    """
    fixed = dict(filter(None, map(_fixed_symbol, module.symbols.constraints)))
    if not substitutions and not fixed:
        return
    defined = _defined_by_inputs(module)
    _substitute(module, {name: dim for name, dim in substitutions.items() if name not in defined})
    of_inputs = symbols_in(v.type for graph in all_graphs(module) for v in graph.inputs)
    bind_sizes(module, {name: number for name, number in fixed.items() if name in of_inputs})


def _defined_by_inputs(module: Module) -> set[str]:
    """The symbols of inputs of entries, and those of inputs of regions that no operand of their node has."""
    defined = symbols_in(v.type for graph in module.graphs.values() for v in graph.inputs)
    for node in (node for graph in module.graphs.values() for node in graph.walk() if node.regions):
        given = symbols_in(v.type for v in node.inputs if v is not None)
        defined |= symbols_in(v.type for region in node.regions for v in region.inputs) - given
    return defined


def replace_and_refine(
    module: Module, node: Node, values: Sequence[Value], received: Mapping[str, Dim]
) -> None:
    """Replaces ``node`` by ``values``. Symbols that only its results define become the sizes of these. If
    they were computed in a region, ``received`` are the sizes that its inputs received.
    """
    assert node.graph is not None
    given = symbols_in(value.type for value in node.inputs if value is not None)
    found = refined_sizes(node.outputs, values)
    node.graph.replace_node(node, values)
    _substitute(module, {name: substitute(dim, received) for name, dim in found.items() if name not in given})


def refined_sizes(known: Sequence[Value], better: Sequence[Value]) -> dict[str, Dim]:
    """:func:`refined_symbols` of the types of several values."""
    pairs = zip(known, better, strict=True)
    return {name: dim for old, new in pairs for name, dim in refined_symbols(old.type, new.type).items()}


def refined_symbols(known: TensorType, better: TensorType) -> dict[str, Dim]:
    """The sizes that ``better`` has in place of symbols of ``known``, by symbol. A size that contains the
    symbol itself does not define it, and is left out.
    """
    pairs = zip(known.shape or (), better.shape or (), strict=False)
    symbols = {str(old): new for old, new in pairs if old is not new and str(old).isidentifier()}
    return {name: dim for name, dim in symbols.items() if name not in names_in(dim)}


def _substitute(module: Module, found: Mapping[str, Dim]) -> None:
    """Substitutes the symbols of ``found`` one after the other, but in one walk over the module."""
    sizes: dict[str, Dim] = {}
    for name in found:
        dim = _resolved(name, found)
        if name not in names_in(dim):
            sizes = {other: substitute(size, {name: dim}) for other, size in sizes.items()} | {name: dim}
    if sizes:
        bind_sizes(module, sizes)


def _resolved(name: str, substitutions: Mapping[str, Dim]) -> Dim:
    """The size that ``name`` stands for, in terms of symbols that are not substituted themselves."""
    dim = substitutions[name]
    for _ in substitutions:
        if names_in(dim).isdisjoint(substitutions):
            break
        dim = substitute(dim, substitutions)
    return dim


def fixed_size(constraint: Constraint) -> tuple[Dim, int] | None:
    """The size that ``constraint`` requires to be a number, and that number."""
    sides = constraint.left, constraint.right
    for dim, number in (sides, sides[::-1]):
        if constraint.relation == "==" and isinstance(number, int) and isinstance(dim, Expr):
            return dim, number
    return None


def _fixed_symbol(constraint: Constraint) -> tuple[str, int] | None:
    """The symbol that ``constraint`` requires to be a number, and that number."""
    dim, number = fixed_size(constraint) or (0, 0)
    return (str(dim), number) if str(dim).isidentifier() else None

"""The symbols that occur in types, nodes and graphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from graphwright.ir.graph import Graph, Node
from graphwright.ir.op import Op
from graphwright.ir.symbols import Expr, names_in
from graphwright.ir.types import TensorType


def symbols_in(types: Iterable[TensorType]) -> set[str]:
    """Symbols in the shapes of ``types``."""
    return names_in(*(dim for type in types for dim in type.shape or ()))


def symbols_of(node: Node) -> set[str]:
    """Symbols in the value types, attributes and regions of ``node``."""
    types = [value.type for value in (*node.inputs, *node.outputs) if value is not None]
    return (symbols_in(types) | symbols_named(node.op)).union(*map(symbols_of_graph, node.regions))


def symbols_named(op: Op) -> set[str]:
    """Symbols in the attributes of ``op``."""
    return set(_named(tuple(op.attributes().values())))


def sizes_named(op: Op) -> list[str]:
    """The symbols of :func:`symbols_named`, in the order in which a host call receives their values."""
    return sorted(symbols_named(op))


def symbols_of_graph(graph: Graph) -> set[str]:
    """Symbols in the inputs and nodes of ``graph``."""
    return symbols_in(value.type for value in graph.inputs).union(*map(symbols_of, graph))


def _named(attribute: Any) -> Iterator[str]:
    if isinstance(attribute, Expr):
        yield from names_in(attribute)
    elif isinstance(attribute, tuple):
        for part in attribute:
            yield from _named(part)
    elif isinstance(attribute, TensorType):
        yield from symbols_in((attribute,))

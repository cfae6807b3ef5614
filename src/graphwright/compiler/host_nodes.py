"""Which nodes the host has to run, and why.

A program is planned from the shapes of its inputs. So the host runs nodes that make data-dependent sizes or
ranks, values without fixed-size elements (strings, sequences), and control flow that contains such nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from graphwright.ir.free_symbols import symbols_in
from graphwright.ir.graph import Graph, Node, Value
from graphwright.ir.sizes import scaled_symbol
from graphwright.ir.types import TensorType
from graphwright.ops.control.loop import Loop


def host_nodes(graph: Graph, bound: Iterable[str], given: Mapping[Node, str]) -> dict[Node, str]:
    """The nodes of ``graph`` that the host has to run, in order, each with the reason. The sizes ``bound``
    are known from the enclosing graph; ``given`` maps further nodes to the reason.
    """
    known = bound_by(graph.inputs, bound)
    reasons: dict[Node, str] = {}
    for node in graph:
        reason = given.get(node) or _reason(node, known)
        if reason:
            reasons[node] = reason
            known = bound_by(node.outputs, known)
    return reasons


def bound_by(values: Iterable[Value], bound: Iterable[str]) -> set[str]:
    """``bound`` and the symbols that the shapes of ``values`` bind."""
    return {*bound, *(name for value in values for name in bound_symbols(value.type))}


def bound_symbols(type: TensorType) -> Iterator[str]:
    """The symbols whose values follow from a shape of ``type``."""
    for dim in type.shape or ():
        scaled = scaled_symbol(dim)
        if scaled is not None:
            yield scaled[0]


def _reason(node: Node, known: set[str]) -> str:
    """Why the host has to run ``node``, given the ``known`` sizes; empty if a program can."""
    if node.is_constant:
        return ""
    return next(filter(None, (reason(node, known) for reason in _REASONS)), "")


def _reason_of_elements(node: Node, known: set[str]) -> str:
    values = [value for value in (*node.inputs, *node.outputs) if value is not None]
    kinds = dict.fromkeys(v.type.dtype.kind for v in values if not v.type.dtype.bits)
    return f"its values have no fixed-size elements: {', '.join(kinds)}" if kinds else ""


def _reason_of_sizes(node: Node, known: set[str]) -> str:
    defined = sorted(symbols_in(value.type for value in node.outputs) - known)
    if len(defined) > 1:
        return f"the sizes {', '.join(defined)} are data-dependent"
    return f"the size {defined[0]} is data-dependent" if defined else ""


def _reason_of_rank(node: Node, known: set[str]) -> str:
    if any(value is not None and value.type.shape is None for value in node.inputs):
        return ""  # it can follow from theirs
    return (
        "the rank of its result is data-dependent" if any(v.type.shape is None for v in node.outputs) else ""
    )


def _reason_of_loop(node: Node, known: set[str]) -> str:
    """A program runs a loop if iterations do not change the shape of a loop-carried value, and the number of
    rows of scan outputs follows from shapes.
    """
    loop = node.op
    if not isinstance(loop, Loop):
        return ""
    where, region = loop.loop_carried(), node.regions[0]
    starts = node.inputs[where.starts]
    received = region.inputs[where.received]
    given = region.outputs[where.results]
    for index, values in enumerate(zip(starts, received, given, strict=True)):
        types = list(dict.fromkeys(value.type for value in values if value is not None))
        if len(types) > 1 or types[0].shape is None:
            changes = " becomes ".join(map(str, types))
            return f"iterations change the type of loop-carried value {index}: {changes}"
    counted = loop.trips is not None or (loop.counted and node.operand(0).type.rank == 1)
    if loop.scans and (loop.conditional or not counted):
        return "the number of rows of its scan outputs is known only after the last iteration"
    types = [v.type for v in (*region.inputs, *(v for inner in region.walk() for v in inner.outputs))]
    without = sorted({t.dtype.name for t in types if not t.dtype.bits})
    if without:
        return f"its body has values whose elements have no fixed size: {', '.join(without)}"
    if any(type.shape is None for type in types):
        return "its body has a value of unknown rank"
    sizes = sorted(symbols_in([*types, *(v.type for v in node.outputs)]) - known)
    return f"its body has data-dependent sizes: {', '.join(sizes)}" if sizes else ""


def _reason_of_regions(node: Node, known: set[str]) -> str:
    for region in node.regions:
        for inner, reason in host_nodes(region, known, {}).items():
            return f"its body contains {inner.location}: {reason}"
    return ""


_REASONS: Sequence[Callable[[Node, set[str]], str]] = (
    _reason_of_elements,
    _reason_of_sizes,
    _reason_of_rank,
    _reason_of_loop,
    _reason_of_regions,
)

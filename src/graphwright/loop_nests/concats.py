"""Concatenations inside a region: each element is selected among the operands."""

from __future__ import annotations

from typing import Final

from graphwright.ir.graph import Node, Value
from graphwright.ir.moved_axes import JoinsOperands
from graphwright.ir.op import Trait
from graphwright.ir.refusal import Code
from graphwright.loop_nests.axes import NotOneNest
from graphwright.loop_nests.builder import weight_of_node
from graphwright.loop_nests.nest import Nest

MOST_JOINED: Final = 4
"""The most operands of a concatenation inside a region."""
CHEAP: Final = 10
"""The largest cost of a node that may be recomputed for each operand of a concatenation."""


def join(nest: Nest, node: Node) -> None:
    """Add a concatenation of operands of equal size; the number of the operand becomes another axis. Raises
    NotOneNest.
    """
    assert isinstance(node.op, JoinsOperands)
    operands = [value for value in node.inputs if value is not None]
    axis = node.op.axis % len(node.output.type.dims)
    if len({value.type.dims[axis] for value in operands}) > 1 or not 1 < len(operands) <= MOST_JOINED:
        raise NotOneNest(
            Code.JOINED, f"a region can only concatenate 2 to {MOST_JOINED} operands of equal size"
        )
    places = [nest.place_of(value) for value in operands]
    joined = list(places[0])
    for place in places[1:]:
        joined = [nest.axes.unify(a, b) if a and b else a or b for a, b in zip(joined, place, strict=True)]
    for value in operands:
        if value in nest.phases:
            raise NotOneNest(Code.JOINED, "it concatenates rolled values")
        nest.read_directly(value)
        _repeat(nest, value)
    part = nest.axes.new(len(operands))
    joined[axis] = (part, *joined[axis])
    nest.places[node.output] = tuple(joined)
    nest.parts[part] = None


def _repeat(nest: Nest, value: Value) -> None:
    """Allow ``value``, and what it is computed from, to be recomputed for each operand. Raises NotOneNest if
    that is expensive.
    """
    pending = [value]
    for each in pending:
        node = each.producer
        is_loaded = each not in nest.places or each in nest.sources or each in nest.windows
        if is_loaded or each in nest.partial or node is None:
            continue
        if _is_costly(node):
            why = "an expensive operand of a concatenation would be recomputed for each element of the others"
            raise NotOneNest(Code.JOINED, why)
        nest.partial[each] = None
        pending += [operand for operand in node.inputs if operand is not None]


def _is_costly(node: Node) -> bool:
    """Whether recomputing ``node`` is expensive."""
    is_folded = Trait.REDUCTION in node.op.traits or isinstance(node.op, JoinsOperands)
    return is_folded or weight_of_node(node) > CHEAP

"""Concatenations inside a region: for each element, the kernel selects the operand that has it."""

from __future__ import annotations

from typing import Final

from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.moved_axes import Concatenates
from graphwright.ir.op import Trait
from graphwright.ir.refusal import Code
from graphwright.loop_nests.axes import NotOneNest
from graphwright.loop_nests.builder import weight_of_node
from graphwright.loop_nests.nest import Nest

MAX_OPERANDS: Final = 4
"""The most operands of a concatenation inside a region."""
MAX_RECOMPUTE_COST: Final = 10
"""The largest cost of a node that may be recomputed for each operand of a concatenation."""


def add_concat(nest: Nest, node: Node) -> None:
    """Adds a concatenation of operands of equal size: the number of the operand becomes another axis. Raises
    NotOneNest.
    """
    assert isinstance(node.op, Concatenates)
    operands = [value for value in node.inputs if value is not None]
    axis = node.op.axis % len(node.output.type.dims)
    if len({value.type.dims[axis] for value in operands}) > 1 or not 1 < len(operands) <= MAX_OPERANDS:
        raise NotOneNest(
            Code.JOINED, f"a region can only concatenate 2 to {MAX_OPERANDS} operands of equal size"
        )
    axis_maps = [nest.axis_map_of(value) for value in operands]
    joined = list(axis_maps[0])
    for axis_map in axis_maps[1:]:
        joined = [nest.axes.unify(a, b) if a and b else a or b for a, b in zip(joined, axis_map, strict=True)]
    for value in operands:
        if value in nest.rolls:
            raise NotOneNest(Code.JOINED, "it concatenates rolled values")
        nest.mark_loaded(value)
        _allow_recomputing(nest, value)
    number = nest.axes.new(len(operands))
    joined[axis] = (number, *joined[axis])
    nest.axis_maps[node.output] = tuple(joined)
    nest.concat_axes[number] = None


def _allow_recomputing(nest: Nest, value: Value) -> None:
    """Allows the kernel to recompute ``value`` and its operands for each operand of the concatenation. Raises
    NotOneNest if that is expensive.
    """
    pending = [value]
    for each in pending:
        node = each.producer
        is_loaded = each not in nest.axis_maps or each in nest.sources or each in nest.slices
        if is_loaded or each in nest.partial or node is None:
            continue
        if _is_costly(node):
            why = "an expensive operand of a concatenation would be recomputed for each element of the others"
            raise NotOneNest(Code.JOINED, why)
        nest.partial[each] = None
        pending += [operand for operand in node.inputs if operand is not None]


def _is_costly(node: Node) -> bool:
    """Whether recomputing ``node`` is expensive."""
    has_loop = Trait.REDUCTION in node.op.traits or isinstance(node.op, Concatenates)
    return has_loop or weight_of_node(node) > MAX_RECOMPUTE_COST

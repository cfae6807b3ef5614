"""Constraints on beneficial merges, which several fusion rules use."""

from __future__ import annotations

from typing import Final

from graphwright.cost.machine import Machine
from graphwright.fusion.candidate import Candidate
from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.graph import Node
from graphwright.ir.interfaces.blocked_form import BlockedForm, can_be_blocked
from graphwright.ir.op import Trait
from graphwright.ir.refusal import Code, Refusal
from graphwright.ir.types import HALVES
from graphwright.loop_nests.builder import weight_of_node
from graphwright.loop_nests.nest import Nest

ROW_SHARE: Final = 80
"""The largest share of the L2 cache, in percent, that the operands of one row may take if several passes read
them.
"""
FUNCTION_WEIGHT: Final = 50
"""A node with at least this weight computes a transcendental function."""
FEWEST_ROWS: Final = 16
"""From this number of rows on, computing such functions one lane at a time costs more than another launch."""


def rows_stay_in_cache(candidate: Candidate) -> Refusal | None:
    """Refuses a merge whose rows are read in several passes but do not fit in the L2 cache."""
    return row_refusal(candidate.nest, candidate.target.machine)


def row_refusal(nest: Nest, machine: Machine) -> Refusal | None:
    """Why a kernel should not read the rows of ``nest`` in several passes; None if they stay in the cache."""
    if not nest.reduced:
        return None
    row = nest.axes.extent(nest.reduced)
    inner_is_reduced = nest.domain[-1] in nest.reduced
    room = machine.l2.bytes * ROW_SHARE // 100
    if isinstance(row, int) and inner_is_reduced and 4 * row * (1 + len(nest.operand_maps)) > room:
        why = f"rows of {row} elements do not stay in the cache between passes"
        return Refusal(Code.ROW_BEYOND_CACHE, why)
    return None


def narrow_operands_stay(candidate: Candidate) -> Refusal | None:
    """Refuses to fuse a node that widens its operand with the producer of a stored operand: the readers can
    widen it.
    """
    first, *more = candidate.consumer.nodes
    if more or not _widens(first) or not _is_stored(first, candidate):
        return None
    why = "its operand is narrower, and each reader can widen it itself"
    return Refusal(Code.NARROW_OPERAND, why)


def rounded_images_stay_apart(candidate: Candidate) -> Refusal | None:
    """Refuses to round an image to 16 bits in the epilogue of its convolution: blocked kernels store f32."""
    anchor, (first, *_) = candidate.anchor, candidate.consumer.nodes
    if anchor is None or not isinstance(anchor.op, BlockedForm) or not can_be_blocked(anchor.output):
        return None
    if first.output.type.dtype not in HALVES:
        return None
    return Refusal(Code.ROUNDED_IMAGE, Code.ROUNDED_IMAGE.means)


def reduction_operands_stay(candidate: Candidate) -> Refusal | None:
    """Refuses to fuse a node that only a reduction reads with the producer of a stored operand. The reduction
    can compute the node while it reads the operand: for example, the squares of a norm after a residual
    connection.
    """
    first, *more = candidate.consumer.nodes
    if more or not candidate.producer.anchors or not _is_read_by_reduction(first):
        return None
    read = {v for v in first.inputs if v is not None and not is_constant(v)}
    if any(not candidate.is_kept(value) for value in read):
        return None
    why = "a reduction computes it as it reads, and its operand is stored anyway"
    return Refusal(Code.REDUCTION_OPERAND, why)


def row_functions_stay_apart(candidate: Candidate) -> Refusal | None:
    """Refuses to fuse a transcendental function of one value per row into a kernel that reduces rows, unless
    a row reads the result. Such a kernel would compute the function in a single lane of a vector.
    """
    first, *more = candidate.consumer.nodes
    if more or not candidate.producer.has_reduction or weight_of_node(first) < FUNCTION_WEIGHT:
        return None
    values, nest = first.output.type.elements, candidate.nest
    is_few = isinstance(values, int) and values < FEWEST_ROWS
    read = [result for user in first.output.users for result in user.outputs]
    if is_few or any(result.type.elements != values for result in read):
        return None
    if nest.domain[-1:] != nest.reduced[-1:] or not set(nest.reduced).isdisjoint(
        nest.axes_of(nest.axis_map_of(first.output))
    ):
        return None
    row = nest.axes.extent(nest.reduced)
    if isinstance(row, int) and row <= candidate.target.limits.lane_row:  # each lane reduces a row of its own
        return None
    return Refusal(Code.ROW_FUNCTION, Code.ROW_FUNCTION.means)


def _is_read_by_reduction(node: Node) -> bool:
    """Whether only a reduction reads ``node``, directly or through elementwise nodes."""
    while node.op.has_expression() and len(node.output.users) == 1:
        (reader,) = node.output.users
        if Trait.REDUCTION in reader.op.traits:
            return True
        if len([v for v in reader.inputs if v is not None and not is_constant(v)]) > 1:
            return False
        node = reader
    return False


def _widens(node: Node) -> bool:
    """Whether the result of ``node``, which has one operand, has more bytes than the operand."""
    if len(node.inputs) != 1 or not node.op.has_expression():
        return False
    return node.operand(0).type.dtype.bytes < node.output.type.dtype.bytes


def _is_stored(node: Node, candidate: Candidate) -> bool:
    """Whether the operand of ``node`` is stored in any case. There are two reasons: a contraction reads the
    operand; or the chain of readers that begins at ``node`` ends with a node that also reads a later value,
    and so will join the kernel of that value.
    """
    if any(Trait.CONTRACTION in user.op.traits for user in node.operand(0).users):
        return True
    if not candidate.producer.anchors:
        return False
    position = candidate.partition.position
    value = node.output
    while len(value.users) == 1:
        reader = value.users[0]
        others = [v for v in reader.inputs if v is not None and v is not value and not is_constant(v)]
        if any(v.producer and position.get(v.producer, -1) > position[node] for v in others):
            return True
        if not reader.op.has_expression() or others:
            return False
        value = reader.output
    return False

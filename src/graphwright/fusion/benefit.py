"""Which legal merges pay: the constraints that rules share."""

from __future__ import annotations

from typing import Final

from graphwright.cost.machine import Machine
from graphwright.fusion.candidate import Candidate
from graphwright.ir.constant import is_constant
from graphwright.ir.graph import Node
from graphwright.ir.op import Trait
from graphwright.ir.refusal import Code, Refusal
from graphwright.loop_nests.builder import weight_of_node
from graphwright.loop_nests.nest import Nest

ROW_SHARE: Final = 80
"""Percent of the second-level cache that one row's operands may take if they are walked several times."""
FUNCTION_WEIGHT: Final = 50
"""The least weight of a node that computes a transcendental function."""
FEWEST_ROWS: Final = 16
"""Rows from which on such functions cost more, one lane at a time, than another launch."""


def rows_stay_in_cache(candidate: Candidate) -> Refusal | None:
    """Rows that are walked several times fit the second-level cache."""
    return row_refusal(candidate.nest, candidate.target.machine)


def row_refusal(nest: Nest, machine: Machine) -> Refusal | None:
    """Why one kernel is not to walk the rows of ``nest`` several times; None if they stay in the cache."""
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
    """A node that widens its operand joins its readers where the operand is stored anyway."""
    first, *more = candidate.consumer.nodes
    if more or not _widens(first) or not _is_stored(first, candidate):
        return None
    why = "its operand is narrower, and each reader can widen it itself"
    return Refusal(Code.NARROW_OPERAND, why)


def reduction_operands_stay(candidate: Candidate) -> Refusal | None:
    """A node that only a reduction reads joins that reduction, which no epilogue holds, where its operand is
    stored anyway: the squares of a norm behind a residual."""
    first, *more = candidate.consumer.nodes
    if more or not candidate.producer.anchors or not _is_read_by_reduction(first):
        return None
    read = {v for v in first.inputs if v is not None and not is_constant(v)}
    if any(not candidate.is_kept(value) for value in read):
        return None
    why = "a reduction computes it as it reads, and its operand is stored anyway"
    return Refusal(Code.REDUCTION_OPERAND, why)


def row_functions_stay_apart(candidate: Candidate) -> Refusal | None:
    """A transcendental function of one value per row, whose result no row reads, gets a kernel of its own: a
    kernel that reduces rows computes it for a single lane of a vector."""
    first, *more = candidate.consumer.nodes
    if more or not candidate.producer.has_reduction or weight_of_node(first) < FUNCTION_WEIGHT:
        return None
    values, nest = first.output.type.elements, candidate.nest
    is_few = isinstance(values, int) and values < FEWEST_ROWS
    if is_few or any(user.output.type.elements != values for user in first.output.users):
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
    """Whether a reduction alone reads ``node``, through elements computed one by one."""
    while node.op.has_expression() and len(node.output.users) == 1:
        (reader,) = node.output.users
        if Trait.REDUCTION in reader.op.traits:
            return True
        if len([v for v in reader.inputs if v is not None and not is_constant(v)]) > 1:
            return False
        node = reader
    return False


def _widens(node: Node) -> bool:
    """Whether ``node`` gives more bytes than it reads, of one operand."""
    if len(node.inputs) != 1 or not node.op.has_expression():
        return False
    return node.operand(0).type.dtype.bytes < node.output.type.dtype.bytes


def _is_stored(node: Node, candidate: Candidate) -> bool:
    """Whether the operand of ``node`` is stored anyway: a contraction reads it; or the reader at the end of
    the chain that ``node`` begins waits for something later, whose kernel it will join."""
    if any(Trait.CONTRACTION in user.op.traits for user in node.operand(0).users):
        return True
    if not candidate.producer.anchors:
        return False
    position = candidate.partition.position
    value = node.output
    while len(value.users) == 1:
        reader = value.users[0]
        others = [v for v in reader.inputs if v is not None and v is not value]
        if any(v.producer and position.get(v.producer, -1) > position[node] for v in others):
            return True
        if not reader.op.has_expression() or not all(map(is_constant, others)):
            return False
        value = reader.output
    return False

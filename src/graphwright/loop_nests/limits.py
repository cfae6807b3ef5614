"""Limits that a target sets for schedules."""

from __future__ import annotations

from graphwright.ir.loops.nodes import Level
from graphwright.records import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of a target for regions and their schedules. The names of strategies are those of
    :class:`~graphwright.ir.builtin.fused.Strategy`.
    """

    memory: frozenset[Level]
    """The memory levels that buffers can use."""
    nodes: int
    """The most nodes of a region; larger kernels are not faster."""
    operands: int
    """The most operands of a region; each needs a pointer in a register or on the stack."""

    column_block: int
    """COLUMNS: the most columns per block, so that their accumulators stay in the cache."""
    column_step: int
    """COLUMNS: wider rows are split into blocks of nearly equal size, multiples of this."""
    unroll: int
    """ROWS: the number of short rows per iteration."""
    unroll_row: int
    """ROWS: the most elements of a short row, in which the latency of sums dominates."""
    unroll_elements: int
    """ROWS: the most elements of an operand that the caches hold. Rows that come from memory are computed one
    at a time, as longer pauses between reading them cost more than the latency of sums.
    """
    short_axis: int
    """SHORT_ROWS: the largest innermost axis for which the row loop is inside the vector loop. Values that
    are the same for all rows, such as a scale per channel, then stay in registers.
    """
    row_block: int
    """SHORT_ROWS: rows per unit of work."""

    lane_row: int
    """LANES: the most elements per row for which strided loads cost less than horizontal sums; half as many
    for 8-byte elements.
    """
    lane_columns: int
    """LANES: columns that fit in one vector."""
    register_row: int
    """LANES: the most elements per row for which costly values stay in registers or on the stack."""
    cache_ways: int
    """The associativity of the L1 cache: the number of rows that it holds at the same page offset."""
    page: int
    """Elements of a page: rows at this distance map to the same cache set."""
    lane_block: int
    """LANES: lanes per unit of work."""
    lane_sums: int
    """LANES: independent partial sums per lane, which hide the latency of additions."""

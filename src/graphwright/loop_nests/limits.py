"""What schedules may use of a target."""

from __future__ import annotations

from graphwright.ir.loops.nodes import Level
from graphwright.records import dataclass


@dataclass(frozen=True)
class Limits:
    """Sizes beyond which a schedule would not pay, or not fit.

    Regions: ``nodes`` (beyond, a kernel's text grows and nothing is gained) and ``operands`` (each is a
    pointer in a register or on the stack). ``memory``: where buffers may lie.
    """

    memory: frozenset[Level]
    nodes: int
    operands: int

    column_block: int
    """Columns whose accumulators stay in the cache. Shorter rows are read whole, since memory is fastest
    without gaps."""
    column_step: int
    """Longer rows are cut into blocks of nearly the same size: a multiple of this."""
    jam: int
    """Short rows with reductions that are computed side by side."""
    jam_row: int
    """Elements of a row up to which it is short: it would wait for its own sums."""
    short_axis: int
    """Where the innermost axis is no longer, the loop over rows is inside that over lanes: what is the same
    for all rows, such as the scale of each channel, stays in registers."""
    row_block: int
    """Such rows per unit of work."""

    lane_row: int
    """Elements of a row up to which strided loads cost less than sums over lanes; half of them if of 8
    bytes."""
    lane_columns: int
    """Columns that one vector holds."""
    register_row: int
    """Elements of a row up to which costly values stay in registers, or in the stack."""
    cache_ways: int
    """Rows at the same place of a page that the first-level cache holds."""
    page: int
    """Elements of a page: rows that are so many apart share a set of the cache."""
    lane_block: int
    """Lanes per unit of work."""
    lane_sums: int
    """Sums of one lane that are folded side by side: each waits for the latency of an addition."""

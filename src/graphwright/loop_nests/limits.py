"""Limits that a target sets for schedules."""

from __future__ import annotations

from graphwright.ir.loops.nodes import Level
from graphwright.records import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits beyond which a schedule would not pay, or not fit.

    For regions: ``nodes`` (larger kernels gain nothing) and ``operands`` (each is a pointer in a register or
    on the stack). ``memory``: the memory levels that buffers can use.
    """

    memory: frozenset[Level]
    nodes: int
    operands: int

    column_block: int
    """Columns whose accumulators stay in the cache. Shorter rows are read whole, as contiguous reads are
    fastest.
    """
    column_step: int
    """Longer rows are split into blocks of nearly equal size, multiples of this."""
    jam: int
    """Short rows with reductions that are computed together (unroll-and-jam)."""
    jam_row: int
    """Rows up to this many elements are short: the latency of their sums dominates."""
    short_axis: int
    """Up to this size of the innermost axis, the row loop is inside the vector loop: values that are equal
    for all rows, such as a scale per channel, stay in registers.
    """
    row_block: int
    """Such rows per unit of work."""

    lane_row: int
    """Up to this many elements per row, strided loads cost less than horizontal sums; half as many for 8-byte
    elements.
    """
    lane_columns: int
    """Columns that fit in one vector."""
    register_row: int
    """Up to this many elements per row, costly values stay in registers or on the stack."""
    cache_ways: int
    """Associativity of the L1 cache: rows that it holds at the same page offset."""
    page: int
    """Elements of a page: rows at this distance map to the same cache set."""
    lane_block: int
    """Lanes per unit of work."""
    lane_sums: int
    """Independent partial sums per lane, which hide the latency of additions."""

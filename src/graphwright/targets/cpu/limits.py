"""The limits of schedules on an x86-64 core, independent of its vector width."""

from __future__ import annotations

from typing import Final

from graphwright.cost.machine import MACHINES
from graphwright.ir.loops.nodes import Level
from graphwright.loop_nests.limits import Limits

_MACHINE: Final = MACHINES["v3"]
"""These limits are assumed to be the same for all ISAs."""

LIMITS: Final = Limits(
    memory=frozenset(Level),
    nodes=64,
    operands=24,
    column_block=1024,
    column_step=64,
    unroll=2,
    unroll_row=1024,
    unroll_elements=1 << 21,
    short_axis=32,
    row_block=256,
    lane_row=_MACHINE.lane_row,
    lane_columns=16,
    register_row=32,
    cache_ways=_MACHINE.l1_ways,
    page=_MACHINE.l1_period,
    lane_block=256,
    lane_sums=8,
)
"""They were found by measuring kernels with AVX2 and with AVX-512."""

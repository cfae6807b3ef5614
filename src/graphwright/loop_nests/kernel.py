"""The kernel of a scheduled region."""

from __future__ import annotations

from graphwright.ir.builtin.fused import Schedule, Strategy
from graphwright.ir.constants.pool import ConstantPool
from graphwright.ir.graph import Graph
from graphwright.loop_nests.builder import RegionKernel
from graphwright.loop_nests.lanes import Lanes
from graphwright.loop_nests.row import Row


def region_kernel(region: Graph, schedule: Schedule, constants: ConstantPool, name: str) -> RegionKernel:
    """The kernel of a region of elementwise ops, views and row reductions."""
    builder = Lanes if schedule.strategy is Strategy.LANES else Row
    return builder(region, schedule, constants, name).build()

"""Which schedule the kernel of a region has."""

from __future__ import annotations

from graphwright.ir.constant import Constant
from graphwright.ir.graph import ConstantPool, Graph
from graphwright.loop_nests.axes import analyse
from graphwright.loop_nests.builder import RegionKernel
from graphwright.loop_nests.lanes import Lanes, fits_lanes
from graphwright.loop_nests.row import Row


def region_kernel(region: Graph, constants: ConstantPool, name: str) -> RegionKernel:
    """The kernel of a region of elementwise ops, views and row reductions."""
    nest = analyse([node for node in region if not isinstance(node.op, Constant)])
    schedule = Lanes if fits_lanes(nest) else Row
    return schedule(region, nest, constants, name).build()

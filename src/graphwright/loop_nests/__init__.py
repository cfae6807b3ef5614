"""From a fused region to the loop IR of one kernel.

The region's nodes lie on one system of axes (``axes.py``). Axes that every operand walks together are
joined, the innermost becomes the vector axis, the others are the grid.
"""

from graphwright.loop_nests.builder import RegionKernel
from graphwright.loop_nests.hook import hook_kernel
from graphwright.loop_nests.schedule import region_kernel

__all__ = ["RegionKernel", "hook_kernel", "region_kernel"]

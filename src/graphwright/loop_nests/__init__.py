"""Generates loop IR for a region.

- ``analysis`` maps the dims of all values of a region to common ``axes``, or reports why the nodes do not
  form one loop nest. ``moves``, ``rolls`` and ``concats`` handle nodes that only move elements: they become
  addresses of loads and stores.
- ``schedule`` chooses the loop structure within the ``limits`` of a target.
- ``row``, ``lanes`` and ``hook`` build the loops.
"""

from graphwright.loop_nests.builder import FLAT, RegionKernel
from graphwright.loop_nests.hook import hook_kernel
from graphwright.loop_nests.kernel import region_kernel
from graphwright.loop_nests.schedule import schedule_of

__all__ = ["FLAT", "RegionKernel", "hook_kernel", "region_kernel", "schedule_of"]

"""From a region to the loop IR of one kernel.

``analysis`` puts the region's nodes on one system of ``axes``, or says why they are not one nest; ``moves``
are those whose elements other nodes load or store at other addresses; ``schedule``
chooses within the ``limits`` of a target how the loops over these axes are arranged; ``row``, ``lanes`` and
``hook`` build them.
"""

from graphwright.loop_nests.builder import FLAT, RegionKernel
from graphwright.loop_nests.hook import hook_kernel
from graphwright.loop_nests.kernel import region_kernel
from graphwright.loop_nests.schedule import schedule_of

__all__ = ["FLAT", "RegionKernel", "hook_kernel", "region_kernel", "schedule_of"]

"""Chooses the loop schedule of each fused region, once its nodes and layouts are final."""

from __future__ import annotations

from collections.abc import Hashable

from graphwright.ir.builtin.fused import Fused, Schedule, region_of
from graphwright.ir.graph import Module
from graphwright.layout.physical import has_layouts, physical_region
from graphwright.loop_nests import schedule_of
from graphwright.passes.base import Pass, Record
from graphwright.passes.cse import region_key
from graphwright.passes.traversal import nodes_of
from graphwright.records import dataclass, replace
from graphwright.targets.base import Target


@dataclass(frozen=True)
class ScheduleRegions(Pass):
    """Chooses the loop schedule of every Fused node within the limits of ``target``."""

    target: Target
    name: str = "schedule"

    def run(self, module: Module, record: Record) -> bool:
        before = record.counts["regions"]
        chosen: dict[Hashable, Schedule] = {}  # by content: the layers of a model repeat
        for _, node, fused in nodes_of(module, Fused):
            region = region_of(node)
            key = region_key(region)
            if key not in chosen:
                physical = physical_region(region) if has_layouts(region) else region
                chosen[key] = schedule_of(physical, self.target.limits)
            node.op = replace(fused, schedule=chosen[key])
            record.did("regions")
        return record.counts["regions"] > before

"""Inlines fused regions, which restores the graph from before fusion."""

from __future__ import annotations

from graphwright.ir.builtin.fused import Fused
from graphwright.ir.clone import inline_region
from graphwright.ir.graph import Module, Value
from graphwright.passes.base import Pass, Record
from graphwright.passes.traversal import graphs
from graphwright.records import dataclass


@dataclass(frozen=True)
class Unfuse(Pass):
    """Inlines every Fused node, including those in branches."""

    name: str = "unfuse"

    def run(self, module: Module, record: Record) -> bool:
        before = record.counts["inlined"]
        for graph in list(graphs(module)):
            for node in list(graph):
                if isinstance(node.op, Fused):
                    inline_region(node, node.regions[0], [v for v in node.inputs if isinstance(v, Value)])
                    record.did("inlined")
        return record.counts["inlined"] > before

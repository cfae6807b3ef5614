"""A closed region that becomes one kernel."""

from __future__ import annotations

from graphwright.ir.graph import Graph, Node
from graphwright.ir.op import op
from graphwright.ir.region_op import CallOp


@op("Fused")
class Fused(CallOp):
    """Computes its region in one kernel. Inlining it unfuses."""

    results: int = 1


def region_of(node: Node) -> Graph:
    """The only region of a Fused node."""
    (region,) = node.regions
    return region

"""A closed region that becomes one kernel."""

from __future__ import annotations

from graphwright.ir.enclosing import Enclosing
from graphwright.ir.graph import Graph, Node
from graphwright.ir.op import op


@op("Fused")
class Fused(Enclosing):
    """Computes its region in one kernel. Inlining it unfuses."""

    results: int = 1


def region_of(node: Node) -> Graph:
    """The only region of a Fused node."""
    (region,) = node.regions
    return region

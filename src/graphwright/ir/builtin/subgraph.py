"""The Subgraph op: a closed region that is compiled to a separate program."""

from __future__ import annotations

from graphwright.ir.op import op
from graphwright.ir.op.region_op import CallOp


@op("Subgraph")
class Subgraph(CallOp):
    """Computes its region in one program, between nodes that the host runs.

    Calls in host programs refer to it by ``number``. Inlining it restores the graph from
    before partitioning.
    """

    number: int = 0

"""A closed region that is compiled as a program of its own."""

from __future__ import annotations

from graphwright.ir.op import op
from graphwright.ir.region_op import CallOp


@op("Subgraph")
class Subgraph(CallOp):
    """Computes its region in one program: what lies between nodes that the host runs.

    Calls in host programs name it by ``number``. Inlining it gives the graph before it was partitioned.
    """

    number: int = 0

"""A closed region that is compiled as a program of its own."""

from __future__ import annotations

from graphwright.ir.enclosing import Enclosing
from graphwright.ir.op import op


@op("Part")
class Part(Enclosing):
    """Computes its region in one program: what lies between nodes that run on the host.

    Part ``number`` is that of the package. Inlining it gives the graph before the cut.
    """

    number: int = 0

"""PartitionedCall."""

from __future__ import annotations

from graphwright.ir.enclosing import Enclosing
from graphwright.ir.op import op


@op("PartitionedCall")
class PartitionedCall(Enclosing):
    """Computes its region on its operands. It is inlined before kernels are selected."""

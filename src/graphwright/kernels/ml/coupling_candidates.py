"""PairwiseCoupling by a library kernel."""

from __future__ import annotations

from graphwright.ir.graph import Node
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Launch, launch_of
from graphwright.kernels.library.bits import double_bits
from graphwright.kernels.ml import coupling
from graphwright.ops.ml.pairwise_coupling import MAX_ITERATIONS, TOLERANCE, PairwiseCoupling


@candidate(PairwiseCoupling)
def pairwise_coupling(node: Node[PairwiseCoupling], context: Context) -> Launch | str:
    """Computes row by row."""
    op, x, y = node.op, node.operand(0), node.output
    if op.classes > coupling.MAX_CLASSES:
        return f"it has more than {coupling.MAX_CLASSES} classes"
    call = coupling.CouplingCall(x.type.dims[0], op.classes, MAX_ITERATIONS, double_bits(TOLERANCE))
    operands, writes = coupling.ABI.ordered(x=x, y=y), coupling.ABI.positions("y")
    return launch_of(call, coupling.SYMBOL, operands, writes, context.isa)

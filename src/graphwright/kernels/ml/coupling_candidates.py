"""PairwiseCoupling by a library kernel."""

from __future__ import annotations

from graphwright.ir.graph import Node
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Launch
from graphwright.kernels.library.bits import double_bits
from graphwright.kernels.ml import coupling
from graphwright.kernels.ref import KernelRef
from graphwright.ops.ml.pairwise_coupling import MAX_ITERATIONS, TOLERANCE, PairwiseCoupling


@candidate(PairwiseCoupling)
def pairwise_coupling(node: Node[PairwiseCoupling], context: Context) -> Launch | str:
    """Computes row by row."""
    op, x, y = node.op, node.operand(0), node.output
    if op.classes > coupling.MAX_CLASSES:
        return f"it has more than {coupling.MAX_CLASSES} classes"
    args = coupling.CouplingArgs(x.type.dims[0], op.classes, MAX_ITERATIONS, double_bits(TOLERANCE))
    return Launch(
        KernelRef(coupling.SYMBOL),
        coupling.ABI.ordered(x=x, y=y),
        coupling.ABI.positions("y"),
        tuple(args),
        coupling.grid(args),
        coupling.scratch_bytes(args),
        coupling.work_ns(context.isa, args),
    )

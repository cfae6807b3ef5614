"""Ops with over-allocated outputs, which return how many rows they filled."""

from __future__ import annotations

from graphwright.ir.graph import Node
from graphwright.ir.types import I64, DType, TensorType
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Run, launch_of
from graphwright.kernels.movement.rows import MAX_RANK
from graphwright.kernels.search.non_max_suppression import CHOOSE_ABI, JOIN_ABI, Choose, Join
from graphwright.kernels.search.non_zero import ABI, NonZero
from graphwright.ops.core.non_zero import BoundedNonZero
from graphwright.ops.nn.non_max_suppression import BoundedNonMaxSuppression


@candidate(BoundedNonMaxSuppression)
def non_max_suppression(node: Node[BoundedNonMaxSuppression], context: Context) -> Run:
    """Selects boxes for each class, then joins the rows of all classes."""
    op, (rows, total) = node.op, node.outputs
    boxes, scores, *scalars = node.inputs
    most, overlap, least = (*scalars, None, None, None)[:3]
    batches, classes, count = node.operand(1).type.dims
    choose = Choose(op.centered, batches, classes, count, op.limit)
    join = Join(batches * classes, op.limit)
    filled = context.temporary(TensorType(I64, (batches * classes,)), "filled")
    operands = CHOOSE_ABI.ordered(
        boxes=boxes, scores=scores, most=most, overlap=overlap, least=least, rows=rows, filled=filled
    )
    joined = JOIN_ABI.ordered(filled=filled, rows=rows, total=total)
    return Run(
        (
            launch_of(choose, Choose.SYMBOL, operands, CHOOSE_ABI.positions("rows", "filled"), context.isa),
            launch_of(join, Join.SYMBOL, joined, JOIN_ABI.positions("rows", "total"), context.isa),
        )
    )


@candidate(BoundedNonZero)
def non_zero(node: Node, context: Context) -> Run | str:
    """Counts in each block, then writes the indices of each block."""
    x, (room, total) = node.operand(0), node.outputs
    mask, shape = _mask(x.type.dtype), x.type.dims
    if mask is None or len(shape) > MAX_RANK:
        return f"no kernel that finds elements of {x.type}"
    kernel = NonZero(x.type.dtype.bytes, mask, shape)
    counts = context.temporary(TensorType(I64, (kernel.grid,)), "counts")
    operands = ABI.ordered(x=x, counts=counts, indices=room, total=total)
    return Run(
        (
            launch_of(kernel, NonZero.COUNT, operands[:2], ABI.positions("counts"), context.isa),
            launch_of(kernel, NonZero.WRITE, operands, ABI.positions("indices", "total"), context.isa),
        )
    )


def _mask(dtype: DType) -> int | None:
    """The bits of which one is set if an element is not 0; None if the dtype has no such bits."""
    if dtype.is_float and dtype.bits >= 16:
        return (1 << dtype.bits - 1) - 1
    return -1 if dtype.kind in ("bool", "int", "uint") and dtype.bits >= 8 else None

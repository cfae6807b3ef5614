"""RoiAlign by a library kernel."""

from __future__ import annotations

from graphwright.ir.graph import Node
from graphwright.ir.types import F32
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Run, launch_of
from graphwright.kernels.library.bits import single_bits
from graphwright.kernels.movement.indexing_candidates import check
from graphwright.kernels.pool import roi_align as kernel
from graphwright.ops.nn.roi_align import RoiAlign


def _is_mean(node: Node[RoiAlign]) -> bool:
    """Whether it computes means in f32, of not too many samples."""
    op = node.op
    return op.mode == "avg" and op.points <= kernel.MAX_POINTS and node.operand(0).type.dtype == F32


@candidate(RoiAlign, serves=_is_mean)
def roi_align(node: Node[RoiAlign], context: Context) -> Run | str:
    """Region by region, after a check of the indices of images."""
    if not _is_mean(node):
        return "the kernel computes means in f32"
    op, x, regions, images, y = node.op, *map(node.operand, range(3)), node.output
    (batch, channels, *size), count = x.type.dims, y.type.dims[0]
    how = op.points, int(op.half_pixel), single_bits(op.scale)
    call = kernel.RoiAlignCall(count, batch, channels, size[0], size[1], op.height, op.width, *how)
    operands = kernel.ABI.ordered(x=x, regions=regions, images=images, y=y)
    launch = launch_of(call, kernel.SYMBOL, operands, kernel.ABI.positions("y"), context.isa)
    return Run((*check(images, (x.type.dims[0],), y, context), launch))

"""Resize in channel-blocked layouts."""

from __future__ import annotations

from graphwright.ir.graph import Node
from graphwright.kernels.candidates.blocks import ROW_MAJOR, block_strides, image_size, launch_on_blocks
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Run
from graphwright.kernels.library.bits import double_bits
from graphwright.kernels.resize import blocked_resize
from graphwright.kernels.resize.resize import Coordinates, Rounding
from graphwright.layout.blocks import is_blocked
from graphwright.ops.nn.resize import Resize

_RESIZES = {
    "nearest": blocked_resize.NEAREST,
    "linear": blocked_resize.LINEAR,
    "cubic": blocked_resize.CUBIC,
}


@candidate(Resize, blocks=True)
def resize(node: Node[Resize], context: Context) -> Run | str:
    """Resizes the two spatial axes of channel-blocked images."""
    op, x, y, isa = node.op, node.operand(0), node.output, context.isa
    if not is_blocked(x):
        return ROW_MAJOR
    (h, w), (oh, ow) = image_size(x), image_size(y)
    *_, scale_h, scale_w = (0.0, *(op.scales or (0.0, 0.0)))
    args = blocked_resize.BlockedResizeArgs(
        *(x.type.dims[0], x.type.dims[1]),
        Coordinates[op.coordinates.upper()],
        Rounding[op.rounding.upper()],
        int(op.exclude_outside),
        double_bits(op.cubic_a),
        *(h, oh, double_bits(scale_h)),
        *(w, ow, double_bits(scale_w)),
        *block_strides(x),
        *block_strides(y),
    )
    symbol = _RESIZES[op.mode]
    return launch_on_blocks(
        symbol, x, y, args, blocked_resize.grid(isa, args), blocked_resize.scratch_bytes(symbol, args),
        blocked_resize.work_ns(isa, symbol, args),
    )  # fmt: skip

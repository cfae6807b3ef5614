"""Normalization in channel-blocked layouts."""

from __future__ import annotations

from graphwright.ir.graph import Node
from graphwright.ir.interfaces.blocked_form import can_be_blocked
from graphwright.kernels.candidates.blocks import ROW_MAJOR, block_strides, image_size, launch_on_blocks
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Run
from graphwright.kernels.library.bits import double_bits
from graphwright.kernels.normalization import blocked_lrn
from graphwright.layout.blocks import is_blocked
from graphwright.ops.nn.lrn import LRN


@candidate(LRN, serves=lambda node: can_be_blocked(node.output), blocks=True)
def lrn(node: Node[LRN], context: Context) -> Run | str:
    """The kernel for channel blocks."""
    op, x, y, isa = node.op, node.operand(0), node.output, context.isa
    if not is_blocked(x):
        return ROW_MAJOR
    args = blocked_lrn.BlockedLrnArgs(*(
        *x.type.dims[:2], *image_size(x), op.size, *map(double_bits, (op.alpha, op.beta, op.bias)),
        *block_strides(x), *block_strides(y),
    ))  # fmt: skip
    return launch_on_blocks(
        blocked_lrn.SYMBOL, x, y, args, blocked_lrn.grid(isa, args), blocked_lrn.scratch_bytes(isa, args),
        blocked_lrn.work_ns(isa, args),
    )  # fmt: skip

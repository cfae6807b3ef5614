"""Gradients of convolutions with respect to their weights, over one to three spatial axes."""

from __future__ import annotations

from typing import Final

from graphwright.ir.graph import Node
from graphwright.ir.types import F32
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.conv import weight_gradient as kernel
from graphwright.kernels.conv.sliding import sliding
from graphwright.kernels.launch import Launch, launch_of
from graphwright.ops.nn.conv_weight_gradient import ConvWeightGradient

_MOST_AXES: Final = 5


@candidate(ConvWeightGradient)
def weight_gradient(node: Node[ConvWeightGradient], context: Context) -> Launch | str:
    """Sums over vectors of pixels."""
    op, x, dy, dw, isa = node.op, node.operand(0), node.operand(1), node.output, context.isa
    if x.type.dtype != F32 or len(x.type.dims) > _MOST_AXES:
        return f"no kernel for gradients of weights over {x.type}"
    if not (isinstance(x.type.dims[1], int) and isinstance(dy.type.dims[1], int)):
        return "the numbers of channels are not known"
    axes = sliding(op.windows, x.type.dims[2:], dy.type.dims[2:]).merged()
    images, channels = x.type.dims[:2]
    sizes = images, op.group, channels // op.group, dy.type.dims[1] // op.group
    call = kernel.blocked(isa, kernel.WeightGradientCall(*sizes, *axes.depth_height_width))
    operands, writes = kernel.ABI.ordered(x=x, dy=dy, dw=dw), kernel.ABI.positions("dw")
    return launch_of(call, kernel.SYMBOL, operands, writes, isa)

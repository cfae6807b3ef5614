"""GridSample by a library kernel."""

from __future__ import annotations

from typing import Final

from graphwright.ir.graph import Node
from graphwright.ir.symbols import product
from graphwright.ir.types import F32
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Launch, launch_of
from graphwright.kernels.resize import grid_sample as kernel
from graphwright.ops.nn.grid_sample import GridSample

_FEW_CHANNELS: Final = 16
"""With more channels, and many points, it is faster to transpose the image and to gather rows of channels."""


def _is_served(node: Node[GridSample]) -> bool:
    """Whether it samples 2-D images in f32, of few channels or at few points."""
    x, points = node.operand(0).type, node.operand(1).type
    if len(x.dims) != 4 or not x.dtype == points.dtype == F32:
        return False
    channels, pixels, count = x.dims[1], product(x.dims[2:]), product(points.dims[1:-1])
    if isinstance(channels, int) and channels <= _FEW_CHANNELS:
        return True
    return isinstance(pixels, int) and isinstance(count, int) and pixels > 2 * count


@candidate(GridSample, serves=_is_served)
def grid_sample(node: Node[GridSample], context: Context) -> Launch | str:
    """Point by point, for all channels."""
    if not _is_served(node):
        return f"the kernel samples 2-D images in f32, of at most {_FEW_CHANNELS} channels or at few points"
    op, x, points, y = node.op, node.operand(0), node.operand(1), node.output
    mode, padding = kernel.Mode[op.mode.upper()], kernel.Padding[op.padding.upper()]
    count = product(points.type.dims[1:-1])
    how = int(mode), int(padding), int(op.aligned)
    images, channels, height, width = x.type.dims
    call = kernel.GridSampleCall(images, channels, height, width, count, *how)
    operands = kernel.ABI.ordered(x=x, grid=points, y=y)
    return launch_of(call, kernel.SYMBOL, operands, kernel.ABI.positions("y"), context.isa)

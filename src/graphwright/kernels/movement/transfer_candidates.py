"""TransData: converts between row-major values and channel blocks."""

from __future__ import annotations

from graphwright.ir.graph import Node
from graphwright.kernels.candidates.blocks import block_strides, image_size
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Alias, Launch
from graphwright.kernels.movement import reblock
from graphwright.kernels.ref import KernelRef
from graphwright.kernels.strides import row_major_strides
from graphwright.layout.blocks import is_blocked, is_same_memory
from graphwright.layout.trans_data import TransData


@candidate(TransData, blocks=True)
def trans_data(node: Node, context: Context) -> Launch | Alias | str:
    """A conversion between row-major values and channel blocks; an alias for images of one pixel, which are
    the same in both.
    """
    x, y = node.operand(0), node.output
    lanes = context.isa.lanes
    if is_blocked(x) == is_blocked(y):
        return f"no kernel between {x.layout} and {y.layout}"
    blocked, plain = (x, y) if is_blocked(x) else (y, x)
    if is_same_memory(plain, lanes):
        return Alias(x)
    images, channels, *_ = plain.type.dims
    h, w = image_size(plain)
    plain_strides = row_major_strides((images, channels, h, w))[:3]
    args = reblock.ReblockArgs(*(images, channels, h, w, *plain_strides, *block_strides(blocked)))
    symbol = reblock.UNBLOCK if blocked is x else reblock.BLOCK
    isa = context.isa
    grid, work = reblock.grid(isa, args), reblock.work_ns(isa, args)
    return Launch(KernelRef(symbol), (x, y), (1,), tuple(args), grid, work=work)

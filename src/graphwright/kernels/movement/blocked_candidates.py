"""Concat and Split in channel-blocked layouts."""

from __future__ import annotations

from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.blocked_form import CHANNELS
from graphwright.ir.symbols import Dim
from graphwright.kernels.candidates.blocks import ROW_MAJOR, block_strides, image_size
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Launch, Run
from graphwright.kernels.movement import blocked_concat
from graphwright.kernels.ref import KernelRef
from graphwright.layout.blocks import is_blocked
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.split import Split


@candidate(Concat, blocks=True)
def concat(node: Node, context: Context) -> Run | str:
    """Concatenates operands that end inside a block; operands of whole blocks are contiguous in memory."""
    y, lanes = node.output, context.isa.lanes
    operands = [node.operand(k) for k in range(len(node.inputs))]
    if not is_blocked(y) or all(x.type.dims[CHANNELS] % lanes == 0 for x in operands):
        return "its operands are row-major, or whole blocks"
    first: Dim = 0
    launches = []
    for x in operands:
        channels = x.type.dims[CHANNELS]
        launches.append(_copy_channels(x, y, channels, 0, first, context))
        first = first + channels
    return Run(tuple(launches))


@candidate(Split, blocks=True)
def split(node: Node, context: Context) -> Run | str:
    """One copy of channels per output."""
    x = node.operand(0)
    if not is_blocked(x):
        return ROW_MAJOR
    first: Dim = 0
    launches = []
    for y in node.outputs:
        channels = y.type.dims[CHANNELS]
        launches.append(_copy_channels(x, y, channels, first, 0, context))
        first = first + channels
    return Run(tuple(launches))


def _copy_channels(x: Value, y: Value, channels: Dim, x_first: Dim, y_first: Dim, context: Context) -> Launch:
    isa = context.isa
    args = blocked_concat.CopyChannelsArgs(*(
        x.type.dims[0], channels, *image_size(x), x_first, y_first, *block_strides(x), *block_strides(y),
    ))  # fmt: skip
    return Launch(
        KernelRef(blocked_concat.SYMBOL), (x, y), (1,), tuple(args), blocked_concat.grid(isa, args),
        work=blocked_concat.work_ns(isa, args),
    )  # fmt: skip

"""Pooling in channel-blocked layouts."""

from __future__ import annotations

from graphwright.ir.graph import Node
from graphwright.kernels.candidates.blocks import ROW_MAJOR, block_strides, image_size, launch_on_blocks
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Run
from graphwright.kernels.pool import blocked_pool
from graphwright.layout.blocks import is_blocked
from graphwright.ops.nn.average_pool import AveragePool
from graphwright.ops.nn.max_pool import MaxPool
from graphwright.ops.nn.spatial import Pool


@candidate(MaxPool, AveragePool, blocks=True)
def pool(node: Node[Pool], context: Context) -> Run | str:
    """Pools channel-blocked images."""
    op, x, y, isa = node.op, node.operand(0), node.outputs[0], context.isa
    if not is_blocked(x):
        return ROW_MAJOR
    window = op.windows.on_two_axes
    args = blocked_pool.BlockedPoolArgs(*(
        *x.type.dims[:2], *image_size(x), *image_size(y), *window.kernel, *window.strides, *window.pads,
        *window.dilations, int(isinstance(op, AveragePool) and op.include_pads), *block_strides(x),
        *block_strides(y),
    ))  # fmt: skip
    symbol = blocked_pool.MAX if isinstance(op, MaxPool) else blocked_pool.AVERAGE
    return launch_on_blocks(
        symbol, x, y, args, blocked_pool.grid(isa, args), blocked_pool.scratch_bytes(isa, args),
        blocked_pool.work_ns(isa, args, isinstance(op, AveragePool)),
    )  # fmt: skip

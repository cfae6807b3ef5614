"""Max and average pooling over one to three spatial axes."""

from __future__ import annotations

from graphwright.ir.graph import Node
from graphwright.ir.symbols import Dim
from graphwright.ir.types import F32, I8, U8
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Launch, launch_of
from graphwright.kernels.pool import byte_pool
from graphwright.kernels.pool.pool import Pool as PoolKernel
from graphwright.kernels.strides import row_major_strides
from graphwright.ops.nn.average_pool import AveragePool
from graphwright.ops.nn.max_pool import MaxPool
from graphwright.ops.nn.spatial import Pool


@candidate(MaxPool, AveragePool)
def pool(node: Node[Pool], context: Context) -> Launch | str:
    """Pools planar images over one to three spatial axes."""
    op, x, y = node.op, node.operand(0), node.outputs[0]
    rank, symbol = len(op.kernel), _symbol(node)
    if symbol is None or rank > 3:
        return f"no pooling kernel for {x.type.dtype} over {rank} axes"
    window, (batch, channels, *size) = op.windows, x.type.dims
    kernel = PoolKernel(
        symbol,
        batch,
        channels,
        size=_three(size, 1),
        out=_three(y.type.dims[2:], 1),
        kernel=_three(window.kernel, 1),
        strides=_three(window.strides, 1),
        pads_before=_three(window.pads[:rank], 0),
        pads_after=_three(window.pads[rank:], 0),
        dilations=_three(window.dilations, 1),
        x_strides=_four_strides((batch, channels, *size)),
        y_strides=_four_strides(y.type.dims),
        count_include_pad=isinstance(op, AveragePool) and op.include_pads,
        column_major=isinstance(op, MaxPool) and op.column_major,
    )
    operands = (x, *node.outputs)
    return launch_of(kernel, symbol, operands, tuple(range(1, len(operands))), context.isa)


def _symbol(node: Node[Pool]) -> str | None:
    """The kernel for the op and its element type."""
    dtype = node.operand(0).type.dtype
    if not isinstance(node.op, MaxPool):
        return PoolKernel.AVERAGE if dtype == F32 else None
    if len(node.outputs) > 1:
        return PoolKernel.MAX_INDICES if dtype == F32 else None
    return {F32: PoolKernel.MAX, U8: byte_pool.UNSIGNED, I8: byte_pool.SIGNED}.get(dtype)


def _three(values: tuple[Dim, ...] | list[Dim], fill: int) -> tuple[Dim, Dim, Dim]:
    """Values of the spatial axes, extended to depth, height and width."""
    depth, height, width = (fill,) * (3 - len(values)) + tuple(values)
    return depth, height, width


def _four_strides(shape: tuple[Dim, ...]) -> tuple[Dim, Dim, Dim, Dim]:
    """The strides of N, C, D, H."""
    full = (*shape[:2], *_three(shape[2:], 1))
    n, c, d, h, _ = row_major_strides(full)
    return n, c, d, h

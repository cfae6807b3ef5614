"""Ops on images in channel blocks, other than convolutions."""

from __future__ import annotations

from graphwright.ir.blocked_form import CHANNELS, can_be_blocked
from graphwright.ir.graph import Node, Value
from graphwright.ir.symbols import Dim
from graphwright.kernels.candidates.registry import Context, candidate
from graphwright.kernels.candidates.transfers import block_strides, image_size
from graphwright.kernels.launch import Launch, Run
from graphwright.kernels.library.bits import double_bits
from graphwright.kernels.movement import blocked_concat
from graphwright.kernels.normalization import blocked_lrn
from graphwright.kernels.pool import blocked_pool
from graphwright.kernels.ref import KernelRef
from graphwright.kernels.resize import blocked_resize
from graphwright.kernels.resize.resize import Coordinates, Rounding
from graphwright.layout.blocks import is_blocked
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.split import Split
from graphwright.ops.nn.average_pool import AveragePool
from graphwright.ops.nn.lrn import LRN
from graphwright.ops.nn.max_pool import MaxPool
from graphwright.ops.nn.resize import Resize
from graphwright.ops.nn.spatial import Pool

_ROW_MAJOR = "its operand is row-major"

_RESIZES = {
    "nearest": blocked_resize.NEAREST,
    "linear": blocked_resize.LINEAR,
    "cubic": blocked_resize.CUBIC,
}


@candidate(MaxPool, AveragePool)
def pool(node: Node, context: Context) -> Run | str:
    op, x, y, isa = node.op, node.operand(0), node.outputs[0], context.isa
    assert isinstance(op, Pool)
    if not is_blocked(x):
        return _ROW_MAJOR
    window = op.windows.on_two_axes
    made = blocked_pool.BlockedPoolArgs._make((
        *x.type.dims[:2], *image_size(x), *image_size(y), *window.kernel, *window.strides, *window.pads,
        *window.dilations, int(isinstance(op, AveragePool) and op.include_pads), *block_strides(x),
        *block_strides(y),
    ))  # fmt: skip
    symbol = blocked_pool.MAX if isinstance(op, MaxPool) else blocked_pool.AVERAGE
    return _run(
        symbol, x, y, made, blocked_pool.grid(isa, made), blocked_pool.scratch_bytes(isa, made),
        blocked_pool.work_ns(isa, made),
    )  # fmt: skip


@candidate(Resize)
def resize(node: Node, context: Context) -> Run | str:
    op, x, y, isa = node.op, node.operand(0), node.output, context.isa
    assert isinstance(op, Resize)
    if not is_blocked(x):
        return _ROW_MAJOR
    (h, w), (oh, ow) = image_size(x), image_size(y)
    *_, scale_h, scale_w = (0.0, *(op.scales or (0.0, 0.0)))
    made = blocked_resize.BlockedResizeArgs(
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
    return _run(
        symbol, x, y, made, blocked_resize.grid(isa, made), blocked_resize.scratch_bytes(symbol, made),
        blocked_resize.work_ns(isa, symbol, made),
    )  # fmt: skip


@candidate(LRN, serves=lambda node: can_be_blocked(node.output))
def lrn(node: Node, context: Context) -> Run | str:
    op, x, y, isa = node.op, node.operand(0), node.output, context.isa
    assert isinstance(op, LRN)
    if not is_blocked(x):
        return _ROW_MAJOR
    made = blocked_lrn.BlockedLrnArgs._make((
        *x.type.dims[:2], *image_size(x), op.size, *map(double_bits, (op.alpha, op.beta, op.bias)),
        *block_strides(x), *block_strides(y),
    ))  # fmt: skip
    return _run(
        blocked_lrn.SYMBOL, x, y, made, blocked_lrn.grid(isa, made), blocked_lrn.scratch_bytes(isa, made),
        blocked_lrn.work_ns(isa, made),
    )  # fmt: skip


@candidate(Concat)
def concat(node: Node, context: Context) -> Run | str:
    """Operands that end inside a block; those of whole blocks are memory side by side."""
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


@candidate(Split)
def split(node: Node, context: Context) -> Run | str:
    x = node.operand(0)
    if not is_blocked(x):
        return _ROW_MAJOR
    first: Dim = 0
    launches = []
    for y in node.outputs:
        channels = y.type.dims[CHANNELS]
        launches.append(_copy_channels(x, y, channels, first, 0, context))
        first = first + channels
    return Run(tuple(launches))


def _copy_channels(x: Value, y: Value, channels: Dim, x_first: Dim, y_first: Dim, context: Context) -> Launch:
    isa = context.isa
    made = blocked_concat.CopyChannelsArgs._make((
        x.type.dims[0], channels, *image_size(x), x_first, y_first, *block_strides(x), *block_strides(y),
    ))  # fmt: skip
    return Launch(
        KernelRef(blocked_concat.SYMBOL), (x, y), (1,), made, blocked_concat.grid(isa, made),
        blocked_concat.scratch_bytes(isa, made), blocked_concat.work_ns(isa, made),
    )  # fmt: skip


def _run(symbol: str, x: Value, y: Value, args: tuple[Dim, ...], grid: Dim, scratch: Dim, work: Dim) -> Run:
    return Run((Launch(KernelRef(symbol), (x, y), (1,), args, grid, scratch, work),))

"""Ops that move elements: strided copies, padding, gathering."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.graph import Node, Value
from graphwright.ir.op import Inference
from graphwright.ir.symbols import Dim, product
from graphwright.ir.types import TensorType
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Alias, Copy, Launch, Run, launch_of
from graphwright.kernels.movement.copy import CopyNd
from graphwright.kernels.movement.gather import ABI as GATHER
from graphwright.kernels.movement.gather import Gather as GatherKernel
from graphwright.kernels.movement.indexing_candidates import check
from graphwright.kernels.movement.pad import ABI as PAD
from graphwright.kernels.movement.pad import PadMode, PadNd
from graphwright.kernels.movement.rows import MAX_RANK
from graphwright.kernels.strides import row_major_strides
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.identity import Identity
from graphwright.ops.core.pad import Pad
from graphwright.ops.core.roll import Roll
from graphwright.ops.core.slice import Slice, sliced_range
from graphwright.ops.core.split import Split
from graphwright.ops.core.tile import Tile
from graphwright.ops.core.transpose import Transpose

_PAD_MODES = {m.name.lower(): m for m in PadMode}


def _run(context: Context, *copies: tuple[CopyNd, Value, Value]) -> Run | str:
    """A launch for each copy to a target from a source."""
    if refusal := _too_deep(*(len(copy.axes) for copy, _, _ in copies)):
        return refusal
    launches = (
        launch_of(copy, CopyNd.SYMBOL, (source, target), (1,), context.isa) for copy, target, source in copies
    )
    return Run(tuple(launches))


def _too_deep(*ranks: int) -> str | None:
    return f"it has more than {MAX_RANK} axes" if max(ranks, default=0) > MAX_RANK else None


@candidate(Identity)
def identity(node: Node, context: Context) -> Alias:
    """An alias of the operand."""
    return Alias(node.operand(0))


@candidate(Transpose, blocks=True)
def transpose(node: Node[Transpose], context: Context) -> Run | str:
    """One copy with permuted source strides."""
    x, y = node.operand(0), node.output
    if x.layout is not None or y.layout is not None:
        return _between_blocks_and_rows(x, y, context)
    shape = x.type.dims
    perm = node.op.perm or tuple(reversed(range(len(shape))))
    strides = row_major_strides(shape)
    target = row_major_strides(y.type.dims)
    copy = CopyNd(x.type.dtype.bytes, y.type.dims, target, tuple(strides[a] for a in perm))
    return _run(context, (copy, y, x))


def _between_blocks_and_rows(x: Value, y: Value, context: Context) -> Run | str:
    """One copy of the lanes of each block, between channel-blocked images and rows of channels."""
    image, rows = (x, y) if x.layout is not None else (y, x)
    blocks = image.memory_shape
    images, count, *pixels, lanes = blocks
    if rows.layout is not None or rows.type.dims[-1] != count * lanes:
        return "neither side has row-major rows of whole channel blocks"
    shape = (images, *pixels, count, lanes)
    n, c, *p, lane = row_major_strides(blocks)
    in_blocks, in_rows = (n, *p, c, lane), row_major_strides(shape)
    target, source = (in_rows, in_blocks) if image is x else (in_blocks, in_rows)
    return _run(context, (CopyNd(x.type.dtype.bytes, shape, target, source), y, x))


@candidate(Expand)
def expand(node: Node, context: Context) -> Run | str:
    """One copy whose source has stride 0 along the expanded axes."""
    x, y = node.operand(0), node.output
    shape, source = y.type.dims, x.type.dims
    missing = len(shape) - len(source)
    strides = (0,) * missing + tuple(
        0 if size == 1 else stride for size, stride in zip(source, row_major_strides(source), strict=True)
    )
    return _run(context, (CopyNd(x.type.dtype.bytes, shape, row_major_strides(shape), strides), y, x))


@candidate(Slice)
def slice_(node: Node[Slice], context: Context) -> Run | Alias | str:
    """One strided copy; an alias if the elements are contiguous."""
    x, y, op = node.operand(0), node.output, node.op
    if op.starts is None:
        return "its bounds are computed at run time"
    at = Inference(context.symbols, node.location)
    offset: Dim = 0
    shape, whole = x.type.dims, row_major_strides(x.type.dims)
    strides = list(whole)
    for start, end, axis, step in zip(op.starts, op.ends, op.axes, op.steps, strict=True):
        first, _ = sliced_range(at, shape[axis % len(shape)], start, end, step)
        offset = offset + first * whole[axis % len(shape)]
        strides[axis % len(shape)] = whole[axis % len(shape)] * step
    if _is_dense(y.type.dims, strides):
        return Alias(x, offset * x.type.dtype.bytes)
    copy = CopyNd(
        x.type.dtype.bytes, y.type.dims, row_major_strides(y.type.dims), tuple(strides), src_offset=offset
    )
    return _run(context, (copy, y, x))


def _is_dense(shape: tuple[Dim, ...], strides: list[Dim]) -> bool:
    """Whether elements of ``shape`` with ``strides`` are contiguous."""
    dense = row_major_strides(shape)
    return all(size == 1 or a == b for size, a, b in zip(shape, strides, dense, strict=True))


@candidate(Roll)
def roll(node: Node[Roll], context: Context) -> Run | str:
    """Two copies: the end of the axis, and the elements before it."""
    x, y, start = node.operand(0), node.output, node.op.start
    shape = x.type.dims
    axis, strides = node.op.axis % len(shape), row_major_strides(shape)
    size, stride = shape[axis], strides[axis]
    copies = []
    for first, to, count in ((start, 0, size - start), (0, size - start, start)):
        part = (*shape[:axis], count, *shape[axis + 1 :])
        copy = CopyNd(
            x.type.dtype.bytes, part, strides, strides, dst_offset=to * stride, src_offset=first * stride
        )
        copies.append((copy, y, x))
    return _run(context, *copies)


@candidate(Split)
def split(node: Node[Split], context: Context) -> Run | str:
    """One copy per output."""
    x, op = node.operand(0), node.op
    if op.sizes is None:
        return "its sizes are computed at run time"
    shape = x.type.dims
    axis, strides = op.axis % len(shape), row_major_strides(shape)
    offset: Dim = 0
    copies = []
    for y, size in zip(node.outputs, op.sizes, strict=True):
        dims = y.type.dims
        copy = CopyNd(
            x.type.dtype.bytes, dims, row_major_strides(dims), strides, src_offset=offset * strides[axis]
        )
        copies.append((copy, y, x))
        offset = offset + size
    return _run(context, *copies)


@candidate(Concat, blocks=True)
def concat(node: Node[Concat], context: Context) -> Run | str:
    """Copies each input to its slot of the output; slots are contiguous along the outermost axis that is not
    1.
    """
    y, op = node.output, node.op
    shape, size, axis = y.memory_shape, y.type.dtype.bytes, op.axis % len(y.type.dims)
    if refusal := _inside_blocks(node):
        return refusal
    strides = row_major_strides(shape)
    offset: Dim = 0
    places = []
    for position in range(len(node.inputs)):
        x = node.operand(position)
        places.append((x, offset * strides[axis]))
        offset = offset + x.memory_shape[axis]
    if product(shape[:axis]) == 1:
        slots = (Copy(x, y, at * size, position) for position, (x, at) in enumerate(places))
        return Run(tuple(slots), frozenset(range(len(places))))
    return _run(context, *((_slot(x, y, at), y, x) for x, at in places))


def _slot(x: Value, y: Value, at: Dim) -> CopyNd:
    """Copies ``x`` to the elements of ``y`` that begin at ``at``."""
    dims = x.memory_shape
    strides = row_major_strides(y.memory_shape), row_major_strides(dims)
    return CopyNd(y.type.dtype.bytes, dims, *strides, dst_offset=at)


def _inside_blocks(node: Node[Concat]) -> str | None:
    """The reason why channel-blocked operands are not contiguous in the result."""
    layout = node.output.layout
    sizes = () if layout is None else layout.blocks
    ends = any(v.type.dims[axis] % size != 0 for v in node.inputs if v is not None for axis, size in sizes)
    return "an operand ends inside of a block" if ends else None


@candidate(Pad)
def pad(node: Node[Pad], context: Context) -> Launch | str:
    """One launch for each mode; the pads are known when a plan is made."""
    x, y, op = node.operand(0), node.output, node.op
    if op.pads is None:
        return "its pads are computed at run time"
    if refusal := _too_deep(len(x.type.dims)):
        return refusal
    fill = node.inputs[1] if len(node.inputs) > 1 else None
    kernel = PadNd(
        x.type.dtype.bytes,
        _PAD_MODES[op.mode],
        y.type.dims,
        x.type.dims,
        op.pads[: len(x.type.dims)],
        row_major_strides(y.type.dims),
        row_major_strides(x.type.dims),
    )
    operands = PAD.ordered(src=x, fill=fill, dst=y)
    return launch_of(kernel, PadNd.SYMBOL, operands, PAD.positions("dst"), context.isa)


@candidate(Gather)
def gather(node: Node[Gather], context: Context) -> Run | str:
    """Slices along one axis, selected by indices that the kernel checks."""
    x, indices, y, op = node.operand(0), node.operand(1), node.output, node.op
    shape = x.type.dims
    axis = op.axis % len(shape)
    inner, count = product(shape[axis + 1 :]), indices.type.elements
    kernel = GatherKernel(
        x.type.dtype.bytes,
        indices.type.dtype.bytes,
        outer=product(shape[:axis]),
        axis_size=shape[axis],
        count=count,
        inner=inner,
        dst_outer_stride=count * inner,
        dst_stride=inner,
        src_outer_stride=shape[axis] * inner,
        src_stride=inner,
    )
    operands = GATHER.ordered(src=x, indices=indices, dst=y)
    return Run(
        (
            *(() if op.from_end else check(indices, (shape[axis],), y, context, from_end=False)),
            launch_of(kernel, GatherKernel.SYMBOL, operands, GATHER.positions("dst"), context.isa),
        )
    )


@candidate(Tile)
def tile(node: Node[Tile], context: Context) -> Run | str:
    """One copy. If the kernel does not support that many axes, a first copy repeats one half of the axes, and
    a second copy repeats the others.
    """
    x, y, repeats = node.operand(0), node.output, node.op.repeats
    if repeats is None:
        return "its repeats are computed at run time"
    whole = _tiled(x.type, repeats)
    if len(whole.axes) <= MAX_RANK:
        return _run(context, (whole, y, x))
    half = len(repeats) // 2
    dims = (*x.type.dims[:half], *y.type.dims[half:])
    between = context.temporary(TensorType(x.type.dtype, dims), "tiled")
    inner, outer = (1,) * half + repeats[half:], repeats[:half] + (1,) * (len(repeats) - half)
    copies = ((_tiled(x.type, inner), between, x), (_tiled(between.type, outer), y, between))
    return _run(context, *copies)


def _tiled(x: TensorType, repeats: Sequence[Dim]) -> CopyNd:
    """Splits each repeated axis into two: repetitions, with source stride 0, and the axis itself."""
    shape: list[Dim] = []
    strides: list[Dim] = []
    for size, stride, repeat in zip(x.dims, row_major_strides(x.dims), repeats, strict=True):
        shape += [size] if repeat == 1 else [repeat, size]
        strides += [stride] if repeat == 1 else [0, stride]
    return CopyNd(x.dtype.bytes, tuple(shape), row_major_strides(tuple(shape)), tuple(strides))

"""Gathers and scatters by indices, which are checked once; the generated kernels then trust them."""

from __future__ import annotations

import numpy as np

from graphwright.ir.graph import Node, Value
from graphwright.ir.loops.nodes import (
    Accumulate,
    Buffer,
    Index,
    Kind,
    Let,
    Load,
    Loop,
    Ref,
    Scalar,
    Statement,
    Store,
    cast,
)
from graphwright.ir.symbols import Dim, ceildiv, minimum, numbers, product, symbol
from graphwright.ir.types import I64, DType
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Alias, Copy, Launch, Run, launch_of
from graphwright.kernels.loops.kernel_builder import KernelBuilder, from_end, moved_dtype, nest
from graphwright.kernels.movement.indices import CheckIndices
from graphwright.kernels.movement.rows import MAX_RANK
from graphwright.ops.core.gather_elements import GatherElements
from graphwright.ops.core.gather_nd import GatherND
from graphwright.ops.core.scatter_elements import ScatterElements
from graphwright.ops.core.scatter_nd import ScatterND

_COLUMNS = 128
"""Columns of the slices per unit of work of a scatter: enough that reading an index pays off."""


def check_lengths(lengths: Value, most: Dim, guarded: Value, context: Context) -> Launch:
    """The launch that checks that ``lengths`` are in ``[0, most]``, before ``guarded`` is written."""
    kernel = CheckIndices(lengths.type.dtype.bytes, product(lengths.type.dims), (most,), lengths=True)
    return launch_of(kernel, CheckIndices.SYMBOL, (lengths, guarded), (1,), context.isa)


def check(
    indices: Value, sizes: tuple[Dim, ...], guarded: Value, context: Context, from_end: bool = True
) -> tuple[Launch, ...]:
    """The launch that checks rows of ``indices`` against ``sizes``, before ``guarded`` is written; without
    ``from_end``, negative indices are errors. Empty for constants that are in range for all sizes.
    """
    known = context.constant(indices)
    if known is not None and all(isinstance(s, int) for s in sizes):
        ends = np.array(sizes, dtype=np.int64)
        rows = known.reshape(-1, len(sizes))
        if np.all((rows >= -ends * from_end) & (rows < ends)):
            return ()
    bounds = sizes if from_end else tuple(size - 1 for size in sizes)
    count = product(indices.type.dims) // len(sizes)
    kernel = CheckIndices(indices.type.dtype.bytes, count, bounds, lengths=not from_end)
    return (launch_of(kernel, CheckIndices.SYMBOL, (indices, guarded), (1,), context.isa),)


@candidate(GatherND)
def gather_nd_view(node: Node[GatherND], context: Context) -> Alias | str:
    """An alias, if constant indices select contiguous elements."""
    x, indices, op = node.operand(0), context.constant(node.operand(1)), node.op
    shape = x.type.dims
    if indices is None or op.batch_dims or not all(isinstance(d, int) for d in shape):
        return "its indices are not constants"
    depth = indices.shape[-1]
    sizes = numbers(shape[:depth])
    rows = indices.reshape(-1, depth)
    if not rows.size or np.any((rows < -np.array(sizes)) | (rows >= np.array(sizes))):
        return "its indices are out of range"
    flat = np.ravel_multi_index(tuple((rows % np.array(sizes)).T), sizes)
    if np.any(np.diff(flat) != 1):
        return "its indices do not select contiguous elements"
    return Alias(x, int(flat[0]) * product(shape[depth:]) * x.type.dtype.bytes)


@candidate(GatherND)
def gather_nd(node: Node[GatherND], context: Context) -> Run | str:
    """Gathers the slices that index tuples select."""
    x, indices, y, op = node.operand(0), node.operand(1), node.output, node.op
    shape, index_dims = x.type.dims, indices.type.dims
    batch, depth = op.batch_dims, index_dims[-1]
    dtype = moved_dtype(x.type.dtype)
    if dtype is None or not isinstance(depth, int) or depth > MAX_RANK:
        return f"no kernel that gathers {x.type.dtype} by rows of {depth} indices"
    batches, rows = product(index_dims[:batch]), product(index_dims[batch:-1])
    sizes, inner = shape[batch : batch + depth], product(shape[batch + depth :])
    builder = KernelBuilder(node, context)
    source = builder.input(x, (batches, *sizes, inner), dtype)
    table = builder.input(indices, (batches, rows, depth))
    target = builder.output(y, (batches, rows, inner), dtype)
    b, r, c = symbol("b"), symbol("r"), 0 if inner == 1 else symbol("c")
    lets, found = _from_ends([Load(table, (b, r, k)) for k in range(depth)], [builder.size(s) for s in sizes])
    store = Store(target, (b, r, c), Load(source, (b, *found, c)))
    if inner == 1:
        body = nest((("b", builder.size(batches)), ("r", builder.size(rows))), *lets, store)
    else:
        columns = nest((("c", builder.size(inner)),), store)
        axes = (("b", builder.size(batches)), ("r", builder.size(rows)))
        body = nest(axes, *lets, columns, innermost=Kind.PARALLEL)
    launch = builder.launch(body)
    return Run((*check(indices, sizes, y, context), launch))


def _from_ends(indices: list[Load], sizes: list[Dim]) -> tuple[list[Statement], list[Scalar]]:
    """Binds each index to a name, with negative ones made non-negative."""
    lets: list[Statement] = [
        Let(f"i{k}", from_end(i, s)) for k, (i, s) in enumerate(zip(indices, sizes, strict=True))
    ]
    return lets, [Ref(f"i{k}", I64) for k in range(len(indices))]


@candidate(GatherElements)
def gather_elements(node: Node[GatherElements], context: Context) -> Run | str:
    """Gathers elements along one axis, each by the index at its own position."""
    x, indices, y, op = node.operand(0), node.operand(1), node.output, node.op
    dtype = moved_dtype(x.type.dtype)
    if dtype is None:
        return f"no kernel that moves {x.type.dtype}"
    builder = KernelBuilder(node, context)
    axis, names = op.axis % len(x.type.dims), _axis_names(len(x.type.dims))
    index = tuple(symbol(name) for name in names)
    source, table = builder.input(x, x.type.dims, dtype), builder.input(indices, indices.type.dims)
    (let,), (found,) = _from_ends([Load(table, index)], [builder.size(x.type.dims[axis])])
    store = Store(builder.output(y, y.type.dims, dtype), index, Load(source, _replaced(index, axis, found)))
    body = nest(tuple(zip(names, map(builder.size, y.type.dims), strict=True)), let, store)
    launch = builder.launch(body)
    return Run((*check(indices, (x.type.dims[axis],), y, context, op.from_end), launch))


@candidate(ScatterElements)
def scatter_elements(node: Node[ScatterElements], context: Context) -> Run | str:
    """Scatters updates along the axis in order; updates at different positions of the other axes are
    independent.
    """
    x, indices, updates, y = (*map(node.operand, range(3)), node.output)
    op = node.op
    dtype = _scattered_dtype(x.type.dtype, op.reduction, context)
    if dtype is None:
        return f"no kernel that scatters {x.type.dtype}"
    builder = KernelBuilder(node, context)
    axis, names = op.axis % len(x.type.dims), _axis_names(len(x.type.dims))
    index = tuple(symbol(name) for name in names)
    table = builder.input(indices, indices.type.dims)
    added, target = builder.input(updates, updates.type.dims, dtype), builder.output(y, x.type.dims, dtype)
    (let,), (found,) = _from_ends([Load(table, index)], [builder.size(x.type.dims[axis])])
    change = _changed(target, _replaced(index, axis, found), Load(added, index), op.reduction)
    extents = dict(zip(names, map(builder.size, indices.type.dims), strict=True))
    body: Statement = Loop(names[axis], Kind.SERIAL, extents.pop(names[axis]), (let, change))
    if extents:
        body = nest(tuple(extents.items()), body, innermost=Kind.PARALLEL)
    launch = builder.launch(body)
    return Run((*check(indices, (x.type.dims[axis],), y, context, op.from_end), Copy(x, y), launch))


@candidate(ScatterND)
def scatter_nd(node: Node[ScatterND], context: Context) -> Run | str:
    """Scatters slices in the order of the indices, as several may select one position; columns of slices are
    independent.
    """
    x, indices, updates, y = (*map(node.operand, range(3)), node.output)
    op = node.op
    dtype, depth = _scattered_dtype(x.type.dtype, op.reduction, context), indices.type.dims[-1]
    if dtype is None or not isinstance(depth, int) or depth > MAX_RANK:
        return f"no kernel that scatters {x.type.dtype} by rows of {depth} indices"
    sizes, inner = x.type.dims[:depth], product(x.type.dims[depth:])
    rows = product(indices.type.dims[:-1])
    builder = KernelBuilder(node, context)
    table = builder.input(indices, (rows, depth))
    added, target = builder.input(updates, (rows, inner), dtype), builder.output(y, (*sizes, inner), dtype)
    r, first = symbol("r"), symbol("b") * _COLUMNS
    c = 0 if inner == 1 else first + symbol("c")
    lets, found = _from_ends([Load(table, (r, k)) for k in range(depth)], [builder.size(s) for s in sizes])
    change = _changed(target, (*found, c), Load(added, (r, c)), op.reduction)
    if inner == 1:
        body = Loop("r", Kind.SERIAL, builder.size(rows), (*lets, change))
    else:
        width = builder.size(inner)
        columns = Loop("c", Kind.VECTOR, minimum(_COLUMNS, width - first), (change,))
        slices = Loop("r", Kind.SERIAL, builder.size(rows), (*lets, columns))
        body = nest((("b", ceildiv(width, _COLUMNS)),), slices, innermost=Kind.PARALLEL)
    launch = builder.launch(body)
    return Run((*check(indices, sizes, y, context), Copy(x, y), launch))


def _scattered_dtype(dtype: DType, reduction: str, context: Context) -> DType | None:
    """The dtype with which ``dtype`` is scattered: an integer of the same width if elements are only moved.
    None if it is not supported.
    """
    if reduction == "none":
        return moved_dtype(dtype)
    return dtype if context.target.has_code(dtype) else None


def _changed(target: Buffer, index: tuple[Index, ...], value: Scalar, reduction: str) -> Statement:
    if reduction == "none":
        return Store(target, index, value)
    return Accumulate(target, index, reduction, cast(value, target.dtype))


def _axis_names(rank: int) -> list[str]:
    return [f"a{k}" for k in range(rank)]


def _replaced(index: tuple[Dim, ...], axis: int, found: Scalar) -> tuple[Index, ...]:
    """The position ``index`` with ``found`` along ``axis``."""
    return (*index[:axis], found, *index[axis + 1 :])

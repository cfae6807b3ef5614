"""Resize: the last two axes by a library kernel, any axes by tables of taps."""

from __future__ import annotations

from math import prod

import numpy as np

from graphwright.ir.graph import Node, Value
from graphwright.ir.loops.nodes import (
    Accumulate,
    Alloc,
    Buffer,
    Const,
    Kind,
    Level,
    Load,
    Loop,
    Position,
    Scalar,
    Statement,
    Store,
    apply,
    cast,
    select,
)
from graphwright.ir.symbols import product, symbol
from graphwright.ir.types import F32, TensorType
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Alias, Launch, Run, launch_of
from graphwright.kernels.loops.kernel_builder import KernelBuilder, nest, rows_and_columns
from graphwright.kernels.resize.resize import Coordinates, Rounding
from graphwright.kernels.resize.resize import Resize as ResizeKernel
from graphwright.ops.core.size_inference import number
from graphwright.ops.nn.interpolate import Interpolate
from graphwright.ops.nn.resize import Resize
from graphwright.ops.nn.resize_taps import Taps, sum_dtype

_SYMBOLS = {"nearest": ResizeKernel.NEAREST, "linear": ResizeKernel.LINEAR, "cubic": ResizeKernel.CUBIC}
LONGEST = 1 << 24
"""The longest axis for which a table of taps is made."""


@candidate(Resize)
def resize(node: Node[Resize], context: Context) -> Launch | str:
    """Resizes the last two axes in f32."""
    x, y = node.operand(0), node.output
    refusal = _planes_refusal(node)
    if refusal is not None:
        return refusal
    if x.type.dims[:-2] != y.type.dims[:-2]:
        return "resize kernels resize only the last two axes"
    return _planes(node, x, y, context)


def _planes_refusal(node: Node[Resize]) -> str | None:
    """The reason why the library cannot resize the last two axes."""
    op, x = node.op, node.operand(0)
    if x.type.dtype != F32 or len(x.type.dims) < 2 or len(node.inputs) > 1:
        return f"no resize kernel for {x.type}, or for a region or sizes that are known only at run time"
    if op.crops or op.antialias:
        return "no resize kernel that crops or filters against aliasing"
    if op.coordinates.upper() not in Coordinates.__members__:
        return f"no resize kernel for {op.coordinates}"
    return None


def _planes(node: Node[Resize], x: Value, y: Value, context: Context) -> Launch:
    """Resizes the last two axes of ``x`` to ``y`` as ``node`` says; their other axes are equal."""
    op, shape, out = node.op, x.type.dims, y.type.dims
    scales = op.scales or (0.0,) * len(shape)
    kernel = ResizeKernel(
        _SYMBOLS[op.mode],
        product(shape[:-2]),
        height=shape[-2],
        width=shape[-1],
        out_height=out[-2],
        out_width=out[-1],
        x_strides=(shape[-2] * shape[-1], shape[-1]),
        y_strides=(out[-2] * out[-1], out[-1]),
        scale_h=scales[-2],
        scale_w=scales[-1],
        coordinates=Coordinates[op.coordinates.upper()],
        rounding=Rounding[op.rounding.upper()],
        cubic_a=op.cubic_a,
        exclude_outside=op.exclude_outside,
    )
    return launch_of(kernel, kernel.symbol, (x, y), (1,), context.isa)


@candidate(Resize)
def resize_by_taps(node: Node[Resize], context: Context) -> Run | Alias | str:
    """Resizes one axis after the other, each element as a weighted sum over constant taps; the last two axes
    in one launch if the library supports it.
    """
    op, x, y = node.op, node.operand(0), node.output
    if not x.type.is_static or not y.type.is_static or not context.target.has_code(x.type.dtype):
        return f"no resize kernel from {x.type} to {y.type}"
    if len(node.inputs) > 1:
        return "its region or sizes are known only at run time"
    if 0 in y.type.dims:
        return Run(())
    sizes = list(zip(map(number, x.type.dims), map(number, y.type.dims), strict=True))
    if any(max(pair) > LONGEST for pair in sizes):
        return f"tables of taps are limited to axes of {LONGEST} elements"
    found = [(axis, op.taps(axis, *pair)) for axis, pair in enumerate(sizes)]
    passes = [(axis, taps) for axis, taps in found if taps is not None]
    if 0 in x.type.dims:
        return "its input is empty"
    if not passes:
        return Alias(x)
    dtype = sum_dtype(x.type.dtype) if op.mode != "nearest" else x.type.dtype
    order = _order([axis for axis, _ in passes], sizes, _planes_refusal(node) is None)
    launches, source = [], x
    for done, axes in enumerate(order, start=1):
        shape = tuple(y.type.dims[a] if a in axes else d for a, d in enumerate(source.type.dims))
        type = TensorType(F32 if len(axes) > 1 else dtype, shape)
        target = y if done == len(order) else context.temporary(type, "resized")
        if len(axes) > 1:
            launches.append(_planes(node, source, target, context))
        else:
            launches.append(_along(axes[0], dict(passes)[axes[0]], source, target, node, context))
        source = target
    return Run(tuple(launches))


def _order(axes: list[int], sizes: list[tuple[int, int]], planes: bool) -> list[tuple[int, ...]]:
    """The resized axes in order. The last two form one step if the library resizes ``planes``: after axes
    that shrink, as there are fewer planes then.
    """
    last = (len(sizes) - 2, len(sizes) - 1)
    if not planes or tuple(axes[-2:]) != last:
        return [(axis,) for axis in axes]
    others = [(axis,) for axis in axes[:-2]]
    shrinks = prod(sizes[axis][1] for (axis,) in others) < prod(sizes[axis][0] for (axis,) in others)
    return [*others, last] if shrinks else [last, *others]


@candidate(Interpolate)
def interpolate(node: Node[Interpolate], context: Context) -> Launch | str:
    """Each element is a weighted sum over taps whose positions and weights are run-time values."""
    x, positions, weights, y = (*map(node.operand, range(3)), node.output)
    op, dtype, (count, taps) = node.op, weights.type.dtype, weights.type.dims
    if not context.target.has_code(x.type.dtype) or not context.target.has_code(dtype):
        return f"no kernel that interpolates {x.type.dtype}"
    builder = KernelBuilder(node, context)
    outer, size, inner = rows_and_columns(x.type.dims, op.axis % len(x.type.dims))
    o, r, k, i = symbol("o"), symbol("r"), symbol("k"), 0 if inner == 1 else symbol("i")
    source, target = builder.input(x, (outer, size, inner)), builder.output(y, (outer, count, inner))
    position = Load(builder.input(positions, (count, taps)), (r, k))
    factor = Load(builder.input(weights, (count, taps)), (r, k))
    total = Buffer("total", dtype.computed, (), Level.REGISTER)
    inside = apply("and", position >= 0, position < Position(builder.size(size)))
    term = cast(Load(source, (o, position, i), inside), total.dtype) * cast(factor, total.dtype)
    added = select(inside, term, Const(0, total.dtype))
    body: list[Statement] = [
        Alloc(total, 0),
        Loop("k", Kind.SERIAL, builder.size(taps), (Accumulate(total, (), "add", added),)),
        Store(target, (o, r, i), cast(Load(total, ()), dtype)),
    ]
    axes = [("o", builder.size(outer)), ("r", builder.size(count)), ("i", builder.size(inner))]
    # Reading single elements is faster than extracting positions from lanes.
    loops = nest(axes[:2], *body, innermost=Kind.PARALLEL) if inner == 1 else nest(axes, *body)
    return builder.launch(loops)


def _along(
    axis: int, taps: Taps, source: Value, target: Value, node: Node[Resize], context: Context
) -> Launch:
    """Interpolates one axis, in the wider of both dtypes; elements outside a crop are extrapolated."""
    op = node.op
    builder = KernelBuilder(node, context)
    outer, size, inner = rows_and_columns(source.type.dims, axis)
    count = len(taps.positions)
    o, r, k, i = symbol("o"), symbol("r"), symbol("k"), 0 if inner == 1 else symbol("i")
    x, y = builder.input(source, (outer, size, inner)), builder.output(target, (outer, count, inner))
    body: list[Statement] = []
    if op.mode == "nearest":
        positions = builder.input(context.table(taps.positions[:, 0].copy(), "places"), (count,))
        result: Scalar = Load(x, (o, Load(positions, (r,)), i))
    else:
        used = np.flatnonzero(taps.weights.any(0))
        dtype = sum_dtype(source.type.dtype)
        # Tap by tap: if the last axis is vectorized, positions and weights are contiguous.
        positions_of = np.ascontiguousarray(taps.positions[:, used].T.astype(np.int32))
        weights_of = np.ascontiguousarray(taps.weights[:, used].T.astype(dtype.numpy))
        positions = builder.input(context.table(positions_of, "places"), (len(used), count))
        weights = builder.input(context.table(weights_of, "weights"), (len(used), count))
        total = Buffer("total", dtype, (), Level.REGISTER)
        term = cast(Load(x, (o, Load(positions, (k, r)), i)), dtype) * Load(weights, (k, r))
        body = [Alloc(total, 0), Loop("k", Kind.SERIAL, len(used), (Accumulate(total, (), "add", term),))]
        result = Load(total, ())
    if taps.outside.any():
        outside = Load(builder.input(context.table(taps.outside, "outside"), (count,)), (r,))
        result = select(outside, Const(op.extrapolation, result.dtype), result)
    bounds = op.method.range_of(target.type.dtype.numpy)
    if bounds is not None:
        result = apply("clamp", apply("round", result), *bounds)
    body.append(Store(y, (o, r, i), cast(result, target.type.dtype)))
    axes = [("o", builder.size(outer)), ("r", count), ("i", builder.size(inner))]
    loops = nest(axes[:2] if inner == 1 else axes, *body)
    return builder.launch(loops)

"""Interpolation of images at fractional coordinates, for GridSample, RoiAlign and DeformConv.

Images are rows[B, S, C]: B images of S pixels with C channels. A sample is the weighted sum of a few pixels
(taps) along every spatial axis. Each function exists twice: on arrays, for references, and as nodes, for
decompositions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as cartesian
from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array
from graphwright.ir.symbols import Dim
from graphwright.ir.types import I64, DType
from graphwright.ops.core.binary import Add, And, GreaterOrEqual, LessOrEqual, Max, Min, Mul, Sub
from graphwright.ops.core.cast import Cast, as_dtype
from graphwright.ops.core.clip import Clip
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.interpolation_constants import CUBIC_A, MAX_COORDINATE
from graphwright.ops.core.mod import Mod
from graphwright.ops.core.range import Range
from graphwright.ops.core.reductions import ReduceSum
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.unary import Abs, Floor, Round
from graphwright.ops.core.where import Where

OFFSETS = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}
"""By mode: the offsets of the taps from the nearest pixel, or from the pixel at the rounded-down
coordinate.
"""
PADDINGS = ("zeros", "border", "reflection")


def taps(
    x: Array, size: int, mode: str, padding: str = "zeros", aligned: bool = False
) -> tuple[Array, Array]:
    """The positions of the taps of samples at coordinates ``x`` of one axis, and their weights, on a new last
    axis.

    The padding reflection mirrors at the centers of the outer pixels if ``aligned``, else at their outer
    edges.
    """
    x = np.clip(x, -MAX_COORDINATE, MAX_COORDINATE)
    first = np.rint(x) if mode == "nearest" else np.floor(x)
    offsets = np.array(OFFSETS[mode])
    positions = first[..., None].astype(np.int64) + offsets
    weights = np.ones(positions.shape, x.dtype)
    if mode != "nearest":
        distance = np.abs((x - first)[..., None] - offsets.astype(x.dtype))
        weights = 1 - distance if mode == "linear" else _cubic(distance)
    if padding == "zeros":
        weights = np.where((positions >= 0) & (positions < size), weights, x.dtype.type(0))
    elif padding == "reflection":
        period, mirror = _mirrors(size, aligned)
        positions = positions % max(period, 1)
        positions = np.minimum(positions, mirror - positions)
    return np.clip(positions, 0, size - 1), weights


def _mirrors(size: Any, aligned: bool) -> tuple[Any, Any]:
    """The period of reflections, and the sum of the positions of a pixel and its mirror image."""
    return (2 * size - 2, 2 * size - 2) if aligned else (2 * size, 2 * size - 1)


def _cubic(d: Array) -> Array:
    """The cubic convolution kernel for distances below 2 (Keys 1981, equation 4)."""
    a = d.dtype.type(CUBIC_A)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.asarray(np.where(d <= 1, near, far))


def blend(rows: Array, samples: Sequence[tuple[Array, Array]], sizes: Sequence[int]) -> Array:
    """The samples [B, Q, C] of rows[B, S, C]. ``samples`` are the :func:`taps` [B, Q, K] along each axis; the
    axes have ``sizes``.

    A tap of weight 0 contributes 0, even if its pixel is infinite. If every axis has a single tap, pixels are
    copied, and may be of any dtype.
    """
    copies = all(positions.shape[-1] == 1 for positions, _ in samples)
    batch = np.arange(len(rows))[:, None]
    zero = np.array("" if rows.dtype.kind == "O" else 0, rows.dtype)
    total = np.full((*samples[0][0].shape[:2], rows.shape[-1]), zero, rows.dtype)
    for choice in cartesian(*(range(positions.shape[-1]) for positions, _ in samples)):
        index, weight = np.zeros(total.shape[:2], np.int64), np.ones(total.shape[:2], samples[0][1].dtype)
        for (positions, weights), k, size in zip(samples, choice, sizes, strict=True):
            index, weight = index * size + positions[..., k], weight * weights[..., k]
        pixels, factors = rows[batch, index], weight[..., None]
        if copies:
            total = np.where(factors == 0, zero, pixels)
        else:
            total = total + np.where(factors == 0, zero, pixels * factors.astype(rows.dtype))
    return total


def size_value(b: Builder, dim: Dim, dtype: DType = I64) -> Value:
    """A size, which may be symbolic, as a vector of one element."""
    if isinstance(dim, int):
        return b.const([dim], dtype)
    vector: Value = b(Range((dim, dim + 1, 1)))
    return as_dtype(b, vector, dtype)


def build_taps(
    b: Builder, x: Value, size: Dim, mode: str, padding: str = "zeros", aligned: bool = False
) -> tuple[Value, Value]:
    """:func:`taps` as nodes. The last axis of ``x``, of size 1, becomes the axis of the taps."""
    dtype = x.type.dtype
    x = b(Clip(-MAX_COORDINATE, MAX_COORDINATE), x)
    first = b(Round() if mode == "nearest" else Floor(), x)
    offsets = OFFSETS[mode]
    positions = b(Add(), b(Cast(I64), first), b.const(offsets, I64))
    weights = b(Expand(positions.type.dims), b.const([1], dtype))
    if mode != "nearest":
        distance = b(Abs(), b(Sub(), b(Sub(), x, first), b.const(offsets, dtype)))
        one = b.const([1], dtype)
        weights = b(Sub(), one, distance) if mode == "linear" else _build_cubic(b, distance)
    zero, last = b.const([0], I64), size_value(b, size - 1)
    if padding == "zeros":
        inside = b(And(), b(GreaterOrEqual(), positions, zero), b(LessOrEqual(), positions, last))
        weights = b(Where(), inside, weights, b.const([0], dtype))
    elif padding == "reflection":
        period, mirror = _mirrors(size, aligned)
        positions = b(Mod(), positions, b(Max(), size_value(b, period), b.const([1], I64)))
        positions = b(Min(), positions, b(Sub(), size_value(b, mirror), positions))
    return b(Min(), b(Max(), positions, zero), last), weights


def _build_cubic(b: Builder, d: Value) -> Value:
    def horner(*factors: float) -> Value:
        total = b.const([factors[0]], d.type.dtype)
        for factor in factors[1:]:
            total = b(Add(), b(Mul(), total, d), b.const([factor], d.type.dtype))
        return total

    a = CUBIC_A
    near, far = horner(a + 2, -(a + 3), 0, 1), horner(a, -5 * a, 8 * a, -4 * a)
    weight: Value = b(Where(), b(LessOrEqual(), d, b.const([1], d.type.dtype)), near, far)
    return weight


def build_blend(
    b: Builder, rows: Value, samples: Sequence[tuple[Value, Value]], sizes: Sequence[Dim]
) -> Value:
    """:func:`blend` as nodes. 16-bit floats are summed in f32, and the sums stay f32."""
    batches, pixel_count, channels = rows.type.dims
    index, weight = samples[0]
    for (positions, weights), size in zip(samples[1:], sizes[1:], strict=True):
        count = index.type.dims[2] * positions.type.dims[2]
        scaled = b(Mul(), index, size_value(b, size))
        queries = index.type.dims[1]
        index = _outer(b, Add(), scaled, positions, (batches, queries, count))
        weight = _outer(b, Mul(), weight, weights, (batches, queries, count))
    if batches != 1:
        starts = b(Mul(), b(Range((0, batches, 1))), size_value(b, pixel_count))
        index = b(Add(), index, reshaped(b, starts, (batches, 1, 1)))
    pixels = b(Gather(0), reshaped(b, rows, (batches * pixel_count, channels)), index)
    weight = reshaped(b, weight, (*weight.type.dims, 1))
    is_zero = b(Equal(), weight, b.const([0], weight.type.dtype))
    if index.type.dims[2] == 1:
        copied = b(Where(), is_zero, b.const([0], pixels.type.dtype), pixels)
        return reshaped(b, copied, (batches, index.type.dims[1], channels))
    dtype = pixels.type.dtype.computed
    products = b(Mul(), as_dtype(b, pixels, dtype), as_dtype(b, weight, dtype))
    total: Value = b(ReduceSum((2,), keepdims=False), b(Where(), is_zero, b.const([0], dtype), products))
    return total


def _outer(b: Builder, op: Any, left: Value, right: Value, dims: tuple[Dim, ...]) -> Value:
    """``op`` of every pair of taps of ``left`` and ``right``, in row-major order."""
    left = reshaped(b, left, (*left.type.dims, 1))
    right = reshaped(b, right, (*right.type.dims[:2], 1, right.type.dims[2]))
    return reshaped(b, b(op, left, right), dims)

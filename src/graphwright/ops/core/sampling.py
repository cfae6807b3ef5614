"""Reading images between their elements: shared by GridSample, RoiAlign and DeformConv.

An image is rows[B, S, C]: B images of S places, C values at each. A read takes a few taps along every axis
of the image and blends their products; each function is there twice, on arrays and as nodes of a graph.
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
from graphwright.ir.types import BF16, F16, F32, I64, DType
from graphwright.ops.core.binary import (
    Add,
    And,
    Equal,
    GreaterOrEqual,
    LessOrEqual,
    Max,
    Min,
    Mod,
    Mul,
    Sub,
    Where,
)
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.clip import Clip
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.range import Range
from graphwright.ops.core.reductions import ReduceSum
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.unary import Abs, Floor, Round

OFFSETS = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}
"""Where the taps lie, from the nearest element, or from the one in front of the coordinate."""
PADDINGS = ("zeros", "border", "reflection")
CUBIC_A = -0.75
FAR = 2.0**30
"""Coordinates beyond are taken for this one, which is an int and far outside any image."""


def taps(
    x: Array, size: int, mode: str, padding: str = "zeros", aligned: bool = False
) -> tuple[Array, Array]:
    """The elements that reads at coordinates ``x`` of an axis take, and their weights, on a new last axis.

    Reflection is about the outer elements' centres if ``aligned``, else about their outer edges.
    """
    x = np.clip(x, -FAR, FAR)
    first = np.rint(x) if mode == "nearest" else np.floor(x)
    offsets = np.array(OFFSETS[mode])
    places = first[..., None].astype(np.int64) + offsets
    weights = np.ones(places.shape, x.dtype)
    if mode != "nearest":
        distance = np.abs((x - first)[..., None] - offsets.astype(x.dtype))
        weights = 1 - distance if mode == "linear" else _cubic(distance)
    if padding == "zeros":
        weights = np.where((places >= 0) & (places < size), weights, x.dtype.type(0))
    elif padding == "reflection":
        period, last = _mirrors(size, aligned)
        places = places % max(period, 1)
        places = np.minimum(places, last - places)
    return np.clip(places, 0, size - 1), weights


def _mirrors(size: Any, aligned: bool) -> tuple[Any, Any]:
    """After how many elements reflections repeat, and the sum of an element's place and its image's."""
    return (2 * size - 2, 2 * size - 2) if aligned else (2 * size, 2 * size - 1)


def _cubic(d: Array) -> Array:
    """The cubic convolution kernel (R. Keys, 1981), equation 4, for distances below 2."""
    a = d.dtype.type(CUBIC_A)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.asarray(np.where(d <= 1, near, far))


def blend(rows: Array, reads: Sequence[tuple[Array, Array]], sizes: Sequence[int]) -> Array:
    """Reads[B, Q, C] of rows[B, S, C] from :func:`taps` [B, Q, K] along each axis of ``sizes``.

    A tap of weight 0 is left out, be its element infinite. Single taps move elements of any dtype.
    """
    moves = all(places.shape[-1] == 1 for places, _ in reads)
    batch = np.arange(len(rows))[:, None]
    zero = np.array("" if rows.dtype.kind == "O" else 0, rows.dtype)
    total = np.full((*reads[0][0].shape[:2], rows.shape[-1]), zero, rows.dtype)
    for choice in cartesian(*(range(places.shape[-1]) for places, _ in reads)):
        index, weight = np.zeros(total.shape[:2], np.int64), np.ones(total.shape[:2], reads[0][1].dtype)
        for (places, weights), k, size in zip(reads, choice, sizes, strict=True):
            index, weight = index * size + places[..., k], weight * weights[..., k]
        taken, shares = rows[batch, index], weight[..., None]
        if not moves:
            taken = taken * shares.astype(rows.dtype)
            total = total + np.where(shares == 0, zero, taken)
        else:
            total = np.where(shares == 0, zero, taken)
    return total


def wide(dtype: DType) -> DType:
    """The dtype to compute in."""
    return F32 if dtype in (F16, BF16) else dtype


def size_value(b: Builder, dim: Dim, dtype: DType = I64) -> Value:
    """A size as a tensor of one element, be it symbolic."""
    if isinstance(dim, int):
        return b.const([dim], dtype)
    made: Value = b(Range((dim, dim + 1, 1)))
    return as_dtype(b, made, dtype)


def as_dtype(b: Builder, x: Value, dtype: DType) -> Value:
    """``x`` as ``dtype``, without a node where it is that."""
    return x if x.type.dtype == dtype else b(Cast(dtype), x)


def reshaped(b: Builder, x: Value, *dims: Dim) -> Value:
    """``x`` under the shape ``dims``."""
    return x if x.type.dims == dims else b(Reshape(dims, True), x)


def build_taps(
    b: Builder, x: Value, size: Dim, mode: str, padding: str = "zeros", aligned: bool = False
) -> tuple[Value, Value]:
    """:func:`taps` in nodes; the last axis of ``x``, of size 1, becomes that of the taps."""
    real = x.type.dtype
    x = b(Clip(-FAR, FAR), x)
    first = b(Round() if mode == "nearest" else Floor(), x)
    offsets = OFFSETS[mode]
    places = b(Add(), b(Cast(I64), first), b.const(offsets, I64))
    weights = b(Expand(places.type.dims), b.const([1], real))
    if mode != "nearest":
        distance = b(Abs(), b(Sub(), b(Sub(), x, first), b.const(offsets, real)))
        one = b.const([1], real)
        weights = b(Sub(), one, distance) if mode == "linear" else _build_cubic(b, distance)
    zero, last = b.const([0], I64), size_value(b, size - 1)
    if padding == "zeros":
        inside = b(And(), b(GreaterOrEqual(), places, zero), b(LessOrEqual(), places, last))
        weights = b(Where(), inside, weights, b.const([0], real))
    elif padding == "reflection":
        period, mirror = _mirrors(size, aligned)
        places = b(Mod(), places, b(Max(), size_value(b, period), b.const([1], I64)))
        places = b(Min(), places, b(Sub(), size_value(b, mirror), places))
    return b(Min(), b(Max(), places, zero), last), weights


def _build_cubic(b: Builder, d: Value) -> Value:
    def horner(*factors: float) -> Value:
        total = b.const([factors[0]], d.type.dtype)
        for factor in factors[1:]:
            total = b(Add(), b(Mul(), total, d), b.const([factor], d.type.dtype))
        return total

    a = CUBIC_A
    near, far = horner(a + 2, -(a + 3), 0, 1), horner(a, -5 * a, 8 * a, -4 * a)
    made: Value = b(Where(), b(LessOrEqual(), d, b.const([1], d.type.dtype)), near, far)
    return made


def build_blend(b: Builder, rows: Value, reads: Sequence[tuple[Value, Value]], sizes: Sequence[Dim]) -> Value:
    """:func:`blend` in nodes, as ``rows`` have it in f32 or wider; halves are widened."""
    batches, places, channels = rows.type.dims
    index, weight = reads[0]
    for (more, factors), size in zip(reads[1:], sizes[1:], strict=True):
        count = index.type.dims[2] * more.type.dims[2]
        scaled = b(Mul(), index, size_value(b, size))
        queries = index.type.dims[1]
        index = _outer(b, Add(), scaled, more, (batches, queries, count))
        weight = _outer(b, Mul(), weight, factors, (batches, queries, count))
    if batches != 1:
        starts = b(Mul(), b(Range((0, batches, 1))), size_value(b, places))
        index = b(Add(), index, reshaped(b, starts, batches, 1, 1))
    taken = b(Gather(0), reshaped(b, rows, batches * places, channels), index)
    moves = index.type.dims[2] == 1
    if not moves:
        taken = as_dtype(b, taken, wide(taken.type.dtype))
    weight = reshaped(b, weight, *weight.type.dims, 1)
    none = b(Equal(), weight, b.const([0], weight.type.dtype))
    if not moves:
        weight = as_dtype(b, weight, taken.type.dtype)
    shares = taken if moves else b(Mul(), taken, weight)
    kept = b(Where(), none, b.const([0], shares.type.dtype), shares)
    if moves:
        return reshaped(b, kept, batches, index.type.dims[1], channels)
    summed: Value = b(ReduceSum((2,), False), kept)
    return summed


def _outer(b: Builder, op: Any, left: Value, right: Value, dims: tuple[Dim, ...]) -> Value:
    """``op`` of every pair of taps, those of ``right`` inmost."""
    left = reshaped(b, left, *left.type.dims, 1)
    right = reshaped(b, right, *right.type.dims[:2], 1, right.type.dims[2])
    return reshaped(b, b(op, left, right), *dims)

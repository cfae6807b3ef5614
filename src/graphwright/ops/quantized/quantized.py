"""Helpers of quantized ops: shapes of scales and zero points, quantization, and exact sums of 8-bit
integers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Inference
from graphwright.ir.symbols import Dim, ceildiv
from graphwright.ir.types import BF16, DTYPES, F16, F32, I8, I16, I32, U8, U16, DType
from graphwright.ops.core.binary import Add, Mul, Sub
from graphwright.ops.core.cast import Cast, as_dtype, in_f32
from graphwright.ops.core.checks import need_dtype, rank_of
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.references import widened
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.round_to_range import RoundToRange, round_to_range
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.unary import Round

SCALES = frozenset({F16, BF16, F32})
POWERS = DTYPES["f8e8m0"]
"""The dtype of scales that are powers of two."""
BYTES = frozenset({I8, U8})
FLOAT8 = frozenset(DTYPES[name] for name in ("f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz"))
QUANTIZED = (
    BYTES
    | FLOAT8
    | {I16, U16}
    | {DTYPES[name] for name in ("i4", "u4", "i2", "u2", "f4e2m1", "f6e2m3", "f6e3m2")}
)  # fmt: skip


def limits(dtype: DType) -> tuple[int, int]:
    """The smallest and the largest value of an integer dtype."""
    if dtype.kind == "uint":
        return 0, (1 << dtype.bits) - 1
    return -(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1


def quantized(ratio: Array, zero: Array | None, to: DType, saturate: bool = True) -> Array:
    """``ratio + zero`` in the dtype ``to``. For integers, the ratio is rounded (ties to even) before ``zero``
    is added, and the sum is clipped.

    16-bit floats are computed in f32, which represents every zero point.
    """
    wide = widened(ratio)
    shift = None if zero is None else zero.astype(wide.dtype)
    if to.is_integer:
        return round_to_range(wide, shift, *limits(to)).astype(to.numpy)
    return np.asarray(Cast(to, saturate).reference(np.asarray(wide if shift is None else wide + shift)))


def into_quantized(b: Builder, ratio: Value, zero: Value | None, to: DType, saturate: bool = True) -> Value:
    """:func:`quantized` as nodes."""
    wide = in_f32(b, ratio)
    omitted = zero is None or (to.kind == "uint" and is_zero(b, zero))  # for floats, -0 + 0 is 0
    shift = [] if zero is None or omitted else [as_dtype(b, zero, wide.type.dtype)]
    if to.is_integer:
        shifted = b(RoundToRange(*map(float, limits(to))), wide, *shift)
    else:
        shifted = b(Add(), wide, *shift) if shift else wide
    result: Value = b(Cast(to, saturate), shifted)
    return result


def is_zero(b: Builder, zero: Value) -> bool:
    """Whether a zero point is the constant 0."""
    known = b.fact(zero)
    return known is not None and known.data is not None and not known.data.astype(np.float32).any()


def is_single(shape: tuple[Dim, ...]) -> bool:
    """Whether a scale or zero point of this shape has one element for the whole tensor."""
    return shape in ((), (1,))


def _check_shape(at: Inference, x: Fact, scale: Fact, what: str, axis: int, block: int) -> None:
    """Raises InferError unless ``scale`` is a scalar, has one element for each position of ``axis``, or one
    for each block.
    """
    if is_single(scale.shape):
        return
    if scale.rank == 1 and not isinstance(scale.shape[0], int) and not -x.rank <= axis < x.rank:
        at.equal(scale.shape[0], 1, f"elements of {what} for {x.type}, which has no axis {axis}")
        return
    if not x.rank:
        raise at.fail(f"{what} is {scale.type}; for a scalar it must have one element")
    axis = at.axis(axis, x.rank)
    if not block:
        if scale.rank != 1:
            raise at.fail(f"{what} is {scale.type}; without block_size it must be a scalar or a vector")
        at.require_broadcast(scale.shape[0], x.shape[axis], f"{what} along axis {axis}")
        return
    if scale.rank != x.rank:
        raise at.fail(f"{what} is {scale.type}; with block_size it must have the rank of {x.type}")
    for k, (have, dim) in enumerate(zip(scale.shape, x.shape, strict=True)):
        where = f"{what} along axis {k}, for blocks of {block} along axis {axis} of {x.type}"
        at.equal(have, ceildiv(dim, block) if k == axis else dim, where)


def check_quantization(
    at: Inference, x: Fact, scale: Fact, zero: Fact | None, zero_dtype: DType, axis: int, block: int
) -> None:
    """Raises InferError if the shape of the scale or zero point does not fit ``x``, or if the dtype of the
    zero point is not ``zero_dtype``.
    """
    _check_shape(at, x, scale, "the scale", axis, block)
    if zero is not None:
        need_dtype(at, zero, {zero_dtype}, "the zero point")
        _check_shape(at, x, zero, "the zero point", axis, block)


def broadcastable(scale: Array, shape: tuple[int, ...], axis: int, block: int) -> Array:
    """A valid scale or zero point (:func:`check_quantization`), reshaped or repeated to broadcast to
    ``shape``.
    """
    if is_single(scale.shape):
        return scale.reshape(())
    axis %= len(shape)
    if not block:
        return scale.reshape([-1 if k == axis else 1 for k in range(len(shape))])
    repeated = np.repeat(scale, block, axis)
    return repeated[tuple(slice(size) for size in shape)]


def broadcastable_value(b: Builder, scale: Value, dims: tuple[Dim, ...], axis: int, block: int) -> Value:
    """:func:`broadcastable` as nodes."""
    rank_of(scale)
    own = scale.type.dims
    if is_single(own) or not -len(dims) <= axis < len(dims):
        return reshaped(b, scale, ())
    axis %= len(dims)
    if not block:
        return reshaped(b, scale, tuple(own[0] if k == axis else 1 for k in range(len(dims))))
    before, after = own[: axis + 1], own[axis + 1 :]
    copies: Value = b(Expand((*before, block, *after)), reshaped(b, scale, (*before, 1, *after)))
    repeated = reshaped(b, copies, (*own[:axis], own[axis] * block, *after))
    if repeated.type.dims[axis] == dims[axis]:
        return repeated
    cropped: Value = b(Slice((0,), (dims[axis],), (axis,), (1,)), repeated)
    return cropped


def ratio_of(*scales: Array) -> Array:
    """``a * b / y`` of three scales, computed in f32 if they are 16-bit floats, whose products may
    underflow.
    """
    a, b, y = map(widened, scales)
    return np.asarray(a * b / y)


_STEP = 16
"""An 8-bit integer minus its zero point is ``_STEP * high + low``, where high and low are at most 16 in
magnitude.
"""


def sums_are_exact(bound: float, limit: int) -> bool:
    """Whether :func:`exact_sums` is exact."""
    return _STEP * bound <= limit


def exact_sums(b: Builder, x: Value, bound: float, limit: int, sums_of: Callable[[Value], Value]) -> Value:
    """``sums_of(x)`` as i32, computed exactly in f32. If the sums may be too large, ``x`` is divided into its
    high and low 4 bits, which are summed separately.

    ``x`` holds 8-bit integers minus a zero point, in f32. ``sums_of`` computes sums of its elements times
    integers whose magnitudes add up to at most ``bound``. Sums are exact in f32 up to ``limit``.
    """
    if 256 * bound <= limit:
        return _rounded(b, sums_of(x))
    high = b(Round(), b(Mul(), x, b.const(1 / _STEP, F32)))
    low = b(Sub(), x, b(Mul(), high, b.const(float(_STEP), F32)))
    total: Value = b(
        Add(), b(Mul(), _rounded(b, sums_of(high)), b.const(_STEP, I32)), _rounded(b, sums_of(low))
    )
    return total


def _rounded(b: Builder, sums: Value) -> Value:
    """The sums as i32. They are rounded because fast convolution algorithms have rounding errors."""
    result: Value = b(Cast(I32), b(Round(), sums))
    return result

"""What quantised ops share: scales and zero points beside what they belong to, and the way into few bits."""

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
from graphwright.ops.core.common import need_dtype, rank_of, widened
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.unary import Round
from graphwright.ops.quantized.round_to_range import RoundToRange, round_to_range

SCALES = frozenset({F16, BF16, F32})
POWERS = DTYPES["f8e8m0"]
BYTES = frozenset({I8, U8})
FLOAT8 = frozenset(DTYPES[name] for name in ("f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz"))
QUANTIZED = (
    BYTES | FLOAT8 | {I16, U16, *(DTYPES[name] for name in ("i4", "u4", "i2", "u2", "f4e2m1"))}
)  # fmt: skip


def limits(dtype: DType) -> tuple[int, int]:
    """The least and the greatest value of an integer dtype."""
    if dtype.kind == "uint":
        return 0, (1 << dtype.bits) - 1
    return -(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1


def quantized(ratio: Array, zero: Array | None, to: DType, saturate: bool = True) -> Array:
    """``ratio + zero`` as ``to``: for integers rounded before ``zero`` is added, halves to even, and clipped.

    16-bit floats are shifted and clipped in f32, which holds every zero point.
    """
    wide = widened(ratio)
    shift = None if zero is None else zero.astype(wide.dtype)
    if to.is_integer:
        return round_to_range(wide, shift, *limits(to)).astype(to.numpy)
    return np.asarray(Cast(to, saturate).reference(np.asarray(wide if shift is None else wide + shift)))


def into_quantized(b: Builder, ratio: Value, zero: Value | None, to: DType, saturate: bool = True) -> Value:
    """:func:`quantized` in ops."""
    wide = in_f32(b, ratio)
    none = zero is None or (to.kind == "uint" and is_zero(b, zero))  # else a sum with 0 makes 0 of -0
    shift = [] if zero is None or none else [as_dtype(b, zero, wide.type.dtype)]
    if to.is_integer:
        shifted = b(RoundToRange(*map(float, limits(to))), wide, *shift)
    else:
        shifted = b(Add(), wide, *shift) if shift else wide
    made: Value = b(Cast(to, saturate), shifted)
    return made


def is_zero(b: Builder, zero: Value) -> bool:
    """Whether a zero point is known to be 0."""
    known = b.fact(zero)
    return known is not None and known.data is not None and not known.data.astype(np.float32).any()


def is_single(shape: tuple[Dim, ...]) -> bool:
    """Whether a scale or a zero point of this shape is one for the whole tensor."""
    return shape in ((), (1,))


def _check_shape(at: Inference, x: Fact, scale: Fact, what: str, axis: int, block: int) -> None:
    """Refuse a shape that is none of: one for all, one for each place of ``axis``, one for each block."""
    if is_single(scale.shape):
        return
    axis = at.axis(axis, x.rank)
    if not block:
        if scale.rank != 1:
            raise at.fail(f"{what} is {scale.type}; without blocks it must be a scalar or a vector")
        at.require_broadcast(scale.shape[0], x.shape[axis], f"{what} along axis {axis}")
        return
    if scale.rank != x.rank:
        raise at.fail(f"{what} is {scale.type}; for blocks of {x.type} it must have as many axes")
    for k, (have, dim) in enumerate(zip(scale.shape, x.shape, strict=True)):
        at.equal(have, ceildiv(dim, block) if k == axis else dim, f"{what} along axis {k}")


def check_quantisation(
    at: Inference, x: Fact, scale: Fact, zero: Fact | None, held: DType, axis: int, block: int
) -> None:
    """Refuse a scale or a zero point, which is of the dtype ``held``, that does not fit ``x``."""
    _check_shape(at, x, scale, "the scale", axis, block)
    if zero is not None:
        need_dtype(at, zero, {held}, "the zero point")
        _check_shape(at, x, zero, "the zero point", axis, block)


def spread(scale: Array, shape: tuple[int, ...], axis: int, block: int) -> Array:
    """A scale or a zero point that fits (:func:`check_quantisation`), so that it broadcasts to ``shape``."""
    if is_single(scale.shape):
        return scale.reshape(())
    axis %= len(shape)
    if not block:
        return scale.reshape([-1 if k == axis else 1 for k in range(len(shape))])
    repeated = np.repeat(scale, block, axis)
    return repeated[tuple(slice(size) for size in shape)]


def spread_value(b: Builder, scale: Value, dims: tuple[Dim, ...], axis: int, block: int) -> Value:
    """:func:`spread` in ops."""
    rank_of(scale)
    own = scale.type.dims
    if is_single(own):
        return reshaped(b, scale, ())
    axis %= len(dims)
    if not block:
        return reshaped(b, scale, tuple(own[0] if k == axis else 1 for k in range(len(dims))))
    front, back = own[: axis + 1], own[axis + 1 :]
    each: Value = b(Expand((*front, block, *back)), reshaped(b, scale, (*front, 1, *back)))
    whole = reshaped(b, each, (*own[:axis], own[axis] * block, *back))
    if whole.type.dims[axis] == dims[axis]:
        return whole
    cut: Value = b(Slice((0,), (dims[axis],), (axis,), (1,)), whole)
    return cut


def reshaped(b: Builder, x: Value, dims: tuple[Dim, ...]) -> Value:
    """``x`` under another shape; itself if it has that."""
    if x.type.dims == dims:
        return x
    made: Value = b(Reshape(dims, True), x)
    return made


def need_scales(at: Inference, **scales: Fact) -> None:
    """Refuse scales that are no f32, f16 or bf16."""
    for name, scale in scales.items():
        need_dtype(at, scale, SCALES, name)


def ratio_of(*scales: Array) -> Array:
    """``a * b / y`` of three scales, at least in f32: products of small halves vanish."""
    a, b, y = map(widened, scales)
    return np.asarray(a * b / y)


_STEP = 16
"""A byte less its zero point is ``_STEP * high + low``, both of magnitudes up to this."""


def sums_are_exact(reach: float, limit: int) -> bool:
    """Whether :func:`exact_sums` may be asked."""
    return _STEP * reach <= limit


def exact_sums(b: Builder, x: Value, reach: float, limit: int, sums_of: Callable[[Value], Value]) -> Value:
    """``sums_of(x)`` as i32, formed in f32 without error: of ``x``, or of its halves where that is too large.

    ``x`` holds bytes less a zero point, in f32. ``sums_of`` gives sums of its elements times integers whose
    magnitudes add up to ``reach`` at most; f32 holds them up to ``limit``.
    """
    if 256 * reach <= limit:
        return _rounded(b, sums_of(x))
    high = b(Round(), b(Mul(), x, b.const(1 / _STEP, F32)))
    low = b(Sub(), x, b(Mul(), high, b.const(float(_STEP), F32)))
    total: Value = b(
        Add(), b(Mul(), _rounded(b, sums_of(high)), b.const(_STEP, I32)), _rounded(b, sums_of(low))
    )
    return total


def _rounded(b: Builder, sums: Value) -> Value:
    """Sums as i32: a fast algorithm may miss the integer by a little."""
    made: Value = b(Cast(I32), b(Round(), sums))
    return made

"""Resize to sizes, or by scales, that are computed at run time: the positions and weights of taps
as nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Op
from graphwright.ir.symbols import Dim
from graphwright.ir.types import F32, F64, I64, DType
from graphwright.ops.core.binary import Add, And, Greater, Less, Max, Min, Mul, Or, Sub
from graphwright.ops.core.cast import Cast, as_dtype
from graphwright.ops.core.div import Div
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.range import Range
from graphwright.ops.core.reductions import ReduceMax, ReduceMin, ReduceSum
from graphwright.ops.core.round_to_range import RoundToRange
from graphwright.ops.core.shape import Shape
from graphwright.ops.core.unary import Abs, Ceil, Floor
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.core.where import Where
from graphwright.ops.nn.interpolate import Interpolate
from graphwright.ops.nn.resize_taps import Method, sum_dtype
from graphwright.records import dataclass


@dataclass(frozen=True)
class Vector:
    """A vector of f64, f32 or bool elements in a graph, with Python's operators: each adds a node."""

    b: Builder
    value: Value

    def _with(self, op: Op, other: Vector | float) -> Vector:
        right = other.value if isinstance(other, Vector) else self.b.const(other, self.value.type.dtype)
        return Vector(self.b, self.b(op, self.value, right))

    def __add__(self, other: Vector | float) -> Vector:
        return self._with(Add(), other)

    def __sub__(self, other: Vector | float) -> Vector:
        return self._with(Sub(), other)

    def __mul__(self, other: Vector | float) -> Vector:
        return self._with(Mul(), other)

    def __truediv__(self, other: Vector | float) -> Vector:
        return self._with(Div(), other)

    def __gt__(self, other: Vector | float) -> Vector:
        return self._with(Greater(), other)

    def __lt__(self, other: Vector | float) -> Vector:
        return self._with(Less(), other)

    def __and__(self, other: Vector) -> Vector:
        return self._with(And(), other)

    def __or__(self, other: Vector) -> Vector:
        return self._with(Or(), other)

    def equals(self, other: Vector | float) -> Vector:
        return self._with(Equal(), other)

    def clipped(self, low: Vector | float, high: Vector | float) -> Vector:
        return self._with(Max(), low)._with(Min(), high)

    def applied(self, op: Op) -> Vector:
        """``op`` of the vector."""
        return Vector(self.b, self.b(op, self.value))

    def where(self, yes: Vector, no: Vector | float) -> Vector:
        other = no.value if isinstance(no, Vector) else self.b.const(no, yes.value.type.dtype)
        return Vector(self.b, self.b(Where(), self.value, yes.value, other))


def vector(b: Builder, value: Value, dtype: DType = F64) -> Vector:
    """``value`` in ``dtype`` as a Vector."""
    return Vector(b, b(Cast(dtype), value))


@dataclass(frozen=True)
class AxisParameters:
    """The parameters of one axis that operands give: the scale, and the start and end of the region; None if
    absent.
    """

    scale: Vector | None
    start: Vector | None
    end: Vector | None


Bounds = tuple[Vector, Vector]
"""The starts and ends of a region of interest, one for each resized axis."""


def region_bounds(b: Builder, roi: Value, count: int) -> Bounds:
    """The bounds of ``count`` axes in the operand ``roi``, which holds all starts, then all ends."""
    starts, ends = (b(Gather(0), roi, b.const(list(range(k, k + count)), I64)) for k in (0, count))
    return vector(b, starts), vector(b, ends)


def axis_parameters(
    b: Builder, axes: Sequence[int], scales: Value | None, bounds: Bounds | None
) -> dict[int, AxisParameters]:
    """The parameters of each of ``axes``. ``scales`` has one element for each axis, or one for all."""

    def element(values: Vector, index: int) -> Vector:
        if values.value.type.dims == (1,):
            return values
        return Vector(b, b(Gather(0), values.value, b.const([index], I64)))

    factors = None if scales is None else vector(b, scales)
    return {
        axis: AxisParameters(
            None if factors is None else element(factors, index),
            None if bounds is None else element(bounds[0], index),
            None if bounds is None else element(bounds[1], index),
        )
        for index, axis in enumerate(axes)
    }


def scaled_sizes(b: Builder, x: Value, axes: Sequence[int], scales: Value, bounds: Bounds | None) -> Value:
    """``floor(size * scale)`` for each axis, computed in f32, as i64. With a region, the size is that of the
    region.
    """
    have = b(Cast(F32), b(Gather(0), b(Shape(), x), b.const(list(axes), I64)))
    factors = vector(b, scales)
    factors = factors if bounds is None else (bounds[1] - bounds[0]) * factors
    sizes: Value = b(Cast(I64), b(Floor(), b(Mul(), have, b(Cast(F32), factors.value))))
    return sizes


def proportional_sizes(
    b: Builder, x: Value, axes: Sequence[int], sizes: Value, policy: str
) -> tuple[Value, Value]:
    """Sizes that keep the aspect ratio, and their common scale: at most ``sizes`` for the policy
    ``not_larger``, else at least ``sizes``.
    """
    have = vector(b, b(Gather(0), b(Shape(), x), b.const(list(axes), I64)))
    ratios = vector(b, sizes) / have
    scale = ratios.applied(
        ReduceMin((0,), keepdims=True) if policy == "not_larger" else ReduceMax((0,), keepdims=True)
    )
    kept: Value = b(Cast(I64), (scale * have + 0.5).value)
    return kept, scale.value


def interpolated(
    b: Builder, x: Value, dims: Sequence[Dim], method: Method, given: dict[int, AxisParameters]
) -> Value:
    """``x`` resized to ``dims``, one axis of ``given`` after the other."""
    dtype, out = x.type.dtype, x
    outside: Value | None = None
    for axis, parameters in given.items():
        if dims[axis] == x.type.dims[axis] and parameters.scale is None and not method.crops:
            continue
        along = _resized_axis(b, x, axis, dims[axis], parameters, method)
        if method.crops:
            mask = (along.position < 0.0) | (along.position > along.size - 1.0)
            column = _broadcast_along(b, mask.value, axis, len(dims))
            outside = column if outside is None else b(Or(), outside, column)
        out = _nearest(b, out, along, method) if method.mode == "nearest" else _sums(b, out, along, method)
    if outside is not None:
        out = b(Where(), outside, b.const(method.extrapolation, out.type.dtype), out)
    bounds = method.range_of(dtype.numpy)
    if bounds is not None and out.type.dtype != dtype:
        out = b(RoundToRange(*bounds), out)
    return as_dtype(b, out, dtype)


@dataclass(frozen=True)
class _ResizedAxis:
    """An axis of the input, and for each element of the result the position that it is computed from."""

    axis: int
    size: Vector
    position: Vector
    unchanged: Vector | None
    """Whether the axis keeps its size; None for crops."""


def _resized_axis(
    b: Builder, x: Value, axis: int, result: Dim, given: AxisParameters, method: Method
) -> _ResizedAxis:
    # Mode nearest computes in f32, the dtype of scales: rounding errors choose the element.
    real = F64 if method.mode != "nearest" or method.crops else F32
    size = vector(b, b(Shape(axis, axis + 1), x), real)
    index = vector(b, b(Range((0, result, 1))), real)
    count = vector(b, b(Shape(0, 1), index.value), real)
    scale = None if given.scale is None else vector(b, given.scale.value, real)
    position = _positions(index, size, count, AxisParameters(scale, given.start, given.end), method)
    if method.crops:
        return _ResizedAxis(axis, size, position, None)
    unchanged = size.equals(count)
    unchanged = unchanged if scale is None else unchanged & scale.equals(1.0)
    return _ResizedAxis(axis, size, unchanged.where(index, position), unchanged)


def _positions(i: Vector, size: Vector, count: Vector, given: AxisParameters, method: Method) -> Vector:
    """The coordinate in the input of each element ``i`` of the result (ONNX:
    coordinate_transformation_mode).
    """
    scale = given.scale
    last = (count - 1.0).clipped(1.0, np.inf)
    if method.crops:
        assert given.start is not None and given.end is not None
        middle = (given.start + given.end) * 0.5 * (size - 1.0)
        several = given.start * (size - 1.0) + i * (given.end - given.start) * (size - 1.0) / last
        return count.equals(1.0).where(middle, several)
    if method.coordinates == "align_corners":
        return i * (size - 1.0) / last

    def scaled(position: Vector) -> Vector:
        """In f64 multiplies first, so that ties are exact; in f32 divides by the scale, as the
        kernel does.
        """
        if scale is None and position.value.type.dtype == F64:
            return position * size / count
        return position / (count / size if scale is None else scale)

    if method.coordinates == "asymmetric":
        return scaled(i)
    middle = scaled(i + 0.5)
    if method.coordinates == "tf_half_pixel_for_nn":
        return middle
    if method.coordinates == "half_pixel_symmetric" and scale is not None:
        shift = size * 0.5 * (count / (scale * size) * -1.0 + 1.0)
        return middle - 0.5 + shift
    if method.coordinates == "pytorch_half_pixel":
        return count.equals(1.0).where(i, middle - 0.5)
    return middle - 0.5


def _rounded(position: Vector, rounding: str) -> Vector:
    shifts = {"round_prefer_floor": -0.5, "round_prefer_ceil": 0.5}
    up = rounding in ("round_prefer_floor", "ceil")
    return (position + shifts[rounding] if rounding in shifts else position).applied(
        Ceil() if up else Floor()
    )


def _nearest(b: Builder, x: Value, along: _ResizedAxis, method: Method) -> Value:
    """The elements that are nearest to each position."""
    nearest = _rounded(along.position, method.rounding).clipped(0.0, along.size - 1.0)
    elements: Value = b(Gather(along.axis), x, b(Cast(I64), nearest.value))
    return elements


def _sums(b: Builder, x: Value, along: _ResizedAxis, method: Method) -> Value:
    """The weighted sums of the taps around each position. If the axis is unchanged, taps of weight 0 are
    skipped, so that infinities do not become NaN.
    """
    reach = 1 if method.mode == "linear" else 2
    column = along.position.applied(Unsqueeze((1,)))
    steps = np.arange(1 - reach, 1 + reach, dtype=np.float64)[None]
    taps = column.applied(Floor()) + Vector(b, b.const(steps))
    weights = _weight((taps - column).applied(Abs()), method)
    if method.exclude_outside:
        weights = ((taps > -1.0) & (taps < along.size)).where(weights, 0.0)
        weights = weights / weights.applied(ReduceSum((1,), keepdims=True))
    positions = taps.clipped(0.0, along.size - 1.0)
    if along.unchanged is not None:
        positions = (along.unchanged & weights.equals(0.0)).where(Vector(b, b.const(-1.0, F64)), positions)
    factors = b(Cast(sum_dtype(x.type.dtype)), weights.value)
    total: Value = b(Interpolate(along.axis), x, b(Cast(I64), positions.value), factors)
    return total


def _weight(distance: Vector, method: Method) -> Vector:
    """The weight of a tap: linear, or the cubic convolution kernel (Keys 1981, equation 4)."""
    if method.mode == "linear":
        return (distance * -1.0 + 1.0).clipped(0.0, 1.0)
    a, square = method.cubic_a, distance * distance
    near = (distance * (a + 2.0) - (a + 3.0)) * square + 1.0
    far = ((distance * a - 5.0 * a) * distance + 8.0 * a) * distance - 4.0 * a
    return (distance > 1.0).where((distance < 2.0).where(far, 0.0), near)


def _broadcast_along(b: Builder, vector: Value, axis: int, rank: int) -> Value:
    """``vector`` with trailing axes, so that it broadcasts along ``axis`` of a tensor of ``rank``."""
    trailing = tuple(range(1, rank - axis))
    column: Value = b(Unsqueeze(trailing), vector) if trailing else vector
    return column

"""Resize to sizes, or by scales, that elements decide: sizes and tables of taps are made in the graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Op
from graphwright.ir.symbols import Dim
from graphwright.ir.types import F32, F64, I64, DType
from graphwright.ops.core.binary import Add, And, Div, Equal, Greater, Less, Max, Min, Mul, Or, Sub, Where
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.range import Range
from graphwright.ops.core.reductions import ReduceMax, ReduceMin, ReduceSum
from graphwright.ops.core.shape import Shape
from graphwright.ops.core.unary import Abs, Ceil, Floor
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.nn.interpolate import Interpolate
from graphwright.records import dataclass


@dataclass(frozen=True)
class Table:
    """Elements of a vector in f64, or f32, with the arithmetic of Python; booleans where it compares."""

    b: Builder
    value: Value

    def _with(self, op: Op, other: Table | float) -> Table:
        right = other.value if isinstance(other, Table) else self.b.const(other, self.value.type.dtype)
        return Table(self.b, self.b(op, self.value, right))

    def __add__(self, other: Table | float) -> Table:
        return self._with(Add(), other)

    def __sub__(self, other: Table | float) -> Table:
        return self._with(Sub(), other)

    def __mul__(self, other: Table | float) -> Table:
        return self._with(Mul(), other)

    def __truediv__(self, other: Table | float) -> Table:
        return self._with(Div(), other)

    def __gt__(self, other: Table | float) -> Table:
        return self._with(Greater(), other)

    def __lt__(self, other: Table | float) -> Table:
        return self._with(Less(), other)

    def __and__(self, other: Table) -> Table:
        return self._with(And(), other)

    def __or__(self, other: Table) -> Table:
        return self._with(Or(), other)

    def equals(self, other: Table | float) -> Table:
        return self._with(Equal(), other)

    def clipped(self, low: Table | float, high: Table | float) -> Table:
        return self._with(Max(), low)._with(Min(), high)

    def applied(self, op: Op) -> Table:
        """What an elementwise ``op`` makes of it."""
        return Table(self.b, self.b(op, self.value))

    def where(self, yes: Table, no: Table | float) -> Table:
        other = no.value if isinstance(no, Table) else self.b.const(no, yes.value.type.dtype)
        return Table(self.b, self.b(Where(), self.value, yes.value, other))


def table(b: Builder, value: Value, dtype: DType = F64) -> Table:
    """A vector of numbers as a table."""
    return Table(b, b(Cast(dtype), value))


@dataclass(frozen=True)
class Method:
    """How elements of the result are placed in the input and made of those beside them: as in Resize."""

    mode: str
    coordinates: str
    rounding: str
    cubic_a: float
    exclude_outside: bool
    extrapolation: float

    @property
    def crops(self) -> bool:
        return self.coordinates == "tf_crop_and_resize"


@dataclass(frozen=True)
class Given:
    """What the operands say of one axis, if they do: the scale, and the region's start and end."""

    scale: Table | None
    start: Table | None
    end: Table | None


Bounds = tuple[Table, Table]
"""Starts and ends of a region, for each axis that is resized."""


def given_bounds(b: Builder, roi: Value, count: int) -> Bounds:
    """All starts, then all ends, as they lie in ``roi``."""
    starts, ends = (b(Gather(0), roi, b.const(list(range(k, k + count)), I64)) for k in (0, count))
    return table(b, starts), table(b, ends)


def given_by(
    b: Builder, axes: Sequence[int], scales: Value | None, bounds: Bounds | None
) -> dict[int, Given]:
    """What operands say of each of ``axes``; a scale for each, or one for all."""

    def one(vector: Table, place: int) -> Table:
        if vector.value.type.dims == (1,):
            return vector
        return Table(b, b(Gather(0), vector.value, b.const([place], I64)))

    factors = None if scales is None else table(b, scales)
    return {
        axis: Given(
            None if factors is None else one(factors, place),
            None if bounds is None else one(bounds[0], place),
            None if bounds is None else one(bounds[1], place),
        )
        for place, axis in enumerate(axes)
    }


def sizes_by_scales(b: Builder, x: Value, axes: Sequence[int], scales: Value, bounds: Bounds | None) -> Value:
    """``floor(size * scale)`` in f32 for each axis, i64; of a region, that of its part of the axis."""
    have = b(Cast(F32), b(Gather(0), b(Shape(), x), b.const(list(axes), I64)))
    factors = table(b, scales)
    factors = factors if bounds is None else (bounds[1] - bounds[0]) * factors
    made: Value = b(Cast(I64), b(Floor(), b(Mul(), have, b(Cast(F32), factors.value))))
    return made


def sizes_kept(b: Builder, x: Value, axes: Sequence[int], sizes: Value, policy: str) -> tuple[Value, Value]:
    """Sizes within (``not_larger``) or around those wanted that keep the aspect ratio, and the one scale."""
    have = table(b, b(Gather(0), b(Shape(), x), b.const(list(axes), I64)))
    ratios = table(b, sizes) / have
    scale = ratios.applied(ReduceMin((0,), True) if policy == "not_larger" else ReduceMax((0,), True))
    kept: Value = b(Cast(I64), (scale * have + 0.5).value)
    return kept, scale.value


def interpolated(b: Builder, x: Value, dims: Sequence[Dim], method: Method, given: dict[int, Given]) -> Value:
    """``x`` brought to ``dims``, one axis of ``given`` after the other."""
    dtype, out, blends = x.type.dtype, x, method.mode != "nearest"
    outside: Value | None = None
    for axis, what in given.items():
        if dims[axis] == x.type.dims[axis] and what.scale is None and not method.crops:
            continue
        kind = (
            F64 if blends or method.crops else F32
        )  # the nearest element is that of f32, the type of scales
        size, result = table(b, b(Shape(axis, axis + 1), x), kind), dims[axis]
        number = table(b, b(Range((0, result, 1))), kind)
        count = table(b, b(Shape(0, 1), number.value), kind)
        if what.scale is not None:
            what = Given(table(b, what.scale.value, kind), what.start, what.end)
        place = _positions(number, size, count, what, method)
        if method.crops:
            beyond = (place < 0.0) | (place > size - 1.0)
            mask = _along(b, beyond.value, axis, len(dims))
            outside = mask if outside is None else b(Or(), outside, mask)
        stays = None if method.crops else size.equals(count)
        if stays is not None:
            stays = stays if what.scale is None else stays & what.scale.equals(1.0)
            place = stays.where(number, place)
        if blends:
            out = _blended(b, out, axis, place, size, stays, method)
        else:
            nearest = _rounded(place, method.rounding).clipped(0.0, size - 1.0)
            out = b(Gather(axis), out, b(Cast(I64), nearest.value))
    if outside is not None:
        out = b(Where(), outside, b.const(method.extrapolation, out.type.dtype), out)
    return out if out.type.dtype == dtype else b(Cast(dtype), out)


def _wide(dtype: DType) -> DType:
    """What sums are formed in."""
    return dtype.computed if dtype.is_float else F64


def _positions(i: Table, size: Table, count: Table, given: Given, method: Method) -> Table:
    """Where each element lies in the input (ONNX, coordinate_transformation_mode)."""
    scale = given.scale
    last = (count - 1.0).clipped(1.0, np.inf)
    if method.crops:
        assert given.start is not None and given.end is not None
        middle = (given.start + given.end) * 0.5 * (size - 1.0)
        spread = given.start * (size - 1.0) + i * (given.end - given.start) * (size - 1.0) / last
        return count.equals(1.0).where(middle, spread)
    if method.coordinates == "align_corners":
        return i * (size - 1.0) / last

    def scaled(place: Table) -> Table:
        """In f64 multiplied first, so that ties stay exact; in f32 divided by the scale, as in the kernel."""
        if scale is None and place.value.type.dtype == F64:
            return place * size / count
        return place / (count / size if scale is None else scale)

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


def _rounded(place: Table, how: str) -> Table:
    shifts = {"round_prefer_floor": -0.5, "round_prefer_ceil": 0.5}
    up = how in ("round_prefer_floor", "ceil")
    return (place + shifts[how] if how in shifts else place).applied(Ceil() if up else Floor())


def _blended(
    b: Builder, x: Value, axis: int, place: Table, size: Table, stays: Table | None, method: Method
) -> Value:
    """The sum over the taps beside each place; where the axis ``stays`` as it is, no other is touched."""
    reach = 1 if method.mode == "linear" else 2
    column = place.applied(Unsqueeze((1,)))
    steps = np.arange(1 - reach, 1 + reach, dtype=np.float64)[None]
    taps = column.applied(Floor()) + Table(b, b.const(steps))
    weights = _weight((taps - column).applied(Abs()), method)
    if method.exclude_outside:
        weights = ((taps > -1.0) & (taps < size)).where(weights, 0.0)
        weights = weights / weights.applied(ReduceSum((1,), True))
    places = taps.clipped(0.0, size - 1.0)
    if stays is not None:
        places = (stays & weights.equals(0.0)).where(Table(b, b.const(-1.0, F64)), places)
    factors = b(Cast(_wide(x.type.dtype)), weights.value)
    made: Value = b(Interpolate(axis), x, b(Cast(I64), places.value), factors)
    return made


def _weight(distance: Table, method: Method) -> Table:
    """Of a tap: linear, or by cubic convolution (R. Keys, 1981), equation 4."""
    if method.mode == "linear":
        return (distance * -1.0 + 1.0).clipped(0.0, 1.0)
    a, square = method.cubic_a, distance * distance
    near = (distance * (a + 2.0) - (a + 3.0)) * square + 1.0
    far = ((distance * a - 5.0 * a) * distance + 8.0 * a) * distance - 4.0 * a
    return (distance > 1.0).where((distance < 2.0).where(far, 0.0), near)


def _along(b: Builder, vector: Value, axis: int, rank: int) -> Value:
    """A vector as what broadcasts along ``axis``."""
    behind = tuple(range(1, rank - axis))
    made: Value = b(Unsqueeze(behind), vector) if behind else vector
    return made

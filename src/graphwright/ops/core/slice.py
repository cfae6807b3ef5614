"""Slice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.bounded_form import BoundedForm
from graphwright.ir.interfaces.moved_axes import AxisSlice, MovesAxes
from graphwright.ir.interfaces.padding import Padded, PaddingRule
from graphwright.ir.op import Array, AtenImporter, Fact, Importer, Inference, Op, Sample, Trait, arg, op
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.symbols import Dim, ceildiv, maximum, minimum, symbol
from graphwright.ir.types import F32, I64, TensorType
from graphwright.ops.core.binary import Add, Less, Max, Min, Mul, Sub
from graphwright.ops.core.bind_size import bind_symbol
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.checks import need_sizes, rank_of
from graphwright.ops.core.constant_of_shape import ConstantOfShape
from graphwright.ops.core.div import Div
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.range import Range, scalar_of
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.size_inference import (
    known_dims,
    known_ints,
    known_parts,
    length_of,
    number,
    with_moved_elements,
)
from graphwright.ops.core.split import Split
from graphwright.ops.core.squeeze import Squeeze
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.where import Where

TO_THE_END = 2**31 - 1
"""A bound of at least this magnitude means the end of the axis, or its beginning, for every size. With such a
step, at most one element is selected.
"""


@op("Slice")
class Slice(BoundedForm, MovesAxes, PaddingRule, Op):
    """``x[starts[k]:ends[k]:steps[k]]`` along each of ``axes``; negative bounds count from the end, as in
    NumPy.

    Unlike NumPy, and as in ONNX, a start before the first element with a negative step is clamped to the
    first element. If ``starts`` is None, operands 1 to 4 are starts, ends, axes and steps; axes and steps may
    be absent.
    """

    starts: tuple[Dim, ...] | None = None
    ends: tuple[Dim, ...] = ()
    axes: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    traits = Trait.COPY
    optional_inputs = frozenset({3, 4})

    def fold_operands(self, x: Fact, *bounds: Fact | None) -> tuple[Op, tuple[int, ...]] | None:
        if self.starts is not None or len(bounds) < 2:
            return None
        starts, ends = known_dims(bounds[0]), known_dims(bounds[1])
        if starts is None or ends is None:
            return None
        axes = _or_default(bounds, 2, tuple(range(len(starts))))
        steps = _or_default(bounds, 3, (1,) * len(starts))
        if axes is None or steps is None:
            return None
        return Slice(starts, ends, axes, tuple(map(_bounded, steps))), (0,)

    def infer(self, at: Inference, x: Fact, *bounds: Fact | None) -> TensorType | Fact:
        if self.starts is None:
            return TensorType(x.dtype, self._open(at, x, bounds))
        if not len(self.starts) == len(self.ends) == len(self.axes) == len(self.steps):
            counts = f"{len(self.starts)} starts, {len(self.ends)} ends, {len(self.axes)} axes"
            raise at.fail(f"{counts}, {len(self.steps)} steps: their numbers must be equal")
        shape = list(x.shape)
        if self.axes and not shape:
            raise at.fail("a scalar has no axis to slice")
        seen = set()
        for start, end, axis, step in zip(self.starts, self.ends, self.axes, self.steps, strict=True):
            axis = at.axis(axis, x.rank)
            if axis in seen:
                raise at.fail(f"axis {axis} is sliced twice")
            if step == 0:
                raise at.fail(f"the step along axis {axis} is 0")
            seen.add(axis)
            shape[axis] = sliced_range(at, x.shape[axis], start, end, step)[1]
        return with_moved_elements(self, TensorType(x.dtype, tuple(shape)), x)

    def _open(self, at: Inference, x: Fact, bounds: Sequence[Fact | None]) -> tuple[Dim, ...]:
        """The shape of the result if some bounds are unknown: a new symbol for each axis that they may
        slice.
        """
        for what, fact in zip(("starts", "ends", "axes", "steps"), bounds, strict=False):
            need_sizes(at, fact, f"the vector of {what}")
        length = length_of(bounds[0]) if bounds else None
        axes = _or_default(bounds, 2, tuple(range(length)) if isinstance(length, int) else None)
        if axes is None:
            return tuple(at.symbols.fresh("sliced") for _ in x.shape)
        if axes and not x.shape:
            raise at.fail("a scalar has no axis to slice")
        axes, shape = tuple(at.axis(axis, x.rank) for axis in axes), list(x.shape)
        known = _known_slices(axes, bounds)
        for axis in axes:
            bound = known.get(axis)
            shape[axis] = sliced_range(at, x.shape[axis], *bound)[1] if bound else at.symbols.fresh("sliced")
        return tuple(shape)

    def bounded_form(
        self, b: Builder, gives: Sequence[TensorType], defined: Set[str], *inputs: Value
    ) -> Value | None:
        """Slices the axes whose bounds are known. Binds each other size to the number of elements between the
        bounds, and gathers these elements.
        """
        x, *bounds = inputs
        length = length_of(b.fact(bounds[0])) if bounds else None
        if not isinstance(length, int) or not x.type.dtype.bits or gives[0].shape is None:
            return None
        facts = [b.fact(value) for value in bounds]
        axes = _or_default(facts, 2, tuple(range(length)))
        steps = _or_default(facts, 3, (1,) * length)
        if axes is None or steps is None or not len(axes) == len(steps) == length:
            return None
        axes = tuple(axis % len(x.type.dims) for axis in axes)
        known = _known_slices(axes, facts)
        if any(str(gives[0].dims[axis]) not in defined for axis in axes if axis not in known):
            return None
        if known:
            x = b(_slice_of(known), x)
        starts, ends = (_parts(fact, length) for fact in facts[:2])
        for k, (axis, step) in enumerate(zip(axes, map(_bounded, steps), strict=True)):
            if axis in known:
                continue
            size, dim = gives[0].dims[axis], x.type.dims[axis]
            start, end = (as_dtype(b, b(Gather(0), each, b.const(k, I64)), I64) for each in bounds[:2])
            first, count = _computed_range(b, scalar_of(b, dim), start, end, step)
            bind_symbol(b, size, count)
            if step == 1 and starts[k] == 0:
                x, _ = b(Split(2, axis, (size, dim - size)), x)
            elif step == 1 and _is_the_end(ends[k]):
                _, x = b(Split(2, axis, (dim - size, size)), x)
            else:
                x = b(Gather(axis), x, b(Add(), first, _scaled(b, b(Range((0, size, 1))), Mul(), step)))
        return x

    def forwarded_operand(self, gives: TensorType, x: Fact, *others: Fact | None) -> int | None:
        return 0 if gives == x.type and all(step > 0 for step in self.steps) else None

    def padding_leak(self, node: Node, padded: Padded) -> str:
        for start, axis, step in zip(self.starts or (), self.axes, self.steps, strict=True):
            from_front = isinstance(start, int) and start >= 0 and step > 0
            if padded.among(node.operand(0), [axis]) and not from_front:
                return "it counts from the end of a padded axis"
            if padded.holds(start):
                return "it starts at a padded size"
        return ""

    def moved_axes(self, node: Node) -> tuple[AxisSlice, ...] | str:
        if self.starts is None:
            return "its bounds are computed at run time"
        shape = node.operand(0).type.dims
        axes = [AxisSlice(k) for k in range(len(shape))]
        for start, end, axis, step in zip(self.starts, self.ends, self.axes, self.steps, strict=True):
            size = shape[axis % len(shape)]
            if not isinstance(size, int) or not isinstance(start, int) or not isinstance(end, int):
                return "it slices an axis whose size or bounds are symbolic"
            first, _ = clamped_range(size, start, end, step)
            axes[axis % len(shape)] = AxisSlice(axis % len(shape), first, step)
        return tuple(axes)

    def reference(self, x: Array) -> Array:
        assert self.starts is not None
        where = [slice(None)] * x.ndim
        for start, end, axis, step in zip(self.starts, self.ends, self.axes, self.steps, strict=True):
            first, count = clamped_range(x.shape[axis], number(start), number(end), step)
            stop = first + count * step
            where[axis] = slice(first, stop if stop >= 0 else None, step) if count else slice(0, 0)
        return np.array(x[tuple(where)], order="C")


_Range = tuple[Dim, Dim, int]
"""The start, the end and the step along one axis."""


def _known_slices(axes: Sequence[int], bounds: Sequence[Fact | None]) -> dict[int, _Range]:
    """The bounds of each of ``axes`` for which all three are known."""
    steps = _or_default(bounds, 3, (1,) * len(axes))
    if steps is None or len(steps) != len(axes):
        return {}
    starts, ends = (_parts(fact, len(axes)) for fact in bounds[:2])
    given = zip(axes, starts, ends, map(_bounded, steps), strict=True)
    return {axis: (s, e, step) for axis, s, e, step in given if s is not None and e is not None and step}


def _parts(bounds: Fact | None, count: int) -> tuple[Dim | None, ...]:
    """``count`` bounds, None for unknown ones; all are unknown if the vector may have another length."""
    return known_parts(bounds) if length_of(bounds) == count else (None,) * count


def _slice_of(ranges: Mapping[int, _Range]) -> Slice:
    starts, ends, steps = zip(*ranges.values(), strict=True)
    return Slice(starts, ends, tuple(ranges), steps)


def _is_the_end(bound: Dim | None) -> bool:
    return isinstance(bound, int) and bound >= TO_THE_END


def _bounded(step: int) -> int:
    """A step that selects the same elements, and whose product with a stride is within 64 bits."""
    return max(-TO_THE_END, min(step, TO_THE_END))


def clamped_range(size: int, start: int, end: int, step: int) -> tuple[int, int]:
    """The first element of a slice and its number of elements, with the bounds clamped as in ONNX."""
    last = size - 1 if step < 0 else size
    first = min(max(start + size * (start < 0), 0), last)
    stop = min(max(end + size * (end < 0), -1 if step < 0 else 0), last)
    return first, max(0, -((first - stop) // step))


def _computed_range(b: Builder, dim: Value, start: Value, end: Value, step: int) -> tuple[Value, Value]:
    """:func:`clamped_range` for i64 scalars that are computed at run time."""
    zero, minus_one = b.const(0, I64), b.const(-1, I64)
    last, low = (b(Add(), dim, minus_one), minus_one) if step < 0 else (dim, zero)
    start, end = (b(Where(), b(Less(), bound, zero), b(Add(), bound, dim), bound) for bound in (start, end))
    first, stop = b(Min(), b(Max(), start, zero), last), b(Min(), b(Max(), end, low), last)
    span = b(Sub(), first, stop) if step < 0 else b(Sub(), stop, first)
    whole = span if abs(step) == 1 else b(Add(), span, b.const(abs(step) - 1, I64))
    return first, _scaled(b, b(Max(), whole, zero), Div(), abs(step))


def _scaled(b: Builder, x: Value, op: Op, factor: int) -> Value:
    """``x``, multiplied or divided by ``factor``."""
    result: Value = x if factor == 1 else b(op, x, b.const(factor, I64))
    return result


def sliced_range(at: Inference, dim: Dim, start: Dim, end: Dim, step: int) -> tuple[Dim, Dim]:
    """:func:`clamped_range` for symbolic sizes and bounds: the first element and the number of elements."""
    if isinstance(dim, int) and isinstance(start, int) and isinstance(end, int):
        return clamped_range(dim, start, end, step)
    if not all([_keeps_sign(at, bound) for bound in (start, end)]):
        return 0, at.symbols.fresh("sliced")
    if step < 0:
        last = dim - 1  # -1 if the axis is empty
        first = last if start == -1 else minimum(_position(at, dim, start, last, 0), last)
        stop = _position(at, dim, end, dim - 1, -1)
        return first, at.symbols.larger(ceildiv(first - stop, -step), 0)
    first, stop = _position(at, dim, start, dim, 0), _position(at, dim, end, dim, 0)
    if first == 0:
        return 0, ceildiv(stop, step)
    if stop == dim and first == minimum(start, dim):  # dim - min(start, dim)
        return first, ceildiv(at.symbols.larger(dim - start, 0), step)
    if stop == dim and first == maximum(dim + start, 0):  # dim - max(dim + start, 0)
        return first, ceildiv(minimum(dim, -start), step)
    return first, at.symbols.larger(ceildiv(stop - first, step), 0)


def _keeps_sign(at: Inference, bound: Dim) -> bool:
    """Whether ``bound`` is negative for all sizes, or for none. For a symbolic bound this is proved, or
    becomes a constraint.
    """
    if isinstance(bound, int):
        return True
    return at.not_less(-bound, 1) if _from_end(at, bound) else at.not_less(bound, 0)


def _from_end(at: Inference, bound: Dim) -> bool:
    """Whether ``bound`` is negative, so that it counts from the end of the axis."""
    high = at.symbols.range_of(bound).high
    return high is not None and high <= 0 and bound != 0


def _position(at: Inference, dim: Dim, bound: Dim, high: Dim, low: int) -> Dim:
    """The position that ``bound`` denotes, clamped to ``[low, high]``; see :func:`_keeps_sign`."""
    if isinstance(bound, int) and abs(bound) >= TO_THE_END:
        return high if bound > 0 else low
    if _from_end(at, bound):
        return at.symbols.larger(dim + bound, low)
    return at.symbols.smaller(bound, high)


def _or_default(
    bounds: Sequence[Fact | None], index: int, default: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    """The elements of operand ``index`` of ``bounds``, None if unknown; ``default`` if it is absent."""
    absent = index >= len(bounds) or bounds[index] is None
    return default if absent else known_ints(bounds[index])


def _from_attributes(i: Importer) -> Any:
    starts, ends = tuple(i.required_attr("starts")), tuple(i.required_attr("ends"))
    axes = tuple(i.attr("axes", range(len(starts))))
    return i.emit(Slice(starts, ends, axes, (1,) * len(starts)), i.input(0))


def _export(e: Exporter, op: Slice, x: Value, *bounds: Value) -> Any:
    if op.starts is None:
        return e.emit("Slice", x, *bounds)
    return e.emit("Slice", x, e.sizes(op.starts), e.sizes(op.ends), e.sizes(op.axes), e.sizes(op.steps))


Slice.to_onnx = _export
Slice.onnx = {("Slice", 1): _from_attributes, ("Slice", 10): lambda i: i.emit(Slice(), *i.inputs())}
_I64_MAX = 2**63 - 1
_ONE = arg(I64, 1, values=(1,))
Slice.samples = (
    Sample(Slice((1, -2), (3, _I64_MAX), (0, 1), (1, 1)), (arg(F32, 4, 5),)),
    Sample(Slice((-1,), (-_I64_MAX - 1,), (1,), (-1,)), (arg(F32, 2, 5),)),
    Sample(Slice((9, 3), (0, 1), (0, 1), (-2, 1)), (arg(F32, 6, 5),)),
    Sample(Slice((1,), (_I64_MAX,), (0,), (2,)), (arg(F32, symbol("N"), 2),)),
    Sample(Slice((-2,), (_I64_MAX,), (0,), (1,)), (arg(F32, symbol("N"), 2),)),
    Sample(Slice((0,), (-1,), (0,), (1,)), (arg(F32, symbol("N"), 2),)),
    Sample(Slice((-1,), (-_I64_MAX - 1,), (0,), (-1,)), (arg(F32, symbol("N"), 2),)),
    Sample(Slice((2,), (4,), (0,), (1,)), (arg(F32, symbol("N"), 2),)),
    Sample(Slice((-3,), (-1,), (0,), (1,)), (arg(F32, symbol("N"), 2),)),
    Sample(
        Slice(),
        (arg(I64, 4, values=(5, 6, 7, 8)), _ONE, arg(I64, 1, values=(3,)), None, _ONE),
    ),
    Sample(Slice(), (arg(F32, 4), _ONE, _ONE, _ONE, arg(F32, 1)), "the vector of steps is f32"),
    Sample(Slice((0,), (1,), (2,), (1,)), (arg(F32, 4, 5),), "axis 2 is out of range"),
    Sample(Slice((0,), (1,), (0,), (0,)), (arg(F32, 4, 5),), "the step along axis 0 is 0"),
    Sample(Slice((0, 0), (1, 1), (0, -2), (1, 1)), (arg(F32, 4, 5),), "sliced twice"),
    Sample(Slice((0, 0), (1,), (0,), (1,)), (arg(F32, 4, 5),), "2 starts, 1 ends"),
)


def _aten_slice(i: AtenImporter) -> Any:
    axis, step = i.attr("dim", 0), i.attr("step", 1)
    start, end = i.attr("start", 0), i.attr("end", _END)
    return i.emit(Slice((start,), (end,), (axis,), (_bounded(step),)), i.input(0))


def _aten_select(i: AtenImporter) -> Any:
    axis, index = i.attr("dim"), i.attr("index")
    row = i.emit(Slice((index,), (_END if index == -1 else index + 1,), (axis,), (1,)), i.input(0))
    return i.emit(Squeeze((axis,)), row)


def flipped(i: AtenImporter, x: Value, axes: Sequence[int]) -> Value:
    """``x`` with the order of elements along ``axes`` reversed."""
    if not axes:
        return x
    starts, ends, steps = ((bound,) * len(axes) for bound in (-1, -_END, -1))
    y: Value = i.emit(Slice(starts, ends, tuple(axes), steps), x)
    return y


def _aten_diagonal(i: AtenImporter) -> Any:
    """The diagonal of two axes as the last axis: every (columns + 1)-th element of both axes merged
    into one.
    """
    x, offset = i.input(0), i.attr("offset")
    rank = rank_of(x)
    first, second = i.attr("dim1") % rank, i.attr("dim2") % rank
    rest = [axis for axis in range(rank) if axis not in (first, second)]
    rows, columns = x.type.dims[first], x.type.dims[second]
    count = i.results[0].dims[-1]
    if count == 0:
        return i.emit(ConstantOfShape(0, x.type.dtype, i.results[0].dims))
    start = offset if offset >= 0 else -offset * columns
    flat = i.emit(Transpose((*rest, first, second)), x)
    flat = reshaped(i.builder, flat, (*(x.type.dims[a] for a in rest), rows * columns))
    end = start + (count - 1) * (columns + 1) + 1
    if not isinstance(columns, int):
        raise i.fail("diagonals of a dynamic number of columns are not supported")
    return i.emit(Slice((start,), (end,), (-1,), (columns + 1,)), flat)


_END = 2**62
"""A bound after the end of every axis; its negative is before the beginning."""
Slice.aten = {
    "slice.Tensor": _aten_slice,
    "select.int": _aten_select,
    "flip": lambda i: flipped(i, i.input(0), i.attr("dims")),
    "diagonal": _aten_diagonal,
}

"""ArgMax and ArgMin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import (
    Array,
    AtenImport,
    AtenImporter,
    Fact,
    Import,
    Importer,
    Inference,
    Op,
    Sample,
    arg,
    family,
    op,
)
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import maximum, product, symbol
from graphwright.ir.types import BOOL, F16, F32, I32, I64, STRING, U8, TensorType
from graphwright.ops.core.binary import Or
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.checks import NUMBERS, need_dtype, rank_of
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.range import Range
from graphwright.ops.core.reductions import ReduceMax, ReduceMin, Reduction, reduced_shape
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.unary import IsNaN
from graphwright.ops.core.where import Where


@family
class ArgReduce(Op):
    """Base class of ArgMax and ArgMin. If an axis contains NaN, its position is the result, as in NumPy.

    Of equal elements the first one counts, with ``last`` the last one. The result is i64. An empty axis is an
    error, unless the result has no elements.
    """

    axis: int = 0
    keepdims: bool = True
    last: bool = False
    function: ClassVar[Callable[..., Any]]
    extremum: ClassVar[type[Reduction]]

    def infer(self, at: Inference, x: Fact) -> TensorType:
        need_dtype(at, x, NUMBERS)
        if not x.rank:
            return TensorType(I64, ())
        axis = at.axis(self.axis, x.rank)
        others = product([dim for k, dim in enumerate(x.shape) if k != axis])
        if others != 0:  # the axis may be empty if the result has no elements
            size = x.shape[axis] if isinstance(others, int) else maximum(x.shape[axis], 1 - others)
            at.at_least(size, 1, f"axis {axis}")
        return TensorType(I64, reduced_shape(x.shape, (axis,), self.keepdims))

    def reference(self, x: Array) -> Array:
        if not x.ndim:
            return np.zeros((), np.int64)
        function = type(self).function
        shape = reduced_shape(x.shape, (self.axis % x.ndim,), self.keepdims)
        if 0 in shape:
            return np.zeros(shape, np.int64)
        if not self.last:
            return np.asarray(function(x, axis=self.axis, keepdims=self.keepdims), np.int64)
        from_end = function(np.flip(x, self.axis), axis=self.axis, keepdims=self.keepdims)
        return np.asarray(x.shape[self.axis] - 1 - from_end, np.int64)

    def decompose(self, b: Builder, x: Value) -> Value:
        """Reduces the axis to its extremum, then finds the smallest (or largest) position that equals it."""
        rank = rank_of(x)
        if not rank:
            return b.const(np.zeros((), np.int64))
        axis = self.axis % rank
        hit = b(Equal(), x, b(self.extremum((axis,)), x))
        if x.type.dtype.is_float:
            hit = b(Or(), hit, b(IsNaN(), x))  # if the extremum is NaN, no element equals it
        size = x.type.dims[axis]
        most = np.iinfo(np.int32).max
        dtype = I32 if isinstance(size, int) and size <= most else I64  # i32 vectors hold twice as many
        positions = reshaped(b, b(Range((0, size, 1), dtype)), (size, *(1,) * (rank - axis - 1)))
        none = b.const(-1 if self.last else most if dtype == I32 else np.iinfo(np.int64).max, dtype)
        fold = (ReduceMax if self.last else ReduceMin)((axis,), self.keepdims)
        found = b(fold, b(Where(), hit, positions, none))
        result: Value = found if dtype == I64 else b(Cast(I64), found)
        return result


@op("ArgMax")
class ArgMax(ArgReduce):
    """The position of the largest element along ``axis``: the first one, or with ``last`` the last one."""

    function = staticmethod(np.argmax)
    extremum = ReduceMax


@op("ArgMin")
class ArgMin(ArgReduce):
    """The position of the smallest element along ``axis``: the first one, or with ``last`` the last one."""

    function = staticmethod(np.argmin)
    extremum = ReduceMin


def _import(cls: type[ArgReduce]) -> Import:
    def convert(i: Importer) -> Any:
        last = bool(i.attr("select_last_index", 0))
        return i.emit(cls(int(i.attr("axis", 0)), bool(i.attr("keepdims", 1)), last), i.input(0))

    return convert


_N = symbol("N")
for _cls in (ArgMax, ArgMin):
    _cls.onnx = {(_cls.name, 1): _import(_cls), (_cls.name, 12): _import(_cls)}
    _cls.to_onnx = as_onnx(_cls.name, axis="axis", keepdims="keepdims", select_last_index="last")
    _cls.samples = (
        *(Sample(_cls(1), (arg(t, 3, 5),)) for t in (F32, F16, I32)),
        Sample(_cls(-1, keepdims=False), (arg(F32, 3, 4, 5),)),
        Sample(_cls(0, keepdims=False, last=True), (arg(I32, 6, 4, fill="index"),)),
        Sample(_cls(1, last=True), (arg(F32, 2, 4, 1),)),
        Sample(_cls(0, keepdims=False), (arg(F32, 4, _N),)),
        Sample(_cls(1), (arg(F32, 0, 3),)),
        Sample(_cls(), (arg(F32),)),
        Sample(_cls(0), (arg(F32, 0, 3),), "axis 0: 0 is less than 1"),
        Sample(_cls(2), (arg(F32, 2, 3),), "axis 2 is out of range for rank 2"),
        Sample(_cls(), (arg(STRING, 2),), "the input is string"),
    )


def _aten_arg(cls: type[ArgReduce]) -> AtenImport:
    """``argmax`` or ``argmin``. Without ``dim``, the result is the position in the flattened tensor."""

    def convert(i: AtenImporter) -> Any:
        x, axis, keepdim = i.input(0), i.attr("dim"), bool(i.attr("keepdim"))
        if axis is not None or not rank_of(x):
            return i.emit(cls(axis or 0, keepdim), x)
        position = i.emit(cls(0, keepdims=False), reshaped(i.builder, x, (x.type.elements,)))
        return reshaped(i.builder, position, i.results[0].dims)

    return convert


def _aten_with_indices(cls: type[ArgReduce]) -> AtenImport:
    """``max.dim`` or ``min.dim``: the extreme elements along ``dim``, and the first position of each."""

    def convert(i: AtenImporter) -> Any:
        x, axis, keepdim = i.input(0), i.attr("dim"), bool(i.attr("keepdim"))
        if not rank_of(x):
            return x, i.const(np.zeros((), np.int64))
        numbers = i.emit(Cast(U8), x) if x.type.dtype == BOOL else x
        return i.emit(cls.extremum((axis,), keepdim), x), i.emit(cls(axis, keepdim), numbers)

    return convert


ArgMax.aten = {"argmax": _aten_arg(ArgMax), "max.dim": _aten_with_indices(ArgMax)}
ArgMin.aten = {"argmin": _aten_arg(ArgMin), "min.dim": _aten_with_indices(ArgMin)}

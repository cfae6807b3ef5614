"""Softmax, LogSoftmax and Hardmax."""

from __future__ import annotations

from typing import Any

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
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.symbols import product, symbol
from graphwright.ir.types import F16, F32, F64, I32, TensorType
from graphwright.ops.core.arg_reduce import ArgMax
from graphwright.ops.core.binary import Sub
from graphwright.ops.core.cast import Cast, as_dtype, in_f32
from graphwright.ops.core.checks import FLOATS, need_dtype, rank_of
from graphwright.ops.core.div import Div
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.exp import Exp
from graphwright.ops.core.range import Range
from graphwright.ops.core.reductions import ReduceMax, ReduceSum
from graphwright.ops.core.references import like, quiet, widened
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.unary import Log


@family
class Normalized(Op):
    """Base class of Softmax, LogSoftmax and Hardmax: over ``axis``, or with ``flat`` over ``axis`` and all
    later axes together, as in ONNX before opset 13.
    """

    axis: int = -1
    flat: bool = False

    def infer(self, at: Inference, x: Fact) -> TensorType:
        need_dtype(at, x, FLOATS)
        if x.type.shape is not None:
            at.axis(self.axis, x.rank)
        return x.type

    def axes(self, rank: int) -> tuple[int, ...]:
        """The axes over which it normalizes, non-negative; none for a scalar."""
        axis = self.axis % max(rank, 1)
        return tuple(range(axis, rank if self.flat else min(axis + 1, rank)))


def _shifted(x: Array, axes: tuple[int, ...]) -> Array:
    """``x`` minus its maximum, so that exp does not overflow; 16-bit floats are converted to f32."""
    wide = widened(x)
    return np.asarray(wide - np.maximum.reduce(wide, axis=axes, keepdims=True, initial=-np.inf))


def _shift(b: Builder, x: Value, axes: tuple[int, ...]) -> Any:
    """:func:`_shifted` as nodes."""
    wide = in_f32(b, x)
    return b(Sub(), wide, b(ReduceMax(axes), wide))


@op("Softmax")
class Softmax(Normalized):
    """``exp(x) / sum(exp(x))`` over ``axis``, with ``flat`` over all later axes too."""

    @quiet
    def reference(self, x: Array) -> Array:
        axes = self.axes(x.ndim)
        powers = np.exp(_shifted(x, axes))
        return like(powers / np.add.reduce(powers, axis=axes, keepdims=True), x)

    def decompose(self, b: Builder, x: Value) -> Value:
        axes = self.axes(rank_of(x))
        powers = b(Exp(nonpositive=True), _shift(b, x, axes))
        return as_dtype(b, b(Div(by_sum=True), powers, b(ReduceSum(axes), powers)), x.type.dtype)


@op("LogSoftmax")
class LogSoftmax(Normalized):
    """``x - log(sum(exp(x)))`` over ``axis``, with ``flat`` over all later axes too."""

    @quiet
    def reference(self, x: Array) -> Array:
        axes = self.axes(x.ndim)
        shifted = _shifted(x, axes)
        return like(shifted - np.log(np.add.reduce(np.exp(shifted), axis=axes, keepdims=True)), x)

    def decompose(self, b: Builder, x: Value) -> Value:
        axes = self.axes(rank_of(x))
        shifted = _shift(b, x, axes)
        total = b(ReduceSum(axes), b(Exp(nonpositive=True), shifted))
        return as_dtype(b, b(Sub(), shifted, b(Log(), total)), x.type.dtype)


@op("Hardmax")
class Hardmax(Normalized):
    """1 at the first maximum along ``axis``, or with ``flat`` along it and all later axes; 0 elsewhere."""

    def reference(self, x: Array) -> Array:
        axes = self.axes(x.ndim)
        if not axes or not x.size:
            return np.ones_like(x)
        rows = x.reshape((*x.shape[: axes[0]], -1, *x.shape[axes[-1] + 1 :]))
        result = np.zeros_like(rows)
        first = np.argmax(rows, axis=axes[0], keepdims=True)
        np.put_along_axis(result, first, np.ones((), x.dtype), axis=axes[0])
        return result.reshape(x.shape)

    def decompose(self, b: Builder, x: Value) -> Value:
        shape, axes = x.type.dims, self.axes(rank_of(x))
        if not axes:
            return b.const(np.ones((), x.type.dtype.numpy))
        if any(shape[a] == 0 for a in axes):
            return x
        size, later = product([shape[a] for a in axes]), shape[axes[-1] + 1 :]
        rows = reshaped(b, x, (*shape[: axes[0]], size, *later))
        positions = reshaped(b, b(Range((0, size, 1))), (size, *(1,) * len(later)))
        ones = b(Cast(x.type.dtype), b(Equal(), ArgMax(axes[0]).decompose(b, rows), positions))
        return reshaped(b, ones, shape)


def _export(e: Exporter, op: Normalized, x: Value) -> Any:
    """``flat`` is exported as Flatten, the op over rows, and Reshape."""
    if not op.flat:
        return e.emit(op.name, x, axis=op.axis)
    rows = e.emit(op.name, e.emit("Flatten", x, axis=op.axis), axis=1)
    return e.emit("Reshape", rows, e.emit("Shape", x), allowzero=1)


def _import(cls: type[Normalized], flat: bool) -> Import:
    default = 1 if flat else -1

    def convert(i: Importer) -> Any:
        axis = int(i.attr("axis", default))
        x = i.input(0)
        last = x.type.shape is not None and axis in (-1, len(x.type.shape) - 1)
        return i.emit(cls(axis, flat and not last), x)

    return convert


_N, _M = symbol("N"), symbol("M")
for _cls in (Softmax, LogSoftmax, Hardmax):
    _cls.onnx = {(_cls.name, 1): _import(_cls, flat=True), (_cls.name, 13): _import(_cls, flat=False)}
    _cls.to_onnx = _export
    _cls.samples = (
        *(Sample(_cls(), (arg(t, 3, 7),)) for t in (F32, F64, F16)),
        Sample(_cls(1), (arg(F32, 2, 5, 3),)),
        Sample(_cls(1, flat=True), (arg(F32, 2, 5, 3),)),
        Sample(_cls(-2, flat=True), (arg(F32, 2, 5, 3),)),
        Sample(_cls(1, flat=True), (arg(F32, 2, 0, 3),)),
        Sample(_cls(), (arg(F32, _N, _M),)),
        Sample(_cls(), (arg(F32, 2, 4, values=(1e30, 1e30, -1e30, 0, 90, 89, 90, -90)),)),
        Sample(_cls(), (arg(F32, 0, 3),)),
        Sample(_cls(), (arg(F32, 3, 0),)),
        Sample(_cls(0), (arg(F32, 1),)),
        Sample(_cls(2), (arg(F32, 2, 3),), "axis 2 is out of range for rank 2"),
        Sample(_cls(), (arg(I32, 2),), "the input is i32"),
    )


def _aten_normalized(cls: type[Normalized]) -> AtenImport:
    def convert(i: AtenImporter) -> Any:
        i.ignore("half_to_float")
        x = i.result(i.input(0))
        return i.emit(cls(i.attr("dim")), x) if rank_of(x) else i.emit(cls(0), x)

    return convert


Softmax.aten = {"_softmax": _aten_normalized(Softmax)}
LogSoftmax.aten = {"_log_softmax": _aten_normalized(LogSoftmax)}

"""LayerNormalization and RMSNormalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import (
    Array,
    AtenImporter,
    Fact,
    Importer,
    Inference,
    OnnxImporter,
    Op,
    Sample,
    arg,
    op,
)
from graphwright.ir.op.exporter import Exporter, as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import BF16, F16, F32, F64, I32, DType, TensorType
from graphwright.ops.core.binary import Add, Mul
from graphwright.ops.core.cast import Cast, as_dtype, in_f32
from graphwright.ops.core.checks import FLOATS, need_broadcast, need_dtype, rank_of
from graphwright.ops.core.div import Div
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.reductions import ReduceMean
from graphwright.ops.core.references import like, mean_over, quiet, widened
from graphwright.ops.core.unary import Reciprocal, Sqrt
from graphwright.ops.nn.normalization import standardize, standardized


@op("LayerNormalization")
class LayerNormalization(Op):
    """Normalizes ``x`` over ``axis`` and all later axes to mean 0 and variance 1, multiplies it by ``scale``
    and adds the optional ``bias`` (Ba et al. 2016).

    Scale and bias are broadcast to ``x``. 16-bit floats are normalized in f32. With ``statistics`` the
    outputs are y, mean and ``1 / sqrt(variance + epsilon)``.
    """

    axis: int = -1
    epsilon: float = 1e-5
    statistics: bool = False
    optional_inputs = frozenset({2})

    def output_count(self) -> int:
        return 3 if self.statistics else 1

    def infer(
        self, at: Inference, x: Fact, scale: Fact, bias: Fact | None = None
    ) -> TensorType | tuple[TensorType, ...]:
        need_dtype(at, x, FLOATS)
        axis = at.axis(self.axis, x.rank)
        for parameter, what in ((scale, "the scale"), (bias, "the bias")):
            if parameter is not None:
                need_dtype(at, parameter, {x.dtype}, what)
                need_broadcast(at, parameter, x.shape, what)
        if not self.statistics:
            return x.type
        kept = TensorType(x.dtype.computed, (*x.shape[:axis], *[1] * (x.rank - axis)))
        return x.type, kept, kept

    @quiet
    def reference(self, x: Array, scale: Array, bias: Array | None = None) -> Array | tuple[Array, ...]:
        normal, mean, inverse = standardize(widened(x), _trailing(self.axis, x.ndim), self.epsilon)
        scaled = like(normal, x) * scale
        y = like(scaled if bias is None else scaled + bias, x)
        return (y, mean, inverse) if self.statistics else y

    def decompose(self, b: Builder, x: Value, scale: Value, bias: Value | None = None) -> Any:
        axes = _trailing(self.axis, rank_of(x))
        normal, mean, inverse = standardized(b, in_f32(b, x), axes, self.epsilon)
        y = b(Mul(), as_dtype(b, normal, x.type.dtype), scale)
        if bias is not None:
            y = b(Add(), y, bias)
        return (y, mean, inverse) if self.statistics else y


@op("RMSNormalization")
class RMSNormalization(Op):
    """``x / sqrt(mean(x * x) + epsilon) * scale``, with the mean over ``axis`` and all later axes (Zhang and
    Sennrich 2019).

    The scale is broadcast to ``x``. 16-bit floats are normalized in f32. The output has the dtype of
    ``scale``.
    """

    axis: int = -1
    epsilon: float = 1e-5

    def infer(self, at: Inference, x: Fact, scale: Fact) -> TensorType:
        need_dtype(at, x, FLOATS)
        need_dtype(at, scale, FLOATS, "the scale")
        at.axis(self.axis, x.rank)
        need_broadcast(at, scale, x.shape, "the scale")
        return TensorType(scale.dtype, x.shape)

    @quiet
    def reference(self, x: Array, scale: Array) -> Array:
        wide = widened(x)
        square = mean_over(wide * wide, _trailing(self.axis, x.ndim))
        normal = wide / np.sqrt(square + wide.dtype.type(self.epsilon))
        return like(like(like(normal, x), scale) * scale, scale)

    def decompose(self, b: Builder, x: Value, scale: Value) -> Value:
        wide = in_f32(b, x)
        square = b(ReduceMean(_trailing(self.axis, rank_of(x))), b(Mul(), wide, wide))
        root = b(Sqrt(), b(Add(), square, b.const(self.epsilon, wide.type.dtype)))
        normal = as_dtype(b, b(Div(), wide, root), x.type.dtype)
        result: Value = b(Mul(), as_dtype(b, normal, scale.type.dtype), scale)
        return result


def _trailing(axis: int, rank: int) -> tuple[int, ...]:
    return tuple(range(axis % max(rank, 1), rank))


_STASHED = {1: F32, 10: F16, 11: F64, 16: BF16}
"""The supported values of ``stash_type``, as ONNX's ``TensorProto.DataType``. It is the dtype in which ONNX
normalizes; 16-bit floats are normalized in f32 all the same.
"""


def _stashed(i: Importer) -> DType:
    given = i.attr("stash_type", 1)
    if given not in _STASHED:
        choice = ", ".join(f"{number} ({dtype})" for number, dtype in _STASHED.items())
        raise i.fail(f"stash_type is {given}; it must be one of {choice}")
    return _STASHED[given]


def _import_layer(i: OnnxImporter) -> Any:
    op = LayerNormalization(int(i.attr("axis", -1)), float(i.attr("epsilon", 1e-5)), i.output_count > 1)
    dtype = BF16 if _stashed(i) == BF16 else F32
    results = i.emit(op, *i.inputs())
    if not op.statistics:
        return results
    y, *statistics = results
    return (y, *(s if s.type.dtype == dtype else i.emit(Cast(dtype), s) for s in statistics))


def _import_rms(i: Importer) -> Any:
    _stashed(i)
    return i.emit(RMSNormalization(int(i.attr("axis", -1)), float(i.attr("epsilon", 1e-5))), *i.inputs())


LayerNormalization.onnx = {("LayerNormalization", 17): _import_layer}
LayerNormalization.to_onnx = as_onnx(
    "LayerNormalization", outputs="statistics", axis="axis", epsilon="epsilon"
)


def _export_rms(e: Exporter, op: RMSNormalization, x: Value, scale: Value) -> Any:
    """Exports as Pow, ReduceMean, Sqrt, Div and Mul before opset 23, which introduced RMSNormalization."""
    if e.source_opset >= 23:
        return e.emit("RMSNormalization", x, scale, since=23, axis=op.axis, epsilon=op.epsilon)
    dtype = x.type.dtype
    wide: Any = x if dtype.bits >= 32 else e.cast(x, F32)
    number = (F32 if dtype.bits < 32 else dtype).numpy
    axes = tuple(range(op.axis if op.axis < 0 else op.axis - rank_of(x), 0))
    square = e.emit("Pow", wide, e.const(np.array(2, number)))
    mean = e.emit("ReduceMean", square, e.sizes(axes))
    root = e.emit("Sqrt", e.emit("Add", mean, e.const(np.array(op.epsilon, number))))
    normal = e.emit("Div", wide, root)
    rounded = normal if dtype.bits >= 32 else e.cast(normal, dtype)
    return e.emit("Mul", rounded if dtype == scale.type.dtype else e.cast(rounded, scale.type.dtype), scale)


RMSNormalization.to_onnx = _export_rms
RMSNormalization.onnx = {("RMSNormalization", 23): _import_rms}
_N, _H = symbol("N"), symbol("H")
LayerNormalization.samples = (
    *(Sample(LayerNormalization(), (arg(t, 3, 8), arg(t, 8), arg(t, 8))) for t in (F32, F64, F16, BF16)),
    Sample(LayerNormalization(-1, 1e-2), (arg(F32, 2, 3, 8), arg(F32, 8))),
    Sample(LayerNormalization(1, statistics=True), (arg(F32, 2, 3, 8), arg(F32, 3, 8), arg(F32, 3, 8))),
    Sample(LayerNormalization(statistics=True), (arg(F16, 2, 8), arg(F16, 8))),
    Sample(LayerNormalization(), (arg(F32, _N, _H), arg(F32, _H), arg(F32, 1))),
    Sample(LayerNormalization(), (arg(F32, 0, 4), arg(F32, 4))),
    Sample(LayerNormalization(), (arg(F32, 2, 4), arg(F32, 3)), "a size of the scale: 3 and 4 differ"),
    Sample(
        LayerNormalization(),
        (arg(F32, 4), arg(F32, 2, 4)),
        "the scale has 2 axes and cannot broadcast to 1 axes",
    ),
    Sample(LayerNormalization(2), (arg(F32, 2, 4), arg(F32, 4)), "axis 2 is out of range"),
    Sample(LayerNormalization(), (arg(F32, 2, 4), arg(F32, 4), arg(F64, 4)), "the bias is f64"),
    Sample(LayerNormalization(), (arg(I32, 2, 4), arg(I32, 4)), "the input is i32"),
)
RMSNormalization.samples = (
    *(Sample(RMSNormalization(), (arg(t, 3, 8), arg(t, 8))) for t in (F32, F64, F16)),
    Sample(RMSNormalization(1, 1e-2), (arg(F32, 2, 3, 8), arg(F32, 3, 8))),
    Sample(RMSNormalization(), (arg(F16, 2, 8), arg(F32, 8))),
    Sample(RMSNormalization(), (arg(F32, _N, _H), arg(F32, _H))),
    Sample(RMSNormalization(), (arg(F32, 2, 4), arg(F32, 3)), "3 and 4 differ"),
)


def _aten_layer_norm(i: AtenImporter) -> Any:
    """The result, mean and inverse deviation, computed in the dtype of scale and bias: under autocast, they
    are f32 and the input is a 16-bit float.
    """
    shape, scale, bias = i.attr("normalized_shape"), i.optional(2), i.optional(3)
    given = next((each for each in (scale, bias) if each is not None), i.input(0))
    dtype = given.type.dtype
    scale = scale or i.emit(Expand(tuple(shape)), i.const(np.ones((), dtype.numpy)))
    x = as_dtype(i.builder, i.input(0), dtype)
    results = i.emit(LayerNormalization(-len(shape), i.attr("eps"), statistics=True), x, scale, bias)
    dtypes = (type.dtype for type in i.results)
    return tuple(as_dtype(i.builder, value, dtype) for value, dtype in zip(results, dtypes, strict=True))


def _aten_rms_norm(i: AtenImporter) -> Any:
    """The result, and ``1 / sqrt(mean(x * x) + epsilon)``."""
    shape, epsilon = i.attr("normalized_shape"), i.attr("eps")
    x, dtype = i.input(0), i.input(0).type.dtype
    epsilon = float(np.finfo(dtype.numpy).eps) if epsilon is None else epsilon
    axes = tuple(range(-len(shape), 0))
    scale = i.optional(2) or i.emit(Expand(tuple(shape)), i.const(np.ones((), dtype.numpy)))
    y = i.emit(RMSNormalization(-len(shape), epsilon), x, scale)
    wide = in_f32(i.builder, x)
    square = i.emit(ReduceMean(axes), i.emit(Mul(), wide, wide))
    root = i.emit(Sqrt(), i.emit(Add(), square, i.builder.const(epsilon, wide.type.dtype)))
    return y, i.emit(Reciprocal(), root)


LayerNormalization.aten = {"native_layer_norm": _aten_layer_norm}
RMSNormalization.aten = {"_fused_rms_norm": _aten_rms_norm}

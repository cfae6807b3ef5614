"""BatchNormalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import (
    Array,
    AtenImporter,
    Fact,
    Inference,
    OnnxImporter,
    Op,
    Sample,
    arg,
    op,
)
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F16, F32, F64, I32, TensorType
from graphwright.ops.core.binary import Add, Mul, Sub
from graphwright.ops.core.cast import as_dtype, in_f32
from graphwright.ops.core.checks import FLOATS, need_dtype, rank_of
from graphwright.ops.core.div import Div
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.ranked_import import defer
from graphwright.ops.core.reductions import ReduceMean
from graphwright.ops.core.references import like, quiet, widened
from graphwright.ops.core.unary import Reciprocal, Sqrt
from graphwright.ops.nn.normalization import along_channels, channels, need_channels


@op("BatchNormalization")
class BatchNormalization(Op):
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias`` per channel (axis 1) (Ioffe and Szegedy 2015).

    Inputs: ``x[N, C, ...]``, then scale, bias, mean and variance, each ``[C]``.
    """

    epsilon: float = 1e-5

    def infer(
        self, at: Inference, x: Fact, scale: Fact, bias: Fact, mean: Fact, variance: Fact
    ) -> TensorType:
        need_channels(at, x, scale, bias, mean, variance)
        for parameter in (scale, bias, mean, variance):
            need_dtype(at, parameter, FLOATS, "a parameter")
        return x.type

    @quiet
    def affine(self, scale: Array, bias: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
        """The factor and the shift of each channel, in float64."""
        scale, bias, mean, variance = (part.astype(np.float64) for part in (scale, bias, mean, variance))
        factor = scale / np.sqrt(variance + self.epsilon)
        return factor, bias - mean * factor

    @quiet
    def reference(self, x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> Array:
        wide, parts = widened(x), [channels(p, x.ndim) for p in (scale, bias, mean, variance)]
        scale, bias, mean, variance = (part.astype(wide.dtype) for part in parts)
        return like((wide - mean) / np.sqrt(variance + wide.dtype.type(self.epsilon)) * scale + bias, x)

    def decompose(
        self, b: Builder, x: Value, scale: Value, bias: Value, mean: Value, variance: Value
    ) -> Value:
        """``x * factor + shift``, with one factor and shift per channel, which are folded if they are
        constant.
        """
        wide = in_f32(b, x)
        dtype = wide.type.dtype
        scale, bias, mean, variance = (as_dtype(b, p, dtype) for p in (scale, bias, mean, variance))
        factor = b(Mul(), scale, b(Reciprocal(), b(Sqrt(), b(Add(), variance, b.const(self.epsilon, dtype)))))
        shift = b(Sub(), bias, b(Mul(), mean, factor))
        rank = rank_of(x)
        scaled = b(Mul(), wide, along_channels(b, factor, rank))
        return as_dtype(b, b(Add(), scaled, along_channels(b, shift, rank)), x.type.dtype)


def _import_14(i: OnnxImporter) -> Any:
    if i.attr("training_mode", 0):
        return _training(i)[: max(i.output_count, 1)]
    if i.output_count > 1:
        raise i.fail(f"it has {i.output_count} outputs; without training_mode=1 it has one")
    return _inference(i)


def _import_7(i: OnnxImporter) -> Any:
    """A node with several outputs is in training mode: the running mean and variance, then those of the
    batch.
    """
    if not i.attr("spatial", 1):
        return _per_element(i)
    return _training(i)[: i.output_count] if i.output_count > 1 else _inference(i)


def _import_1(i: OnnxImporter) -> Any:
    return _import_7(i) if i.attr("is_test", 0) or i.output_count > 1 else _training(i)[0]


def _inference(i: OnnxImporter) -> Any:
    return i.emit(BatchNormalization(float(i.attr("epsilon", 1e-5))), *i.inputs())


def _per_element(i: OnnxImporter) -> Any:
    """``spatial=0`` of opsets before 9: the parameters are [C, D...], one for each element of a
    batch entry.
    """
    if i.output_count > 1:
        raise i.fail(f"{i.output_count} outputs with spatial=0 are not supported; only the first one is")
    x, scale, bias, mean, variance = (i.input(k) for k in range(5))
    epsilon = i.const(np.asarray(i.attr("epsilon", 1e-5), variance.type.dtype.numpy))
    deviation = i.emit(Sqrt(), i.emit(Add(), variance, epsilon))
    factor = i.emit(Div(), scale, deviation)
    return i.emit(Add(), i.emit(Mul(), i.emit(Sub(), x, mean), factor), bias)


def _training(i: OnnxImporter) -> tuple[Any, ...]:
    """Training mode: the result, normalized by the mean and variance of the batch; the updated running mean
    and variance; the mean and variance of the batch.
    """
    x, scale, bias, *running = (i.input(k) for k in range(5))
    if x.type.rank is None:
        return defer(i)
    axes = tuple(axis for axis in range(x.type.rank) if axis != 1)
    wide = in_f32(i.builder, x)
    deviation = i.emit(Sub(), wide, i.emit(ReduceMean(axes), wide))
    mean, variance = (
        as_dtype(i.builder, i.emit(ReduceMean(axes, keepdims=False), part), running[0].type.dtype)
        for part in (wide, i.emit(Mul(), deviation, deviation))
    )
    momentum = float(i.attr("momentum", 0.9))
    old, new = (i.const(np.asarray(m, mean.type.dtype.numpy)) for m in (momentum, 1 - momentum))
    updated = (
        i.emit(Add(), i.emit(Mul(), before, old), i.emit(Mul(), now, new))
        for before, now in zip(running, (mean, variance), strict=True)
    )
    op = BatchNormalization(float(i.attr("epsilon", 1e-5)))
    return i.emit(op, x, scale, bias, mean, variance), *updated, mean, variance


BatchNormalization.onnx = {
    ("BatchNormalization", 1): _import_1,
    ("BatchNormalization", 7): _import_7,
    ("BatchNormalization", 14): _import_14,
}
BatchNormalization.to_onnx = as_onnx("BatchNormalization", epsilon="epsilon")


def _parameters(dtype: Any, *shape: Any) -> tuple[Any, ...]:
    return (*(arg(dtype, *shape) for _ in range(3)), arg(dtype, *shape, fill="positive"))


BatchNormalization.samples = (
    *(Sample(BatchNormalization(), (arg(t, 2, 3, 4, 5), *_parameters(t, 3))) for t in (F32, F64, F16)),
    Sample(BatchNormalization(1e-2), (arg(F32, 4, 3), *_parameters(F32, 3))),
    Sample(BatchNormalization(), (arg(F16, 4, 3, 2), *_parameters(F32, 3))),
    Sample(BatchNormalization(), (arg(F32, symbol("N"), 3, symbol("H"), 4), *_parameters(F32, 3))),
    Sample(BatchNormalization(), (arg(F32, 4, 3), *_parameters(F32, 4)), "4 and 3 differ"),
    Sample(BatchNormalization(), (arg(F32, 4, 3), *_parameters(F32, 3, 1)), "must be a vector"),
    Sample(BatchNormalization(), (arg(F32, 4), *_parameters(F32, 4)), "needs a batch axis"),
    Sample(BatchNormalization(), (arg(I32, 4, 3), *_parameters(F32, 3)), "the input is i32"),
)


def _aten_batch_norm(i: AtenImporter) -> Any:
    """Batch normalization with running statistics; outputs 1 and 2 are empty, as in PyTorch."""
    i.ignore("momentum", "training", "cudnn_enabled")
    x = i.input(0)
    dtype = i.input(3).type.dtype
    count = i.input(3).type.dims
    scale, bias = i.optional(1), i.optional(2)
    scale = scale or i.emit(Expand(count), i.const(np.ones(1, dtype.numpy)))
    bias = bias or i.emit(Expand(count), i.const(np.zeros(1, dtype.numpy)))
    y = i.emit(BatchNormalization(i.attr("eps")), x, scale, bias, i.input(3), i.input(4))
    none = i.const(np.zeros(0, dtype.numpy))
    return y, none, none


BatchNormalization.aten = {"_native_batch_norm_legit_no_training": _aten_batch_norm}

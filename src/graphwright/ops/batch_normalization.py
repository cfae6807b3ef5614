"""BatchNormalization, as it is when a model is run."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F16, F32, F64, I32, TensorType
from graphwright.ops.binary import Add, Mul, Sub
from graphwright.ops.cast import as_dtype, in_f32
from graphwright.ops.common import FLOATS, like, need_dtype, quiet, rank_of, widened
from graphwright.ops.normalization import along_channels, channels, need_channels
from graphwright.ops.unary import Reciprocal, Sqrt


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
    def reference(self, x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> Array:
        wide, parts = widened(x), [channels(p, x.ndim) for p in (scale, bias, mean, variance)]
        factor, shift, centre, spread = (part.astype(wide.dtype) for part in parts)
        return like((wide - centre) / np.sqrt(spread + wide.dtype.type(self.epsilon)) * factor + shift, x)

    def decompose(
        self, b: Builder, x: Value, scale: Value, bias: Value, mean: Value, variance: Value
    ) -> Value:
        """One product and one sum per element, with vectors that fold where the parameters are constant."""
        wide = in_f32(b, x)
        dtype = wide.type.dtype
        scale, bias, mean, variance = (as_dtype(b, p, dtype) for p in (scale, bias, mean, variance))
        factor = b(Mul(), scale, b(Reciprocal(), b(Sqrt(), b(Add(), variance, b.const(self.epsilon, dtype)))))
        shift = b(Sub(), bias, b(Mul(), mean, factor))
        rank = rank_of(x)
        scaled = b(Mul(), wide, along_channels(b, factor, rank))
        return as_dtype(b, b(Add(), scaled, along_channels(b, shift, rank)), x.type.dtype)


def _import(i: Importer) -> Any:
    hint = "export the model in evaluation mode"
    if i.attr("training_mode", 0):
        raise i.fail("training_mode is set", hint=hint)
    if not i.attr("spatial", 1):
        raise i.fail("spatial is 0", hint="export the model with opset 9 or later")
    if i.output_count > 1:
        raise i.fail(f"{i.output_count} outputs: all but the first are for training", hint=hint)
    return i.emit(BatchNormalization(float(i.attr("epsilon", 1e-5))), *i.inputs())


BatchNormalization.onnx = {
    ("BatchNormalization", 7): _import,
    ("BatchNormalization", 9): _import,
    ("BatchNormalization", 14): _import,
}


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

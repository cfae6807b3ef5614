"""MeanVarianceNormalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.types import F16, F32, F64, I32, TensorType
from graphwright.ops.core.binary import Add, Mul, Sub
from graphwright.ops.core.cast import as_dtype, in_f32
from graphwright.ops.core.checks import FLOATS, need_dtype, rank_of, resolve_axes
from graphwright.ops.core.div import Div
from graphwright.ops.core.reductions import ReduceMean
from graphwright.ops.core.references import like, mean_over, positive_axes, quiet, widened
from graphwright.ops.core.unary import Sqrt

EPSILON = 1e-9
"""The number that ONNX's function body adds to the standard deviation."""


@op("MeanVarianceNormalization")
class MeanVarianceNormalization(Op):
    """``(x - mean) / (standard deviation + 1e-9)``, with mean and standard deviation over ``axes``."""

    axes: tuple[int, ...] = (0, 2, 3)

    def infer(self, at: Inference, x: Fact) -> TensorType:
        need_dtype(at, x, FLOATS)
        if x.type.shape is not None:
            resolve_axes(at, self.axes, x.rank)
        return x.type

    @quiet
    def reference(self, x: Array) -> Array:
        wide, axes = widened(x), positive_axes(self.axes, x.ndim)
        centered = wide - mean_over(wide, axes)
        deviation = np.sqrt(mean_over(centered * centered, axes))
        return like(centered / (deviation + wide.dtype.type(EPSILON)), x)

    def decompose(self, b: Builder, x: Value) -> Value:
        wide = in_f32(b, x)
        reduce = ReduceMean(positive_axes(self.axes, rank_of(x)))
        centered = b(Sub(), wide, b(reduce, wide))
        deviation = b(Sqrt(), b(reduce, b(Mul(), centered, centered)))
        result = b(Div(), centered, b(Add(), deviation, b.const(EPSILON, wide.type.dtype)))
        return as_dtype(b, result, x.type.dtype)


def _import(i: Importer) -> Any:
    return i.emit(MeanVarianceNormalization(tuple(i.attr("axes", (0, 2, 3)))), i.input(0))


MeanVarianceNormalization.onnx = {("MeanVarianceNormalization", 9): _import}
MeanVarianceNormalization.to_onnx = as_onnx("MeanVarianceNormalization", axes="axes")
MeanVarianceNormalization.samples = (
    *(Sample(MeanVarianceNormalization(), (arg(t, 2, 3, 4, 5),)) for t in (F32, F64, F16)),
    Sample(MeanVarianceNormalization((-1,)), (arg(F32, 3, 6),)),
    Sample(MeanVarianceNormalization(), (arg(F32, 2, 3),), "axis 2 is out of range for rank 2"),
    Sample(MeanVarianceNormalization((0, -2)), (arg(F32, 2, 3),), "name an axis twice"),
    Sample(MeanVarianceNormalization((0,)), (arg(I32, 2, 3),), "the input is i32"),
)

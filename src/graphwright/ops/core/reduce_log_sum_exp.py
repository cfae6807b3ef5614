"""ReduceLogSumExp."""

from __future__ import annotations

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, op
from graphwright.ir.types import F64
from graphwright.ops.core.binary import Add, Sub
from graphwright.ops.core.cast import as_dtype, in_f32
from graphwright.ops.core.checks import INTEGERS, rank_of
from graphwright.ops.core.exp import Exp
from graphwright.ops.core.is_inf import IsInf
from graphwright.ops.core.reductions import (
    ReduceMax,
    ReduceSum,
    Reduction,
    reduced_shape,
    set_onnx_and_samples,
)
from graphwright.ops.core.references import like, positive_axes, quiet, widened
from graphwright.ops.core.squeeze import Squeeze
from graphwright.ops.core.unary import Log
from graphwright.ops.core.where import Where


@op("ReduceLogSumExp")
class ReduceLogSumExp(Reduction):
    """``log(sum(exp(x)))`` over ``axes``. The maximum is subtracted before ``exp``, so that it does not
    overflow.

    Integers are computed in f64, and the result is truncated.
    """

    @quiet
    def reference(self, x: Array) -> Array:
        axes, wide = positive_axes(self.axes, x.ndim), widened(x)
        wide = wide if wide.dtype.kind == "f" else x.astype(np.float64)
        maximum = np.maximum.reduce(wide, axis=axes, keepdims=True, initial=-np.inf)
        maximum = np.where(np.isinf(maximum), 0, maximum).astype(wide.dtype)
        total = np.add.reduce(np.exp(wide - maximum), axis=axes, keepdims=True)
        result = np.log(total) + maximum
        shape = result.shape if self.keepdims else reduced_shape(x.shape, axes, keepdims=False)
        return like(result, x).reshape(shape)

    def decompose(self, b: Builder, x: Value, axes: Value | None = None) -> Value | None:
        if axes is not None:
            return None
        reduced = self.resolved(rank_of(x))
        wide = as_dtype(b, x, F64) if x.type.dtype in INTEGERS else in_f32(b, x)
        maximum = b(ReduceMax(reduced), wide)
        maximum = b(Where(), b(IsInf(), maximum), b.const(0.0, wide.type.dtype), maximum)
        total = b(ReduceSum(reduced), b(Exp(), b(Sub(), wide, maximum)))
        result = b(Add(), b(Log(), total), maximum)
        if not self.keepdims:
            result = b(Squeeze(reduced), result)
        return as_dtype(b, result, x.type.dtype)


set_onnx_and_samples(ReduceLogSumExp)

"""DynamicQuantizeLinear."""

from __future__ import annotations

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F16, F32, U8, TensorType
from graphwright.ops.core.binary import Sub
from graphwright.ops.core.checks import need_dtype
from graphwright.ops.core.clip import Clip
from graphwright.ops.core.div import Div
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.imports import simple
from graphwright.ops.core.reductions import ReduceMax, ReduceMin
from graphwright.ops.core.references import quiet
from graphwright.ops.core.where import Where
from graphwright.ops.quantized.quantized import into_quantized, quantized

_STEPS = 255
"""The number of steps from the smallest to the largest u8."""


@op("DynamicQuantizeLinear")
class DynamicQuantizeLinear(Op):
    """Quantizes f32 to u8 with a scale and a zero point that it computes from the range of ``x``.

    The range is extended to contain 0. Outputs: y, the scale and the zero point, so that ``(y - zero) *
    scale`` is about ``x``. If all elements are 0, the scale is 1.
    """

    outputs = 3

    def infer(self, at: Inference, x: Fact) -> tuple[TensorType, TensorType, TensorType]:
        need_dtype(at, x, {F32})
        return TensorType(U8, x.type.shape), TensorType(F32, ()), TensorType(U8, ())

    @quiet
    def reference(self, x: Array) -> tuple[Array, Array, Array]:
        high, low = (np.asarray(limit(x, initial=0), x.dtype) for limit in (np.max, np.min))
        step = (high - low) / x.dtype.type(_STEPS)
        scale = np.asarray(step if step != 0 else 1, x.dtype)
        zero = quantized(np.asarray(0 - low / scale), None, U8)
        return quantized(x / scale, zero, U8), scale, zero

    def decompose(self, b: Builder, x: Value) -> tuple[Value, Value, Value]:
        high = b(Clip(low=0.0), b(ReduceMax(None, keepdims=False), x))
        low = b(Clip(high=0.0), b(ReduceMin(None, keepdims=False), x))
        f32_zero, one = b.const(0.0, F32), b.const(1.0, F32)
        step = b(Div(), b(Sub(), high, low), b.const(float(_STEPS), F32))
        scale = b(Where(), b(Equal(), step, f32_zero), one, step)
        zero = into_quantized(b, b(Sub(), f32_zero, b(Div(), low, scale)), None, U8)
        return into_quantized(b, b(Div(), x, scale), zero, U8), scale, zero


DynamicQuantizeLinear.onnx = {("DynamicQuantizeLinear", 11): simple(DynamicQuantizeLinear)}
DynamicQuantizeLinear.to_onnx = as_onnx("DynamicQuantizeLinear")
DynamicQuantizeLinear.samples = (
    Sample(DynamicQuantizeLinear(), (arg(F32, 3, 4),)),
    Sample(DynamicQuantizeLinear(), (arg(F32, 5, fill="positive"),)),
    Sample(DynamicQuantizeLinear(), (arg(F32, symbol("N"), 3),)),
    Sample(DynamicQuantizeLinear(), (arg(F32),)),
    Sample(DynamicQuantizeLinear(), (arg(F32, 3, values=(0, 0, 0)),)),
    Sample(DynamicQuantizeLinear(), (arg(F32, 0, 4),)),
    Sample(DynamicQuantizeLinear(), (arg(F16, 3),), "the input is f16"),
)

"""DequantizeLinear."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.symbols import symbol
from graphwright.ir.types import BF16, DTYPES, F16, F32, F64, I8, I16, I32, I64, U8, U16, DType, TensorType
from graphwright.ops.core.binary import Mul, Sub
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.checks import need_dtype, rank_of
from graphwright.ops.core.imports import dtype_attribute
from graphwright.ops.core.references import quiet
from graphwright.ops.quantized.quantized import (
    POWERS,
    QUANTIZED,
    SCALES,
    broadcastable,
    broadcastable_value,
    check_quantization,
    is_zero,
)


@op("DequantizeLinear")
class DequantizeLinear(Op):
    """``(x - zero) * scale``, computed in f32 and converted to ``to``.

    The scale and the optional zero point are scalars, vectors along ``axis``, or with ``block`` tensors that
    have one element for each ``block`` elements along ``axis``.
    """

    to: DType = F32
    axis: int = 1
    block: int = 0
    optional_inputs = frozenset({2})

    def verify(self) -> None:
        if self.to not in SCALES:
            raise InferError(f"dequantization to {self.to} is not supported")
        if self.block < 0:
            raise InferError(f"the block size is {self.block}; it must be at least 0")

    def infer(self, at: Inference, x: Fact, scale: Fact, zero: Fact | None = None) -> TensorType:
        need_dtype(at, x, QUANTIZED | {I32})
        need_dtype(at, scale, SCALES | {POWERS}, "the scale")
        check_quantization(at, x, scale, zero, x.dtype, self.axis, self.block)
        return TensorType(self.to, x.type.shape)

    @quiet
    def reference(self, x: Array, scale: Array, zero: Array | None = None) -> Array:
        shifted = x.astype(np.float32)
        if zero is not None:
            shifted = shifted - broadcastable(zero, x.shape, self.axis, self.block).astype(np.float32)
        factor = broadcastable(scale, x.shape, self.axis, self.block).astype(np.float32)
        return np.asarray(shifted * factor).astype(self.to.numpy)

    def decompose(self, b: Builder, x: Value, scale: Value, zero: Value | None = None) -> Value:
        rank_of(x)
        dims, shifted = x.type.dims, as_dtype(b, x, F32)
        if zero is not None and not is_zero(b, zero):
            shifted = b(
                Sub(), shifted, as_dtype(b, broadcastable_value(b, zero, dims, self.axis, self.block), F32)
            )
        factor = as_dtype(b, broadcastable_value(b, scale, dims, self.axis, self.block), F32)
        return as_dtype(b, b(Mul(), shifted, factor), self.to)


def _import(i: Importer) -> Any:
    output_dtype, scale, zero = i.attr("output_dtype", 0), i.input(1), i.optional(2)
    op = DequantizeLinear(
        dtype_attribute(i, output_dtype) if output_dtype else scale.type.dtype,
        int(i.attr("axis", 1)),
        int(i.attr("block_size", 0)),
    )
    return i.emit(op, i.input(0), scale, *([] if zero is None else [zero]))


def _export(e: Exporter, op: DequantizeLinear, x: Value, scale: Value, *zero: Value) -> Any:
    output_dtype = None if op.to == scale.type.dtype else op.to
    return e.emit(
        "DequantizeLinear",
        x,
        scale,
        *zero,
        since=21 if output_dtype is None else 23,
        axis=op.axis,
        block_size=op.block or None,
        output_dtype=output_dtype,
    )


DequantizeLinear.to_onnx = _export
DequantizeLinear.onnx = {("DequantizeLinear", 10): _import}
_N, _M = symbol("N"), symbol("M")
_X, _ONE = arg(U8, 3, 4), arg(F32, fill="positive")
_SMALL = ("i4", "u4", "i2", "u2", "f8e4m3fn", "f8e5m2", "f4e2m1")
DequantizeLinear.samples = (
    *(Sample(DequantizeLinear(), (arg(t, 3, 4), _ONE, arg(t))) for t in (U8, I8, U16, I16, I32)),
    *(Sample(DequantizeLinear(), (arg(DTYPES[n], 4, fill="index"), _ONE)) for n in _SMALL),
    *(Sample(DequantizeLinear(t), (_X, arg(t, fill="positive"), arg(U8, 1))) for t in (F16, BF16)),
    Sample(DequantizeLinear(F16), (arg(U16, 2, values=(65535, 0)), arg(F16, values=(0.5,)))),
    Sample(DequantizeLinear(F16), (_X, _ONE)),
    Sample(DequantizeLinear(), (_X, arg(POWERS, values=(0.25,)))),
    Sample(DequantizeLinear(), (arg(I8, 2, 3, 5), arg(F32, 3), arg(I8, 3))),
    Sample(DequantizeLinear(axis=-1), (arg(I8, _N, _M), arg(F32, _M), arg(I8, _M))),
    Sample(DequantizeLinear(F32, 1, 2), (arg(I8, 2, 6, 3), arg(F32, 2, 3, 3), arg(I8, 2, 3, 3))),
    Sample(DequantizeLinear(F32, 0, 4), (arg(U8, 6, 3), arg(F32, 2, 3))),
    Sample(DequantizeLinear(F32, -1, 2), (arg(U8, _N, 6), arg(F32, _N, 3))),
    Sample(DequantizeLinear(), (arg(U8, 3, 0), _ONE)),
    Sample(DequantizeLinear(F64), (_X, _ONE), "dequantization to f64 is not supported"),
    Sample(DequantizeLinear(), (_X, _ONE, arg(I8)), "the zero point is i8"),
    Sample(DequantizeLinear(), (_X, arg(F32, 3)), "the scale along axis 1: 3 and 4 differ"),
    Sample(
        DequantizeLinear(F32, 1, 3),
        (_X, arg(F32, 3, 1)),
        "for blocks of 3 along axis 1 of u8[3, 4]: 1 and 2 differ",
    ),
    Sample(DequantizeLinear(F32, 1, -3), (_X, _ONE), "the block size is -3"),
    Sample(DequantizeLinear(), (arg(I64, 3), _ONE), "the input is i64"),
)

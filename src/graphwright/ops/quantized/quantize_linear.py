"""QuantizeLinear."""

from __future__ import annotations

from typing import Any

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.symbols import symbol
from graphwright.ir.types import (
    BF16,
    DTYPES,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    U8,
    U16,
    DType,
    TensorType,
    dtype_of,
)
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.checks import need_dtype, rank_of
from graphwright.ops.core.div import Div
from graphwright.ops.core.imports import dtype_attribute
from graphwright.ops.core.references import quiet
from graphwright.ops.quantized.quantized import (
    POWERS,
    QUANTIZED,
    SCALES,
    broadcastable,
    broadcastable_value,
    check_quantization,
    into_quantized,
    quantized,
)


@op("QuantizeLinear")
class QuantizeLinear(Op):
    """``x / scale + zero`` in the dtype ``to``. Integers are rounded (ties to even) and saturated.

    The scale and the optional zero point are scalars, vectors along ``axis``, or with ``block`` tensors that
    have one element for each ``block`` elements along ``axis``. The quotient is computed in ``precision``;
    None means the dtype of the scale if it is f32, f16 or bf16, otherwise f32. With ``saturate``,
    out-of-range values become the largest 8-bit float.
    """

    to: DType = U8
    axis: int = 1
    block: int = 0
    saturate: bool = True
    precision: DType | None = None
    optional_inputs = frozenset({2})

    def verify(self) -> None:
        if self.to not in QUANTIZED:
            raise InferError(f"quantization to {self.to} is not supported")
        if self.block < 0:
            raise InferError(f"the block size is {self.block}; it must be at least 0")
        if self.precision is not None and self.precision not in SCALES | {F64}:
            raise InferError(f"the precision is {self.precision}; it must be a float of 16 bits or more")

    def infer(self, at: Inference, x: Fact, scale: Fact, zero: Fact | None = None) -> TensorType:
        need_dtype(at, x, SCALES | {I32})
        need_dtype(at, scale, SCALES | {I32, POWERS}, "the scale")
        check_quantization(at, x, scale, zero, self.to, self.axis, self.block)
        return TensorType(self.to, x.type.shape)

    def divides_in(self, scale: DType) -> DType:
        """The dtype of the quotient."""
        if self.precision is not None:
            return self.precision
        return scale if scale in SCALES else F32

    @quiet
    def reference(self, x: Array, scale: Array, zero: Array | None = None) -> Array:
        wide = self.divides_in(dtype_of(scale)).numpy
        ratio = x.astype(wide) / broadcastable(scale, x.shape, self.axis, self.block).astype(wide)
        if zero is not None:
            zero = broadcastable(zero, x.shape, self.axis, self.block)
        return quantized(ratio, zero, self.to, self.saturate)

    def decompose(self, b: Builder, x: Value, scale: Value, zero: Value | None = None) -> Value:
        rank_of(x)
        wide, dims = self.divides_in(scale.type.dtype), x.type.dims
        divisor = as_dtype(b, broadcastable_value(b, scale, dims, self.axis, self.block), wide)
        ratio = b(Div(), as_dtype(b, x, wide), divisor)
        if zero is not None:
            zero = broadcastable_value(b, zero, dims, self.axis, self.block)
        return into_quantized(b, ratio, zero, self.to, self.saturate)


def _import(i: Importer) -> Any:
    zero, output_dtype, precision = i.optional(2), i.attr("output_dtype", 0), i.attr("precision", 0)
    given = dtype_attribute(i, output_dtype) if output_dtype else None
    to = zero.type.dtype if zero is not None else given or U8
    if given not in (None, to):
        raise i.fail(f"output_dtype is {given}, but the zero point is {to}")
    op = QuantizeLinear(
        to,
        int(i.attr("axis", 1)),
        int(i.attr("block_size", 0)),
        bool(i.attr("saturate", 1)),
        dtype_attribute(i, precision) if precision else None,
    )
    return i.emit(op, i.input(0), i.input(1), *([] if zero is None else [zero]))


def _export(e: Exporter, op: QuantizeLinear, x: Value, scale: Value, *zero: Value) -> Any:
    return e.emit(
        "QuantizeLinear",
        x,
        scale,
        *zero,
        since=21 if op.precision is None else 23,
        axis=op.axis,
        block_size=op.block or None,
        saturate=None if op.saturate else False,
        output_dtype=None if zero or op.to == U8 else op.to,
        precision=op.precision,
    )


QuantizeLinear.to_onnx = _export
QuantizeLinear.onnx = {("QuantizeLinear", 10): _import}
_N, _M = symbol("N"), symbol("M")
_X, _ONE = arg(F32, 3, 4), arg(F32, fill="positive")
_EDGE = arg(F32, 9, values=(0.5, 1.5, -0.5, -2.5, 1e30, -1e30, 3.0, float("inf"), float("-inf")))
QuantizeLinear.samples = (
    *(
        Sample(QuantizeLinear(t), (_EDGE, arg(F32, values=(1.0,)), arg(t, values=(1,))))
        for t in (U8, I8, I16, U16)
    ),
    *(
        Sample(QuantizeLinear(DTYPES[n]), (_X, _ONE, arg(DTYPES[n], values=(1,))))
        for n in ("u4", "i4", "i2", "u2")
    ),
    *(
        Sample(QuantizeLinear(DTYPES[n]), (_EDGE, arg(F32, values=(2.0,))))
        for n in ("f8e4m3fn", "f8e5m2", "f4e2m1")
    ),
    Sample(QuantizeLinear(DTYPES["f8e4m3fn"], saturate=False), (_EDGE, arg(F32, values=(2.0,)))),
    Sample(QuantizeLinear(), (_X, _ONE)),
    Sample(QuantizeLinear(I8), (arg(I32, 3, 4), arg(F32, 1, fill="positive"))),
    *(Sample(QuantizeLinear(I8), (arg(t, 3, 4), arg(t, fill="positive"))) for t in (F16, BF16)),
    Sample(QuantizeLinear(I8, precision=F32), (arg(F16, 3, 4), arg(F16, fill="positive"))),
    Sample(QuantizeLinear(I8), (arg(F16, 3, 4), arg(F32, fill="positive"))),
    Sample(QuantizeLinear(I8), (_X, arg(POWERS, values=(0.25,)))),
    Sample(QuantizeLinear(I8), (arg(F32, 2, 3, 5), arg(F32, 3, fill="positive"), arg(I8, 3))),
    Sample(QuantizeLinear(I8, -1), (arg(F32, _N, _M), arg(F32, _M, fill="positive"), arg(I8, _M))),
    Sample(
        QuantizeLinear(I8, 1, 2), (arg(F32, 2, 6, 3), arg(F32, 2, 3, 3, fill="positive"), arg(I8, 2, 3, 3))
    ),
    Sample(QuantizeLinear(U8, 0, 4), (arg(F32, 6, 3), arg(F32, 2, 3, fill="positive"))),
    Sample(QuantizeLinear(I8, 1, 2), (arg(F32, _N, 6), arg(F32, _N, 3, fill="positive"))),
    Sample(QuantizeLinear(), (arg(F32, 0, 4), arg(F32, 4, fill="positive"))),
    Sample(QuantizeLinear(F32), (_X, _ONE), "quantization to f32 is not supported"),
    Sample(QuantizeLinear(U8), (_X, _ONE, arg(I8)), "the zero point is i8"),
    Sample(QuantizeLinear(), (_X, arg(F32, 3)), "the scale along axis 1: 3 and 4 differ"),
    Sample(QuantizeLinear(), (_X, arg(F32, 3, 4)), "without block_size it must be a scalar or a vector"),
    Sample(QuantizeLinear(U8, 1, 2), (_X, arg(F32, 4)), "with block_size it must have the rank of"),
    Sample(
        QuantizeLinear(U8, 1, 2),
        (_X, arg(F32, 3, 4)),
        "for blocks of 2 along axis 1 of f32[3, 4]: 4 and 2 differ",
    ),
    Sample(QuantizeLinear(U8, 1, -2), (_X, _ONE), "the block size is -2"),
    Sample(QuantizeLinear(precision=I8), (_X, _ONE), "the precision is i8"),
    Sample(QuantizeLinear(), (arg(F64, 3), _ONE), "the input is f64"),
    Sample(QuantizeLinear(), (arg(F32, 3), arg(F32, 3)), "axis 1 is out of range"),
)

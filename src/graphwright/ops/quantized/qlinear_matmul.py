"""QLinearMatMul."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.arithmetic import Arithmetic, product_operations
from graphwright.ir.op import Array, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import DTYPES, F16, F32, I8, I32, U8, DType, TensorType, dtype_of
from graphwright.ops.core.binary import Mul
from graphwright.ops.core.cast import as_dtype, in_f32
from graphwright.ops.core.checks import need_dtype, need_scalar, rank_of, same_dtype
from graphwright.ops.core.div import Div
from graphwright.ops.core.imports import simple
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.references import quiet
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.quantized.matmul_integer import (
    MatMulInteger,
    need_per_column,
    need_per_row,
    per_column,
    per_column_value,
    per_row,
    per_row_value,
    product,
    product_of_values,
)
from graphwright.ops.quantized.quantized import BYTES, FLOAT8, SCALES, into_quantized, quantized, ratio_of


@op("QLinearMatMul")
class QLinearMatMul(Arithmetic, Op):
    """A quantized matrix multiplication: ``(a - a_zero) * a_scale @ (b - b_zero) * b_scale``, quantized with
    ``y_scale`` and ``y_zero``.

    Operands: a, its scale and zero point; b, its scale and zero point; the scale and zero point of the
    result. The parameters of a are scalars, or have one element per row; those of b are scalars, or have one
    element per column. Integers are summed in i32, 8-bit floats in f32. Shapes: see :class:`MatMul`.
    """

    def infer(
        self, at: Inference,
        a: Fact, a_scale: Fact, a_zero: Fact, b: Fact, b_scale: Fact, b_zero: Fact,
        y_scale: Fact, y_zero: Fact,
    ) -> TensorType:  # fmt: skip
        same_dtype(at, a_scale, b_scale, y_scale)
        need_dtype(at, a_scale, SCALES, "the scale")
        need_dtype(at, y_zero, BYTES | FLOAT8, "the zero point of y")
        for operand, zero, what in ((a, a_zero, "a"), (b, b_zero, "b")):
            need_dtype(at, operand, BYTES | FLOAT8, what)
            need_dtype(at, zero, {operand.dtype}, f"the zero point of {what}")
        for parameter, what in ((a_scale, "the scale of a"), (a_zero, "the zero point of a")):
            need_per_row(at, a, parameter, what)
        for parameter, what in ((b_scale, "the scale of b"), (b_zero, "the zero point of b")):
            need_per_column(at, b, parameter, what)
        for parameter, what in ((y_scale, "the scale of y"), (y_zero, "the zero point of y")):
            need_scalar(at, parameter, what)
        sums = MatMul().infer(at, Fact(TensorType(I32, a.shape)), Fact(TensorType(I32, b.shape)))
        return TensorType(y_zero.dtype, sums.shape)

    def operations(self, node: Node) -> Dim:
        return product_operations(node)

    @quiet
    def reference(
        self,
        a: Array, a_scale: Array, a_zero: Array, b: Array, b_scale: Array, b_zero: Array,
        y_scale: Array, y_zero: Array,
    ) -> Array:  # fmt: skip
        total = product(a, b, a_zero, b_zero, _sum_dtype(dtype_of(a), dtype_of(b)))
        rows, columns = per_row(a_scale), per_column(b_scale)
        rows = rows.reshape(_of_product(rows.shape, -1, b.ndim))
        columns = columns.reshape(_of_product(columns.shape, -2, a.ndim))
        ratio = ratio_of(rows, columns, y_scale.reshape(()))
        return quantized(np.asarray(total.astype(ratio.dtype) * ratio), y_zero.reshape(()), dtype_of(y_zero))

    def decompose(
        self, b: Builder,
        left: Value, a_scale: Value, a_zero: Value, right: Value, b_scale: Value, b_zero: Value,
        y_scale: Value, y_zero: Value,
    ) -> Value:  # fmt: skip
        if _sum_dtype(left.type.dtype, right.type.dtype) == I32:
            total = as_dtype(b, b(MatMulInteger(), left, right, a_zero, b_zero), F32)
        else:
            total = product_of_values(b, left, right, a_zero, b_zero, F32)
        rows, columns = per_row_value(b, a_scale), per_column_value(b, b_scale)
        rows = reshaped(b, rows, _of_product(rows.type.dims, -1, rank_of(right)))
        columns = reshaped(b, columns, _of_product(columns.type.dims, -2, rank_of(left)))
        scales = rows, columns, reshaped(b, y_scale, ())
        a_factor, b_factor, y_divisor = (in_f32(b, scale) for scale in scales)
        ratio = b(Div(), b(Mul(), a_factor, b_factor), y_divisor)
        return into_quantized(b, b(Mul(), total, ratio), reshaped(b, y_zero, ()), y_zero.type.dtype)


def _of_product(shape: tuple[Dim, ...], axis: int, other: int) -> tuple[Dim, ...]:
    """The shape of a scale that broadcasts to the product. It has no ``axis`` (which is 1) if the ``other``
    operand, of this rank, is a vector.
    """
    return (*shape[:axis], *shape[len(shape) + axis + 1 :]) if other == 1 and len(shape) >= -axis else shape


def _sum_dtype(a: DType, b: DType) -> DType:
    return I32 if a.is_integer and b.is_integer else F32


QLinearMatMul.onnx = {("QLinearMatMul", 10): simple(QLinearMatMul)}
QLinearMatMul.to_onnx = as_onnx("QLinearMatMul")
_N, _K = symbol("N"), symbol("K")
_F8 = DTYPES["f8e4m3fn"]


def _inputs(a: Any, b: Any, a_shape: Any = (), b_shape: Any = (), scale: DType = F32, y: DType = U8) -> Any:
    """Operands of a sample; scale and zero point of a and b have the shapes ``a_shape`` and ``b_shape``."""
    return (
        a, arg(scale, *a_shape, fill="positive"), arg(a.type.dtype, *a_shape),
        b, arg(scale, *b_shape, fill="positive"), arg(b.type.dtype, *b_shape),
        arg(scale, fill="positive"), arg(y),
    )  # fmt: skip


_A, _B = arg(U8, 3, 4), arg(I8, 4, 5)
QLinearMatMul.samples = (
    Sample(QLinearMatMul(), _inputs(_A, _B)),
    Sample(QLinearMatMul(), _inputs(_A, _B, (1,), (1,), y=I8)),
    Sample(QLinearMatMul(), _inputs(_A, _B, (3,), (5,))),
    Sample(QLinearMatMul(), _inputs(_A, _B, scale=F16)),
    Sample(QLinearMatMul(), _inputs(arg(I8, 2, 3, 4), arg(I8, 2, 4, 5), (2, 3, 1), (2, 1, 5))),
    Sample(QLinearMatMul(), _inputs(arg(U8, _N, _K), arg(U8, _K, 5), (_N,), (5,))),
    Sample(QLinearMatMul(), _inputs(arg(_F8, 3, 4), arg(_F8, 4, 5), y=_F8)),
    Sample(QLinearMatMul(), _inputs(arg(U8, 4), arg(U8, 4))),
    Sample(QLinearMatMul(), _inputs(arg(U8, 4), _B, b_shape=(5,))),
    Sample(QLinearMatMul(), _inputs(arg(U8, 4), arg(I8, 2, 4, 5), b_shape=(2, 1, 5))),
    Sample(QLinearMatMul(), _inputs(_A, arg(I8, 4), (3,))),
    Sample(QLinearMatMul(), _inputs(arg(U8, 2, 3, 4), arg(I8, 4), (2, 3, 1))),
    Sample(QLinearMatMul(), _inputs(_A, arg(I8, 3, 5)), "4 and 3 differ"),
    Sample(QLinearMatMul(), _inputs(_A, _B, (4,)), "the scale of a and rows: 4 and 3 differ"),
    Sample(QLinearMatMul(), _inputs(_A, _B, y=I32), "the zero point of y is i32"),
    Sample(QLinearMatMul(), _inputs(_A, arg(F32, 4, 5)), "b is f32"),
)

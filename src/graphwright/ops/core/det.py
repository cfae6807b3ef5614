"""Det."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, AtenImporter, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import BF16, F16, F32, F64, I32, TensorType
from graphwright.ops.core.binary import Mul, Sub
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.checks import rank_of
from graphwright.ops.core.constant_of_shape import ConstantOfShape
from graphwright.ops.core.div import Div
from graphwright.ops.core.elimination import need_square_matrices, part, pivot
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.imports import simple
from graphwright.ops.core.references import quiet, widened
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.unary import Neg
from graphwright.ops.core.where import Where

MAX_STEPS = 16
"""Larger matrices are not decomposed: each step of the elimination adds about a dozen nodes."""


@op("Det")
class Det(Op):
    """The determinant of every matrix x[..., M, M]; 1 if M is 0."""

    def infer(self, at: Inference, x: Fact) -> TensorType:
        need_square_matrices(at, x)
        return TensorType(x.dtype, x.shape[:-2])

    @quiet
    def reference(self, x: Array) -> Array:
        return np.asarray(np.linalg.det(widened(x))).astype(x.dtype)

    def decompose(self, b: Builder, x: Value) -> Value | None:
        """Gaussian elimination with partial pivoting, on all matrices at once; None for large or symbolic
        sizes.

        The determinant is the product of the pivots, negated for each exchange of two rows.
        """
        size = x.type.dims[-1]
        if not isinstance(size, int) or size > MAX_STEPS:
            return None
        dims, dtype = x.type.dims[:-2], x.type.dtype.computed
        if not size:
            ones: Value = b(ConstantOfShape(1.0, x.type.dtype, dims))
            return ones
        matrix = as_dtype(b, x, dtype)
        product: Value | None = None
        for remaining in range(size, 0, -1):
            if remaining == 1:
                factor = matrix
            else:
                factor, matrix = _eliminate(b, matrix, remaining)
            product = factor if product is None else b(Mul(), product, factor)
        assert product is not None
        return as_dtype(b, reshaped(b, product, dims), x.type.dtype)


def _eliminate(b: Builder, matrix: Value, size: int) -> tuple[Value, Value]:
    """One step of the elimination: the factor of the determinant, and the matrix of ``size - 1`` that
    remains.
    """
    rows, columns = rank_of(matrix) - 2, rank_of(matrix) - 1
    zero = b.const(0, matrix.type.dtype)
    position, row, exchanged = pivot(b, matrix, size)
    factor = part(b, row, columns, 0, 1)
    below = part(b, exchanged, rows, 1, size)
    leading = part(b, below, columns, 0, 1)
    multiples = b(Where(), b(Equal(), factor, zero), zero, b(Div(), leading, factor))
    remaining = part(b, b(Sub(), below, b(Mul(), multiples, row)), columns, 1, size)
    in_place = b(Equal(), position, b.const(np.zeros((1, 1), np.int64)))
    return b(Where(), in_place, factor, b(Neg(), factor)), remaining


Det.onnx = {("Det", 11): simple(Det), ("Det", 22): simple(Det)}
Det.to_onnx = as_onnx("Det")


def _aten(i: AtenImporter) -> Any:
    """Results 1 and 2, the LU factors and pivots, are not supported."""
    return i.emit(Det(), i.input(0)), None, None


Det.aten = {"_linalg_det": _aten}
Det.samples = (
    *(Sample(Det(), (arg(t, 3, 4, 4),)) for t in (F32, F64, F16, BF16)),
    *(Sample(Det(), (arg(F32, n, n),)) for n in (0, 1, 2, 3, 7)),
    Sample(Det(), (arg(F32, symbol("N"), 2, 3, 3),)),
    Sample(Det(), (arg(F32, 3, 3, fill="index"),)),
    Sample(Det(), (arg(F32, 2, symbol("M"), symbol("M")),)),
    Sample(Det(), (arg(F32, 0, 2, 2),)),
    Sample(Det(), (arg(F32, 2, 3),), "rows and columns: 2 and 3 differ"),
    Sample(Det(), (arg(F32, 3),), "it must have at least 2 axes"),
    Sample(Det(), (arg(I32, 2, 2),), "the input is i32"),
)

"""Inverse, an op of ONNX Runtime's domain ``com.microsoft``."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, AtenImporter, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F16, F32, F64, I32, TensorType
from graphwright.ops.contrib.registration import register_contrib
from graphwright.ops.core.binary import Mul, Sub
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.checks import rank_of
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.div import Div
from graphwright.ops.core.elimination import need_square_matrices, part, pivot
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.imports import simple
from graphwright.ops.core.references import quiet, widened

MAX_STEPS = 8
"""Larger matrices are not decomposed: each step of the elimination adds about a dozen nodes."""


@op("Inverse")
class Inverse(Op):
    """The inverse of every matrix x[..., M, M]; NaN or infinities for a singular matrix."""

    def infer(self, at: Inference, x: Fact) -> TensorType:
        need_square_matrices(at, x)
        return x.type

    @quiet
    def reference(self, x: Array) -> Array:
        wide = widened(x)
        try:
            return np.linalg.inv(wide).astype(x.dtype)
        except np.linalg.LinAlgError:  # one of the matrices is singular
            each = [_inverse(m) for m in wide.reshape(-1, *x.shape[-2:])]
            return np.stack(each).reshape(x.shape).astype(x.dtype)

    def decompose(self, b: Builder, x: Value) -> Value | None:
        """Gauss-Jordan elimination with partial pivoting, on all matrices at once; None for large or symbolic
        sizes.

        ``done`` are the rows that have been the pivot. The matrix is followed by the columns of the identity.
        Each step makes the first column of all other rows 0, and drops it. In the end, only the columns of
        the inverse remain.
        """
        rank, size = rank_of(x), x.type.dims[-1]
        if not isinstance(size, int) or not 0 < size <= MAX_STEPS:
            return None
        rows, columns, dtype = rank - 2, rank - 1, x.type.dtype.computed
        identity = b(Expand(x.type.dims), b.const(np.eye(size).astype(dtype.numpy)))
        matrix = b(Concat(columns), as_dtype(b, x, dtype), identity)
        done: list[Value] = []
        for remaining in range(size, 0, -1):
            width = remaining + size
            _, row, exchanged = pivot(b, matrix, remaining)
            row = b(Div(), part(b, row, columns, 1, width), part(b, row, columns, 0, 1))
            done = [*(_clear_column(b, other, row, width) for other in done), row]
            if remaining > 1:
                matrix = _clear_column(b, part(b, exchanged, rows, 1, remaining), row, width)
        return as_dtype(b, b(Concat(rows), *done), x.type.dtype)


def _clear_column(b: Builder, value: Value, row: Value, width: int) -> Value:
    """Subtract the multiple of the pivot ``row`` that makes the first column 0, and drop this column."""
    columns = rank_of(value) - 1
    multiple = b(Mul(), part(b, value, columns, 0, 1), row)
    cleared: Value = b(Sub(), part(b, value, columns, 1, width), multiple)
    return cleared


def _inverse(matrix: Array) -> Array:
    try:
        return np.asarray(np.linalg.inv(matrix))
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.nan)


def _aten(i: AtenImporter) -> Any:
    """Result 1, the number of an error, is not supported."""
    return i.emit(Inverse(), i.input(0)), None


register_contrib(Inverse, Inverse=simple(Inverse))
Inverse.aten = {"linalg_inv_ex": _aten}
_SMALL = (2, -1, 0.5, 1, 3, 0, -2, 1, 4)
Inverse.samples = (
    *(Sample(Inverse(), (arg(t, 3, 3, values=_SMALL),)) for t in (F32, F64, F16)),
    Sample(Inverse(), (arg(F32, 2, 2, 2, values=(0, 1, 2, 0, 1, 2, 3, 5)),)),
    Sample(Inverse(), (arg(F32, 2, symbol("M"), symbol("M")),)),
    Sample(Inverse(), (arg(F32, 0, 2, 2),)),
    Sample(Inverse(), (arg(F32, 1, 1, values=(4,)),)),
    Sample(Inverse(), (arg(F32, 2, 3),), "rows and columns: 2 and 3 differ"),
    Sample(Inverse(), (arg(F32, 3),), "it must have at least 2 axes"),
    Sample(Inverse(), (arg(I32, 2, 2),), "the input is i32"),
)

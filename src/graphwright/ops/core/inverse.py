"""Inverse: ONNX Runtime has it, ONNX does not."""

from __future__ import annotations

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F16, F32, F64, I32, TensorType
from graphwright.ops.contrib.common import contribute
from graphwright.ops.core.arg_reduce import ArgMax
from graphwright.ops.core.binary import Div, Equal, Mul, Sub, Where
from graphwright.ops.core.common import FLOATS, need_dtype, quiet, rank_of, simple, widened
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.reductions import ReduceSum
from graphwright.ops.core.sampling import as_dtype, wide
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.unary import Abs

MAX_STEPS = 8
"""Larger matrices are not taken apart: a step of the elimination is a dozen nodes."""


@op("Inverse")
class Inverse(Op):
    """The inverse of every matrix x[..., M, M]; one that has none gives NaN or infinities."""

    def infer(self, at: Inference, x: Fact) -> TensorType:
        need_dtype(at, x, FLOATS)
        if x.rank < 2:
            raise at.fail(f"the input is {x.type}; it must have at least 2 axes")
        at.equal(x.shape[-2], x.shape[-1], "rows and columns")
        return x.type

    @quiet
    def reference(self, x: Array) -> Array:
        wide = widened(x)
        try:
            return np.linalg.inv(wide).astype(x.dtype)
        except np.linalg.LinAlgError:  # one of them has none
            each = [_inverse(m) for m in wide.reshape(-1, *x.shape[-2:])]
            return np.stack(each).reshape(x.shape).astype(x.dtype)

    def decompose(self, b: Builder, x: Value) -> Value | None:
        """Gauss-Jordan elimination with partial pivoting, for all matrices at once; None for large ones."""
        rank, size = rank_of(x), x.type.dims[-1]
        if not isinstance(size, int) or not 0 < size <= MAX_STEPS:
            return None
        rows, columns, dtype = rank - 2, rank - 1, wide(x.type.dtype)
        zero, dims = b.const(0, dtype), x.type.dims

        def part(value: Value, axis: int, start: int, end: int) -> Value:
            made: Value = b(Slice((start,), (end,), (axis,), (1,)), value)
            return made

        unit = b(Expand(dims), b.const(np.eye(size).astype(dtype.numpy)))
        rest = b(Concat(columns), as_dtype(b, x, dtype), unit)
        done: list[Value] = []
        for left in range(size, 0, -1):
            column, width = part(rest, columns, 0, 1), left + size
            chosen = b(Equal(), b.const(np.arange(left).reshape(left, 1)), b(ArgMax(rows), b(Abs(), column)))
            row = b(ReduceSum((rows,)), b(Where(), chosen, rest, zero))
            row = b(Div(), part(row, columns, 1, width), part(row, columns, 0, 1))
            swapped = b(Where(), chosen, part(rest, rows, 0, 1), rest)

            def cleared(value: Value, by: Value = row, end: int = width) -> Value:
                """Rows without their first column, which a multiple of the pivot's row makes 0."""
                made: Value = b(Sub(), part(value, columns, 1, end), b(Mul(), part(value, columns, 0, 1), by))
                return made

            done = [*map(cleared, done), row]
            rest = cleared(part(swapped, rows, 1, left)) if left > 1 else rest
        return as_dtype(b, b(Concat(rows), *done), x.type.dtype)


def _inverse(matrix: Array) -> Array:
    try:
        return np.asarray(np.linalg.inv(matrix))
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.nan)


contribute(Inverse, Inverse=simple(Inverse))
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

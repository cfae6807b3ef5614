"""Det."""

from __future__ import annotations

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.exporter import as_onnx
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import BF16, F16, F32, F64, I32, TensorType
from graphwright.ops.core.arg_reduce import ArgMax
from graphwright.ops.core.binary import Div, Equal, Mul, Sub, Where
from graphwright.ops.core.common import FLOATS, need_dtype, quiet, rank_of, simple, widened
from graphwright.ops.core.constant_of_shape import ConstantOfShape
from graphwright.ops.core.reductions import ReduceSum
from graphwright.ops.core.sampling import as_dtype, reshaped, wide
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.unary import Abs, Neg

MAX_STEPS = 16
"""Larger matrices are not taken apart: a step of the elimination is a dozen nodes."""


@op("Det")
class Det(Op):
    """The determinant of every matrix x[..., M, M]; 1 for M = 0."""

    def infer(self, at: Inference, x: Fact) -> TensorType:
        need_dtype(at, x, FLOATS)
        if x.rank < 2:
            raise at.fail(f"the input is {x.type}; it must have at least 2 axes")
        at.equal(x.shape[-2], x.shape[-1], "rows and columns")
        return TensorType(x.dtype, x.shape[:-2])

    @quiet
    def reference(self, x: Array) -> Array:
        return np.asarray(np.linalg.det(widened(x))).astype(x.dtype)

    def decompose(self, b: Builder, x: Value) -> Value | None:
        """Gaussian elimination with partial pivoting, for all matrices at once; None for large ones."""
        rank, size = rank_of(x), x.type.dims[-1]
        if not isinstance(size, int) or size > MAX_STEPS:
            return None
        dims, dtype = x.type.dims[:-2], wide(x.type.dtype)
        if not size:
            ones: Value = b(ConstantOfShape(1.0, x.type.dtype, dims))
            return ones
        rest = as_dtype(b, x, dtype)
        zero = b.const(0, dtype)
        total: Value | None = None
        for left in range(size, 0, -1):
            column = b(Slice((0,), (1,), (rank - 1,), (1,)), rest)
            if left == 1:
                pivot = column
            else:
                best = b(ArgMax(rank - 2), b(Abs(), column))
                places = b.const(np.arange(left).reshape(left, 1))
                chosen = b(Equal(), places, best)
                row = b(ReduceSum((rank - 2,)), b(Where(), chosen, rest, zero))
                pivot = b(Slice((0,), (1,), (rank - 1,), (1,)), row)
                # The first row takes the place of the pivot's, which changes the sign unless it is the same.
                first = b(Slice((0,), (1,), (rank - 2,), (1,)), rest)
                swapped = b(Where(), chosen, first, rest)
                below = b(Slice((1,), (left,), (rank - 2,), (1,)), swapped)
                heads = b(Slice((0,), (1,), (rank - 1,), (1,)), below)
                factors = b(Where(), b(Equal(), pivot, zero), zero, b(Div(), heads, pivot))
                below = b(Sub(), below, b(Mul(), factors, row))
                rest = b(Slice((1,), (left,), (rank - 1,), (1,)), below)
                same = b(Equal(), best, b.const(np.zeros((1, 1), np.int64)))
                pivot = b(Where(), same, pivot, b(Neg(), pivot))
            total = pivot if total is None else b(Mul(), total, pivot)
        assert total is not None
        return as_dtype(b, reshaped(b, total, *dims), x.type.dtype)


Det.onnx = {("Det", 11): simple(Det), ("Det", 22): simple(Det)}
Det.to_onnx = as_onnx("Det")
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

"""One step of Gaussian elimination on stacks of matrices, for Det and Inverse."""

from __future__ import annotations

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Fact, Inference
from graphwright.ops.core.arg_reduce import ArgMax
from graphwright.ops.core.checks import FLOATS, need_dtype, rank_of
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.reductions import ReduceSum
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.unary import Abs
from graphwright.ops.core.where import Where


def need_square_matrices(at: Inference, x: Fact) -> None:
    """Raises InferError unless ``x`` is a float tensor [..., M, M]."""
    need_dtype(at, x, FLOATS)
    if x.rank < 2:
        raise at.fail(f"the input is {x.type}; it must have at least 2 axes")
    at.equal(x.shape[-2], x.shape[-1], "rows and columns")


def part(b: Builder, value: Value, axis: int, start: int, end: int) -> Value:
    """The slice ``start:end`` of ``axis``."""
    sliced: Value = b(Slice((start,), (end,), (axis,), (1,)), value)
    return sliced


def pivot(b: Builder, matrix: Value, size: int) -> tuple[Value, Value, Value]:
    """Partial pivoting: choose the row whose first element has the largest magnitude.

    ``matrix`` has ``size`` rows. Returns the position of the chosen row, the row itself, and the matrix with
    row 0 in its position.
    """
    rows, columns = rank_of(matrix) - 2, rank_of(matrix) - 1
    position = b(ArgMax(rows), b(Abs(), part(b, matrix, columns, 0, 1)))
    chosen = b(Equal(), b.const(np.arange(size).reshape(size, 1)), position)
    row = b(ReduceSum((rows,)), b(Where(), chosen, matrix, b.const(0, matrix.type.dtype)))
    return position, row, b(Where(), chosen, part(b, matrix, rows, 0, 1), matrix)

"""Interpolate, an op of graphwright without ONNX counterpart: resizes and adaptive pooling become it."""

from __future__ import annotations

import numpy as np

from graphwright.ir.op import Array, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, F64, I64, U8, TensorType
from graphwright.ops.core.checks import FLOATS, need_dtype


@op("Interpolate")
class Interpolate(Op):
    """Weighted sums of elements along ``axis``: ``y[r] = sum(weights[r, k] * x[positions[r, k]])``.

    The result has the dtype of the weights, and is computed in it. A position outside of the axis adds
    nothing.
    """

    axis: int

    def infer(self, at: Inference, x: Fact, positions: Fact, weights: Fact) -> TensorType:
        need_dtype(at, positions, {I64}, "the index tensor")
        need_dtype(at, weights, FLOATS, "the weight tensor")
        if positions.rank != 2 or weights.rank != 2:
            raise at.fail(
                f"positions of {positions.type} and weights of {weights.type}: both must have 2 axes"
            )
        for have, wanted in zip(positions.shape, weights.shape, strict=True):
            at.equal(have, wanted, "positions and weights")
        axis = at.axis(self.axis, x.rank)
        return TensorType(weights.dtype, (*x.shape[:axis], positions.shape[0], *x.shape[axis + 1 :]))

    def reference(self, x: Array, positions: Array, weights: Array) -> Array:
        rows = np.moveaxis(x, self.axis, 0).astype(weights.dtype)
        total = np.zeros((len(positions), *rows.shape[1:]), weights.dtype)
        for position, weight in zip(positions.T, weights.T, strict=True):
            used = np.flatnonzero((position >= 0) & (position < len(rows)))
            total[used] += rows[position[used]] * weight[used].reshape(-1, *[1] * (x.ndim - 1))
        return np.ascontiguousarray(np.moveaxis(total, 0, self.axis))


_POSITIONS = arg(I64, 4, 2, values=(0, 1, 2, -1, 2, 2, -1, 3))
Interpolate.samples = (
    Sample(Interpolate(0), (arg(F32, 3), _POSITIONS, arg(F32, 4, 2))),
    Sample(Interpolate(1), (arg(F32, 2, 3, symbol("W")), _POSITIONS, arg(F32, 4, 2))),
    Sample(Interpolate(-1), (arg(U8, 2, 3), _POSITIONS, arg(F64, 4, 2))),
    Sample(Interpolate(0), (arg(F32, 3, 5), arg(I64, 0, 2), arg(F32, 0, 2))),
    Sample(
        Interpolate(0), (arg(F32, 3), _POSITIONS, arg(F32, 3, 2)), "positions and weights: 4 and 3 differ"
    ),
    Sample(Interpolate(0), (arg(F32, 3), arg(I64, 4), arg(F32, 4)), "both must have 2 axes"),
    Sample(Interpolate(0), (arg(F32, 3), _POSITIONS, arg(I64, 4, 2)), "the weight tensor is i64"),
)

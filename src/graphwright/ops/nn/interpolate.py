"""Interpolate."""

from __future__ import annotations

import numpy as np

from graphwright.ir.op import Array, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, F64, I64, U8, TensorType
from graphwright.ops.core.common import FLOATS, need_dtype


@op("Interpolate")
class Interpolate(Op):
    """Sums of elements along ``axis``: ``y[r] = sum(weights[r, k] * x[places[r, k]])``.

    It is computed in the weights' dtype. A place outside the axis is none, and adds nothing.
    """

    axis: int

    def infer(self, at: Inference, x: Fact, places: Fact, weights: Fact) -> TensorType:
        need_dtype(at, places, {I64}, "the places")
        need_dtype(at, weights, FLOATS, "the weights")
        if places.rank != 2 or weights.rank != 2:
            raise at.fail(f"positions of {places.type} and weights of {weights.type}: both must have 2 axes")
        for mine, theirs in zip(places.shape, weights.shape, strict=True):
            at.equal(mine, theirs, "places and weights")
        axis = at.axis(self.axis, x.rank)
        return TensorType(weights.dtype, (*x.shape[:axis], places.shape[0], *x.shape[axis + 1 :]))

    def reference(self, x: Array, places: Array, weights: Array) -> Array:
        rows = np.moveaxis(x, self.axis, 0).astype(weights.dtype)
        total = np.zeros((len(places), *rows.shape[1:]), weights.dtype)
        for place, weight in zip(places.T, weights.T, strict=True):
            used = np.flatnonzero((place >= 0) & (place < len(rows)))
            total[used] += rows[place[used]] * weight[used].reshape(-1, *[1] * (x.ndim - 1))
        return np.ascontiguousarray(np.moveaxis(total, 0, self.axis))


_PLACES = arg(I64, 4, 2, values=(0, 1, 2, -1, 2, 2, -1, 3))
Interpolate.samples = (
    Sample(Interpolate(0), (arg(F32, 3), _PLACES, arg(F32, 4, 2))),
    Sample(Interpolate(1), (arg(F32, 2, 3, symbol("W")), _PLACES, arg(F32, 4, 2))),
    Sample(Interpolate(-1), (arg(U8, 2, 3), _PLACES, arg(F64, 4, 2))),
    Sample(Interpolate(0), (arg(F32, 3, 5), arg(I64, 0, 2), arg(F32, 0, 2))),
    Sample(Interpolate(0), (arg(F32, 3), _PLACES, arg(F32, 3, 2)), "places and weights: 4 and 3 differ"),
    Sample(Interpolate(0), (arg(F32, 3), arg(I64, 4), arg(F32, 4)), "both must have 2 axes"),
    Sample(Interpolate(0), (arg(F32, 3), _PLACES, arg(I64, 4, 2)), "the weights is i64"),
)

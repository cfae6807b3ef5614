"""LpPool."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Array, Fact, Importer, Inference, InferError, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, F64, I32, TensorType
from graphwright.ops.core.checks import FLOATS, need_dtype
from graphwright.ops.nn.spatial import POOL_ATTRIBUTES, Pool, accumulator, import_pool, norm_of, with_pad_node


@op("LpPool")
class LpPool(Pool):
    """The p-norm of every window of x[N, C, D...]; pads are 0. Attributes: see :class:`Pool`."""

    p: int = 2

    def verify(self) -> None:
        super().verify()
        if self.p < 1:
            raise InferError(f"p = {self.p}: the order of a norm must be at least 1")

    def infer(self, at: Inference, x: Fact) -> TensorType:
        need_dtype(at, x, FLOATS)
        return self.pooled(at, x)

    def reference(self, x: Array) -> Array:
        counts, shape = self.window_counts(x), self.windows
        powers = shape.padded(np.abs(x.astype(accumulator(x), copy=False)) ** self.p, counts, 0)
        total = np.zeros((*x.shape[:2], *counts), powers.dtype)
        for position in shape.positions():
            total += powers[shape.elements_of_tap(position, counts)]
        return np.asarray(total ** (1 / self.p)).astype(x.dtype, copy=False)


def _import(i: Importer) -> Any:
    return i.emit(LpPool(**import_pool(i), p=norm_of(i)), i.input(0))


LpPool.onnx = {("LpPool", 2): _import}
_as_pool = as_onnx("LpPool", POOL_ATTRIBUTES, p="p")
LpPool.to_onnx = lambda e, op, x: _as_pool(e, *with_pad_node(e, op, x))
LpPool.samples = (
    Sample(LpPool((2, 2), (2, 2)), (arg(F32, symbol("N"), 3, symbol("H"), 6),)),
    Sample(LpPool((3, 3), (2, 1), (1, 0, 1, 2), (1, 2), p=3), (arg(F32, 1, 2, 6, 7),)),
    Sample(LpPool((2,), p=1, auto_pad="SAME_UPPER"), (arg(F64, 1, 2, 5),)),
    Sample(LpPool((2, 2), p=0), (arg(F32, 1, 2, 3, 3),), "p = 0"),
    Sample(LpPool((2, 2)), (arg(I32, 1, 2, 3, 3),), "the input is i32"),
)

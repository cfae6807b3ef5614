"""LpNormalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F16, F32, F64, I32, TensorType
from graphwright.ops.core.cast import as_dtype, in_f32
from graphwright.ops.core.checks import FLOATS, need_dtype, rank_of
from graphwright.ops.core.div import Div
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.reductions import ReduceL1, ReduceL2
from graphwright.ops.core.references import like, quiet, widened
from graphwright.ops.core.where import Where


@op("LpNormalization")
class LpNormalization(Op):
    """``x`` divided by its p-norm along ``axis``, for ``p`` 1 or 2; 0 where the norm is 0."""

    axis: int = -1
    p: int = 2

    def verify(self) -> None:
        if self.p not in (1, 2):
            raise InferError(f"p = {self.p}: the order of the norm must be 1 or 2")

    def infer(self, at: Inference, x: Fact) -> TensorType:
        need_dtype(at, x, FLOATS)
        if x.type.shape is not None:
            at.axis(self.axis, x.rank)
        return x.type

    @quiet
    def reference(self, x: Array) -> Array:
        if not x.ndim:
            return like(np.sign(x), x)
        wide = widened(x)
        if self.p == 1:
            norm = np.abs(wide).sum(axis=self.axis, keepdims=True)
        else:
            norm = np.sqrt((wide * wide).sum(axis=self.axis, keepdims=True))
        return like(np.where(norm == 0, 0, wide / norm), x)

    def decompose(self, b: Builder, x: Value) -> Value:
        wide = in_f32(b, x)
        axes = (self.axis % rank_of(x),) if rank_of(x) else ()
        norm = b((ReduceL1 if self.p == 1 else ReduceL2)(axes), wide)
        zero = b.const(0.0, wide.type.dtype)
        return as_dtype(b, b(Where(), b(Equal(), norm, zero), zero, b(Div(), wide, norm)), x.type.dtype)


def _import(i: Importer) -> Any:
    return i.emit(LpNormalization(int(i.attr("axis", -1)), int(i.attr("p", 2))), i.input(0))


LpNormalization.onnx = {("LpNormalization", 1): _import}
LpNormalization.to_onnx = as_onnx("LpNormalization", axis="axis", p="p")
LpNormalization.samples = (
    *(Sample(LpNormalization(p=p), (arg(t, 3, 5),)) for t in (F32, F64, F16) for p in (1, 2)),
    Sample(LpNormalization(0), (arg(F32, 3, 2, values=(3, 0, 4, 0, 0, 0)),)),
    Sample(LpNormalization(1), (arg(F32, 2, symbol("N"), 3),)),
    Sample(LpNormalization(p=3), (arg(F32, 2),), "must be 1 or 2"),
    Sample(LpNormalization(1), (arg(F32, 2),), "axis 1 is out of range"),
    Sample(LpNormalization(), (arg(I32, 2),), "the input is i32"),
)

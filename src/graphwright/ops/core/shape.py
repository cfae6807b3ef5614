"""Shape."""

from __future__ import annotations

import numpy as np

from graphwright.ir.op import Array, Fact, Inference, Op, Sample, Trait, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, I64, TensorType


@op("Shape")
class Shape(Op):
    """The sizes of the axes ``[start, end)``, as an i64 vector. Negative bounds count from the end; bounds
    are clamped to the rank.
    """

    start: int = 0
    end: int | None = None
    traits = Trait.SHAPE_ONLY

    def infer(self, at: Inference, x: Fact) -> Fact:
        sizes = x.shape[self.start : self.end]
        return Fact(TensorType(I64, (len(sizes),)), sizes)

    def reference(self, x: Array) -> Array:
        return np.array(x.shape[self.start : self.end], dtype=np.int64)


Shape.onnx = {
    ("Shape", 1): lambda i: i.emit(Shape(), i.input(0)),
    ("Shape", 15): lambda i: i.emit(Shape(i.attr("start", 0), i.attr("end")), i.input(0)),
}
Shape.to_onnx = as_onnx("Shape", start="start", end="end")
Shape.samples = (
    Sample(Shape(), (arg(F32, symbol("N"), 3),)),
    Sample(Shape(-2, -1), (arg(F32, 2, symbol("H"), 4),)),
    Sample(Shape(1, 9), (arg(F32, 2, 3),)),
    Sample(Shape(), (arg(F32),)),
)

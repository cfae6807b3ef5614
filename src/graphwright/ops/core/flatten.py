"""Flatten."""

from __future__ import annotations

from math import prod

from graphwright.ir.op import Array, Fact, Inference, Op, Sample, Trait, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import product, symbol
from graphwright.ir.types import F32, TensorType


@op("Flatten")
class Flatten(Op):
    """The input as a matrix: the axes before ``axis`` are merged into rows, the others into columns."""

    axis: int = 1
    traits = Trait.VIEW

    def infer(self, at: Inference, x: Fact) -> TensorType:
        if not -x.rank <= self.axis <= x.rank:
            raise at.fail(f"axis {self.axis} is outside [-{x.rank}, {x.rank}]")
        axis = self.axis + x.rank if self.axis < 0 else self.axis
        return TensorType(x.dtype, (product(x.shape[:axis]), product(x.shape[axis:])))

    def reference(self, x: Array) -> Array:
        axis = self.axis + x.ndim if self.axis < 0 else self.axis
        return x.reshape(prod(x.shape[:axis]), prod(x.shape[axis:]))


Flatten.onnx = {("Flatten", 1): lambda i: i.emit(Flatten(i.attr("axis", 1)), i.input(0))}
Flatten.to_onnx = as_onnx("Flatten", axis="axis")
Flatten.samples = (
    Sample(Flatten(), (arg(F32, 2, 3, 4),)),
    Sample(Flatten(0), (arg(F32, 2, 3),)),
    Sample(Flatten(3), (arg(F32, 2, 3, 4),)),
    Sample(Flatten(-1), (arg(F32, symbol("N"), 3, 4),)),
    Sample(Flatten(0), (arg(F32),)),
    Sample(Flatten(4), (arg(F32, 2, 3),), "axis 4 is outside [-2, 2]"),
)

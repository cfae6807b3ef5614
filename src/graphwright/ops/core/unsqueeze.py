"""Unsqueeze."""

from __future__ import annotations

import numpy as np

from graphwright.ir.op import Array, Fact, Inference, Op, Sample, Trait, UnknownRank, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import F32, I64, TensorType
from graphwright.ops.core.checks import resolve_axes
from graphwright.ops.core.size_inference import known_ints, with_moved_elements


@op("Unsqueeze")
class Unsqueeze(Op):
    """Inserts axes of size 1, which are ``axes`` of the result (operand 1 if None)."""

    axes: tuple[int, ...] | None = None
    traits = Trait.VIEW

    def fold_operands(self, x: Fact, axes: Fact | None = None) -> tuple[Op, tuple[int, ...]] | None:
        known = known_ints(axes)
        return None if self.axes is not None or known is None else (Unsqueeze(known), (0,))

    def infer(self, at: Inference, x: Fact, axes: Fact | None = None) -> TensorType | Fact:
        if self.axes is None:
            raise UnknownRank
        rank = x.rank + len(self.axes)
        new = resolve_axes(at, self.axes, rank)
        rest = iter(x.shape)
        shape: tuple[Dim, ...] = tuple(1 if axis in new else next(rest) for axis in range(rank))
        return with_moved_elements(self, TensorType(x.dtype, shape), x)

    def reference(self, x: Array) -> Array:
        return np.expand_dims(x, self.axes or ())


Unsqueeze.onnx = {
    ("Unsqueeze", 1): lambda i: i.emit(Unsqueeze(tuple(i.required_attr("axes"))), i.input(0)),
    ("Unsqueeze", 13): lambda i: i.emit(Unsqueeze(), i.input(0), i.input(1)),
}
Unsqueeze.to_onnx = as_onnx("Unsqueeze", operand="axes")
Unsqueeze.samples = (
    Sample(Unsqueeze((0, 2)), (arg(F32, 3, symbol("N")),)),
    Sample(Unsqueeze((-1,)), (arg(F32, 3, 4),)),
    Sample(Unsqueeze(), (arg(F32, 3), arg(I64, 2, values=(0, -1)))),
    Sample(Unsqueeze((0,)), (arg(I64, values=(7,)),)),
    Sample(Unsqueeze((1, 1)), (arg(F32, 3),), "name an axis twice"),
    Sample(Unsqueeze((3,)), (arg(F32, 3, 4),), "axis 3 is out of range for rank 3"),
)

Unsqueeze.aten = {"unsqueeze": lambda i: i.emit(Unsqueeze((i.attr("dim"),)), i.input(0))}

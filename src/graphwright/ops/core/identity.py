"""Identity."""

from __future__ import annotations

from graphwright.ir.loops.nodes import Scalar
from graphwright.ir.op import Array, Fact, Inference, Op, Sample, Trait, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import BOOL, F32, I64, STRING
from graphwright.ops.core.imports import simple


@op("Identity")
class Identity(Op):
    """``x``, unchanged; any dtype."""

    traits = Trait.ELEMENTWISE | Trait.VIEW

    def infer(self, at: Inference, x: Fact) -> Fact:
        return x

    def reference(self, x: Array) -> Array:
        return x

    def expression(self, x: Scalar) -> Scalar:
        return x


Identity.onnx = {("Identity", 1): simple(Identity)}
Identity.to_onnx = as_onnx("Identity")
Identity.samples = (
    Sample(Identity(), (arg(F32, 2, symbol("N")),)),
    Sample(Identity(), (arg(I64, 3, values=(1, 2, 3)),)),
    Sample(Identity(), (arg(BOOL),)),
    Sample(Identity(), (arg(STRING, 2),)),
)

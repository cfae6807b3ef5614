"""SequenceConstruct."""

from __future__ import annotations

from typing import Any

from graphwright.ir.op import Array, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, I32, I64, STRING, sequence_of
from graphwright.ops.core.checks import same_dtype
from graphwright.ops.core.imports import simple
from graphwright.ops.sequence.containers import sequence_fact


@op("SequenceConstruct")
class SequenceConstruct(Op):
    """A sequence of all inputs, which must be tensors of one dtype."""

    def infer(self, at: Inference, *xs: Fact) -> Fact:
        if not xs:
            raise at.fail("it needs at least one input")
        dtype = same_dtype(at, *xs)
        if dtype.element is not None:
            raise at.fail(f"the operands are {dtype}; a sequence can only contain tensors")
        return sequence_fact(dtype, tuple(x.type for x in xs))

    def reference(self, *xs: Array) -> list[Any]:
        return list(xs)


SequenceConstruct.onnx = {("SequenceConstruct", 11): simple(SequenceConstruct)}
SequenceConstruct.to_onnx = as_onnx("SequenceConstruct")
SequenceConstruct.samples = (
    Sample(SequenceConstruct(), (arg(F32, 2, 3), arg(F32, symbol("N")), arg(F32))),
    Sample(SequenceConstruct(), (arg(I64, 2, values=(1, 2)),)),
    Sample(SequenceConstruct(), (arg(STRING, 2), arg(STRING))),
    Sample(SequenceConstruct(), (), "at least one input"),
    Sample(SequenceConstruct(), (arg(F32, 2), arg(I32, 2)), "operands of f32 and i32"),
    Sample(SequenceConstruct(), (arg(sequence_of(F32)),), "the operands are seq(f32)"),
)

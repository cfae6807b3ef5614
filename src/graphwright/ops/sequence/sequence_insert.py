"""SequenceInsert."""

from __future__ import annotations

from typing import Any

from graphwright.ir.op import Array, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, I32, I64, sequence_of
from graphwright.ops.core.imports import simple
from graphwright.ops.sequence.containers import element_of, items_and_position, position_of, sequence_fact


@op("SequenceInsert")
class SequenceInsert(Op):
    """The sequence with a tensor (operand 1) inserted before a position, by default at the end.

    Negative positions count from the end: -1 inserts before the last tensor.
    """

    def infer(self, at: Inference, xs: Fact, x: Fact, position: Fact | None = None) -> Fact:
        element = element_of(at, xs)
        if x.dtype != element:
            raise at.fail(
                f"the tensor is {x.type}, but the sequence is {xs.dtype}: their dtypes must be equal"
            )
        found = items_and_position(at, xs, position, beyond=True)
        if found is None:
            return sequence_fact(element, None)
        items, known = found
        return sequence_fact(element, (*items[:known], x.type, *items[known:]))

    def reference(self, xs: list[Any], x: Array, position: Array | None = None) -> list[Any]:
        at = position_of(position, len(xs), len(xs))
        return [*xs[:at], x, *xs[at:]]


SequenceInsert.onnx = {("SequenceInsert", 11): simple(SequenceInsert)}
SequenceInsert.to_onnx = as_onnx("SequenceInsert")
_XS, _X = arg(sequence_of(F32)), arg(F32, 2, symbol("N"))
SequenceInsert.samples = (
    Sample(SequenceInsert(), (_XS, _X)),
    *(Sample(SequenceInsert(), (_XS, _X, arg(I64, values=(at,)))) for at in (-2, -1, 0, 1, 2)),
    Sample(SequenceInsert(), (_XS, _X, arg(I32, fill="index"))),
    Sample(SequenceInsert(), (_XS, arg(I64, 2)), "the tensor is i64[2], but the sequence is seq(f32)"),
    Sample(SequenceInsert(), (_X, _X), "it must be a sequence"),
    Sample(SequenceInsert(), (_XS, _X, arg(I64, 2)), "the position is i64[2]"),
    Sample(SequenceInsert(), (_XS, _X, arg(F32)), "the position is f32"),
)

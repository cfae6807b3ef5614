"""SequenceErase."""

from __future__ import annotations

from typing import Any

from graphwright.ir.op import Array, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.types import F32, I32, I64, sequence_of
from graphwright.ops.core.imports import simple
from graphwright.ops.sequence.containers import element_of, items_and_position, position_of, sequence_fact


@op("SequenceErase")
class SequenceErase(Op):
    """The sequence without the tensor at a position, by default the last one; negative positions count from
    the end.
    """

    def infer(self, at: Inference, xs: Fact, position: Fact | None = None) -> Fact:
        element, found = element_of(at, xs), items_and_position(at, xs, position)
        if found is None:
            return sequence_fact(element, None)
        items, known = found
        return sequence_fact(element, (*items[:known], *items[known + 1 :]))

    def reference(self, xs: list[Any], position: Array | None = None) -> list[Any]:
        at = position_of(position, len(xs), len(xs) - 1)
        return [*xs[:at], *xs[at + 1 :]]


SequenceErase.onnx = {("SequenceErase", 11): simple(SequenceErase)}
SequenceErase.to_onnx = as_onnx("SequenceErase")
_XS = arg(sequence_of(F32))
SequenceErase.samples = (
    Sample(SequenceErase(), (_XS,)),
    *(Sample(SequenceErase(), (_XS, arg(I64, values=(at,)))) for at in (-2, -1, 0, 1)),
    Sample(SequenceErase(), (_XS, arg(I32, values=(1,)))),
    Sample(SequenceErase(), (arg(F32, 2),), "it must be a sequence"),
    Sample(SequenceErase(), (_XS, arg(I64, 2)), "the position is i64[2]"),
)

"""SequenceAt."""

from __future__ import annotations

from typing import Any

from graphwright.ir.op import Array, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.types import F32, I32, I64, STRING, TensorType, sequence_of
from graphwright.ops.core.imports import simple
from graphwright.ops.sequence.containers import (
    common_type,
    element_of,
    items_and_position,
    position_of,
)


@op("SequenceAt")
class SequenceAt(Op):
    """The tensor at a position of a sequence; negative positions count from the end."""

    def infer(self, at: Inference, xs: Fact, position: Fact) -> TensorType:
        element, found = element_of(at, xs), items_and_position(at, xs, position)
        if found is None:
            return common_type(element, xs.item_types)
        items, known = found
        return items[known]

    def reference(self, xs: list[Any], position: Array) -> Any:
        return xs[position_of(position, len(xs), len(xs) - 1)]


SequenceAt.onnx = {("SequenceAt", 11): simple(SequenceAt)}
SequenceAt.to_onnx = as_onnx("SequenceAt")
_XS = arg(sequence_of(F32))
SequenceAt.samples = (
    *(Sample(SequenceAt(), (_XS, arg(I64, values=(at,)))) for at in (-2, -1, 0, 1)),
    Sample(SequenceAt(), (arg(sequence_of(STRING)), arg(I32, values=(1,)))),
    Sample(SequenceAt(), (arg(F32, 2), arg(I64)), "it must be a sequence"),
    Sample(SequenceAt(), (_XS, arg(F32)), "the position is f32"),
)

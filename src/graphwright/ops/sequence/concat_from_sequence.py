"""ConcatFromSequence."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.types import F32, I64, TensorType, sequence_of
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.sequence.containers import common_type, element_of


@op("ConcatFromSequence")
class ConcatFromSequence(Op):
    """Concatenates the tensors of a sequence along ``axis``; with ``new``, stacks them along a new axis
    ``axis``.
    """

    axis: int
    new: bool = False

    def infer(self, at: Inference, xs: Fact) -> TensorType | Fact:
        element = element_of(at, xs)
        if not xs.item_types:
            return TensorType(element, None)
        if any(held.shape is None for held in xs.item_types):
            return common_type(element, None)
        parts = [Fact(held) for held in xs.item_types]
        if self.new:
            axis = at.axis(self.axis, parts[0].rank + 1)
            parts = [_unsqueezed(at, part, axis) for part in parts]
        return Concat(self.axis).infer(at, *parts)

    def reference(self, xs: list[Any]) -> Array:
        return np.stack(xs, self.axis) if self.new else np.concatenate(xs, self.axis)


def _unsqueezed(at: Inference, part: Fact, axis: int) -> Fact:
    inferred = Unsqueeze((axis,)).infer(at, part)
    return inferred if isinstance(inferred, Fact) else Fact(inferred)


def _import(i: Importer) -> Any:
    return i.emit(ConcatFromSequence(int(i.required_attr("axis")), bool(i.attr("new_axis", 0))), i.input(0))


ConcatFromSequence.onnx = {("ConcatFromSequence", 11): _import}
ConcatFromSequence.to_onnx = as_onnx("ConcatFromSequence", axis="axis", new_axis="new")
_XS = arg(sequence_of(F32))
ConcatFromSequence.samples = (
    *(Sample(ConcatFromSequence(axis), (_XS,)) for axis in (0, 1, -1)),
    *(Sample(ConcatFromSequence(axis, new=True), (_XS,)) for axis in (0, 1, 2, -1, -3)),
    Sample(ConcatFromSequence(0), (arg(sequence_of(I64)),)),
    Sample(ConcatFromSequence(0), (arg(F32, 2),), "it must be a sequence"),
)

"""SequenceLength."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Array, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.types import F32, I64, TensorType, sequence_of
from graphwright.ops.core.imports import simple
from graphwright.ops.sequence.containers import element_of


@op("SequenceLength")
class SequenceLength(Op):
    """The number of tensors in a sequence, as an i64 scalar."""

    def infer(self, at: Inference, xs: Fact) -> Fact:
        element_of(at, xs)
        return Fact(TensorType(I64, ()), None if xs.item_types is None else (len(xs.item_types),))

    def reference(self, xs: list[Any]) -> Array:
        return np.array(len(xs), np.int64)


SequenceLength.onnx = {("SequenceLength", 11): simple(SequenceLength)}
SequenceLength.to_onnx = as_onnx("SequenceLength")
SequenceLength.samples = (
    Sample(SequenceLength(), (arg(sequence_of(F32)),)),
    Sample(SequenceLength(), (arg(F32, 2),), "it must be a sequence"),
)

"""SequenceEmpty."""

from __future__ import annotations

from typing import Any

from graphwright.ir.op import Fact, Importer, Inference, Op, Sample, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.types import F32, I64, STRING, DType
from graphwright.ops.core.imports import dtype_attribute
from graphwright.ops.sequence.containers import sequence_fact


@op("SequenceEmpty")
class SequenceEmpty(Op):
    """An empty sequence of tensors of ``dtype``."""

    dtype: DType = F32

    def infer(self, at: Inference) -> Fact:
        return sequence_fact(self.dtype, ())

    def reference(self) -> list[Any]:
        return []


def _import(i: Importer) -> Any:
    return i.emit(SequenceEmpty(dtype_attribute(i, i.attr("dtype", 1))))


SequenceEmpty.onnx = {("SequenceEmpty", 11): _import}
SequenceEmpty.to_onnx = as_onnx("SequenceEmpty", dtype="dtype")
SequenceEmpty.samples = tuple(Sample(SequenceEmpty(dtype), ()) for dtype in (F32, I64, STRING))

"""OptionalHasElement."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.types import BOOL, F32, I64, TensorType, optional_of, sequence_of


@op("OptionalHasElement")
class OptionalHasElement(Op):
    """Whether an optional value has an element, as a bool scalar. True for tensors and sequences, false if
    the input is absent.
    """

    optional_inputs = frozenset({0})

    def infer(self, at: Inference, x: Fact | None = None) -> Fact:
        known = None if x is not None and x.dtype.kind == "optional" else (int(x is not None),)
        return Fact(TensorType(BOOL, ()), known)

    def reference(self, x: Any = None) -> Array:
        return np.array(x is not None)


def _import(i: Importer) -> Any:
    x = i.optional(0)
    return i.emit(OptionalHasElement(), *([] if x is None else [x]))


OptionalHasElement.onnx = {("OptionalHasElement", version): _import for version in (15, 18, 28)}
OptionalHasElement.to_onnx = as_onnx("OptionalHasElement")
OptionalHasElement.samples = (
    Sample(OptionalHasElement(), (arg(optional_of(F32)),)),
    Sample(OptionalHasElement(), (arg(optional_of(sequence_of(I64))),)),
    Sample(OptionalHasElement(), (arg(F32, 2),)),
    Sample(OptionalHasElement(), (arg(sequence_of(F32)),)),
    Sample(OptionalHasElement(), ()),
)

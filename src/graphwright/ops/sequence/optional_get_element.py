"""OptionalGetElement."""

from __future__ import annotations

from typing import Any

from graphwright.ir.op import Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.types import F32, I64, TensorType, optional_of, sequence_of


@op("OptionalGetElement")
class OptionalGetElement(Op):
    """The element of an optional value. An empty optional is an error at run time."""

    def infer(self, at: Inference, x: Fact) -> Fact:
        if x.dtype.kind != "optional" or x.dtype.element is None:
            raise at.fail(f"the input is {x.type}; it must be an optional")
        element = x.dtype.element
        if element.element is not None:
            return Fact(TensorType(element, ()), item_types=x.item_types)
        return Fact(x.item_types[0] if x.item_types else TensorType(element, None))

    def reference(self, x: Any) -> Any:
        if x is None:
            raise InferError("the optional is empty")  # inference has no fact about an empty one
        return x


def _import(i: Importer) -> Any:
    x = i.input(0)  # from opset 18 on, a tensor or sequence is returned unchanged
    return i.emit(OptionalGetElement(), x) if x.type.dtype.kind == "optional" else x


OptionalGetElement.onnx = {("OptionalGetElement", version): _import for version in (15, 18, 28)}
OptionalGetElement.to_onnx = as_onnx("OptionalGetElement")
OptionalGetElement.samples = (
    Sample(OptionalGetElement(), (arg(optional_of(F32)),)),
    Sample(OptionalGetElement(), (arg(optional_of(sequence_of(I64))),)),
    Sample(OptionalGetElement(), (arg(F32, 2),), "it must be an optional"),
)

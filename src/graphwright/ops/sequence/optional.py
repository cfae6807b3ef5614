"""Optional."""

from __future__ import annotations

from typing import Any

from graphwright.ir.op import Fact, Importer, Inference, Op, Sample, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, I64, DType, TensorType, optional_of, sequence_of


@op("Optional")
class Optional(Op):
    """An optional value that holds the input. Without an input it is empty, and of type
    ``optional(element)``.
    """

    element: DType = F32

    def infer(self, at: Inference, x: Fact | None = None) -> Fact:
        if x is None:
            return Fact(TensorType(optional_of(self.element), ()))
        if x.dtype.kind == "optional":
            raise at.fail(f"the input is {x.dtype}; an optional cannot contain an optional")
        return Fact(
            TensorType(optional_of(x.dtype), ()),
            item_types=(x.type,) if x.item_types is None else x.item_types,
        )

    def reference(self, x: Any = None) -> Any:
        return x


def _import(i: Importer) -> Any:
    x = i.optional(0)
    if x is not None:
        return i.emit(Optional(x.type.dtype), x)
    return i.emit(Optional(i.required_attr("type")))


Optional.onnx = {("Optional", version): _import for version in (15, 28)}
Optional.samples = (
    Sample(Optional(), (arg(F32, 2, symbol("N")),)),
    Sample(Optional(I64), ()),
    Sample(Optional(sequence_of(I64)), ()),
    Sample(Optional(sequence_of(F32)), (arg(sequence_of(F32)),)),
    Sample(Optional(), (arg(optional_of(F32)),), "cannot contain an optional"),
)

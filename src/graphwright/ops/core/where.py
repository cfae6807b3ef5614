"""Where."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.loops.nodes import Scalar, select
from graphwright.ir.op import Array, AtenImporter, Fact, Inference, Op, Sample, Trait, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import Dim
from graphwright.ir.types import BOOL, F16, F32, F64, I64, STRING, TensorType
from graphwright.ops.core.aten_imports import by_overload
from graphwright.ops.core.checks import need_dtype, same_dtype
from graphwright.ops.core.imports import simple
from graphwright.ops.core.known_elements import elementwise_fact
from graphwright.ops.core.references import like


@op("Where")
class Where(Op):
    """``a`` where ``condition`` is true, else ``b``; the three operands are broadcast."""

    traits = Trait.ELEMENTWISE

    def infer(self, at: Inference, condition: Fact, a: Fact, b: Fact) -> TensorType | Fact:
        need_dtype(at, condition, {BOOL}, "the condition")
        type = TensorType(same_dtype(at, a, b), at.broadcast(condition.shape, a.shape, b.shape))
        return elementwise_fact(type, (condition, a, b), _select_element, may_be_unknown=True)

    def reference(self, condition: Array, a: Array, b: Array) -> Array:
        return like(np.where(condition, a, b), a)

    def expression(self, condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
        return select(condition, a, b)


def _select_element(condition: Dim | None, a: Dim | None, b: Dim | None) -> Dim | None:
    """The selected element; if the condition is unknown or symbolic, the element that both operands have."""
    if isinstance(condition, int):
        return a if condition else b
    return a if a == b else None


def _aten_where(i: AtenImporter) -> Any:
    return i.emit(Where(), i.input(0), *i.promoted(1, 2))


Where.onnx = {("Where", 9): simple(Where)}
Where.to_onnx = as_onnx("Where")
Where.aten = by_overload("where", _aten_where, "self", "ScalarOther", "ScalarSelf", "Scalar")
Where.samples = (
    *(Sample(Where(), (arg(BOOL, 3, 4), arg(t, 3, 4), arg(t, 3, 4))) for t in (F32, I64, BOOL, F16)),
    Sample(Where(), (arg(BOOL, 3, 1), arg(F32, 1, 4), arg(F32))),
    Sample(Where(), (arg(BOOL, 2), arg(STRING, 2), arg(STRING, 1))),
    Sample(Where(), (arg(BOOL, 2, values=(1, 0)), arg(I64, 2, values=(7, 8)), arg(I64, 2, values=(1, 2)))),
    Sample(Where(), (arg(I64, 2), arg(F32, 2), arg(F32, 2)), "the condition is i64"),
    Sample(Where(), (arg(BOOL, 2), arg(F32, 2), arg(F64, 2)), "one dtype"),
    Sample(Where(), (arg(BOOL, 2), arg(F32, 3), arg(F32, 3)), "2 and 3 differ"),
)

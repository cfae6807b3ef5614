"""Clip."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.loops.nodes import Const, Operand, Scalar, maximum, minimum
from graphwright.ir.op import Array, AtenImporter, Fact, Importer, Inference, Op, Sample, Trait, arg, op
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.symbols import Dim, SymbolTable, symbol
from graphwright.ir.types import F16, F32, F64, I32, I64, U8, TensorType
from graphwright.ops.core.aten_imports import number
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.checks import NUMBERS, need_dtype, need_scalar
from graphwright.ops.core.known_elements import elementwise_fact
from graphwright.ops.core.references import like
from graphwright.records import replace

Number = int | float


@op("Clip")
class Clip(Op):
    """``min(max(x, low), high)``; NaN stays NaN. The bounds are attributes, or operands 1 and 2, which are
    scalars.
    """

    low: Number | None = None
    high: Number | None = None
    traits = Trait.ELEMENTWISE
    optional_inputs = frozenset({1, 2})

    def fold_operands(
        self, x: Fact, low: Fact | None = None, high: Fact | None = None
    ) -> tuple[Op, tuple[int, ...]] | None:
        """Folds constant bounds: all of them or none, so that no operand changes its position."""
        facts = [fact for fact in (low, high) if fact is not None]
        if not facts or any(_number(fact) is None for fact in facts):
            return None
        folded = self
        if low is not None:
            folded = replace(folded, low=_number(low))
        if high is not None:
            folded = replace(folded, high=_number(high))
        return folded, (0,)

    def infer(
        self, at: Inference, x: Fact, low: Fact | None = None, high: Fact | None = None
    ) -> TensorType | Fact:
        need_dtype(at, x, NUMBERS)
        for bound, what in ((low, "the lower bound"), (high, "the upper bound")):
            if bound is None:
                continue
            need_dtype(at, bound, {x.dtype}, what)
            need_scalar(at, bound, what)
        operands = [x, *(b for b in (low, high) if b is not None)]
        return (
            elementwise_fact(x.type, operands, partial(self._clipped, at.symbols))
            if len(operands) == 1 and x.dtype.is_integer
            else x.type
        )

    def _clipped(self, symbols: SymbolTable, x: Dim) -> Dim:
        if self.low is not None:
            x = symbols.larger(x, int(self.low))
        return x if self.high is None else symbols.smaller(x, int(self.high))

    def forwarded_operand(self, gives: TensorType, x: Fact, *bounds: Fact | None) -> int | None:
        return 0 if self.low is None and self.high is None and not any(bounds) else None

    def reference(self, x: Array, low: Array | None = None, high: Array | None = None) -> Array:
        for bound, given, limit in ((self.low, low, np.maximum), (self.high, high, np.minimum)):
            if given is not None:
                x = limit(x, given.reshape(()))
            elif bound is not None:
                x = limit(x, like(_representable(bound, x), x))
        return np.asarray(x)

    def expression(self, x: Scalar, low: Scalar | None = None, high: Scalar | None = None) -> Scalar:
        lower: Operand | None = low if low is not None else _literal(self.low, x)
        upper: Operand | None = high if high is not None else _literal(self.high, x)
        if lower is not None:
            x = maximum(x, lower)
        return x if upper is None else minimum(x, upper)


def _number(fact: Fact) -> Number | None:
    if fact.data is not None and fact.data.size == 1:
        item = fact.data.reshape(()).astype(np.float64 if fact.dtype.is_float else fact.data.dtype).item()
        return float(item) if fact.dtype.is_float else int(item)
    if fact.elements is not None and len(fact.elements) == 1 and isinstance(fact.elements[0], int):
        return fact.elements[0]
    return None


def _representable(bound: Number, x: Array) -> Number:
    """``bound``; for integers clamped to the range of their dtype."""
    if x.dtype.kind not in "iu":
        return bound
    info = np.iinfo(x.dtype)
    return int(max(min(bound, int(info.max)), int(info.min)))


def _literal(bound: Number | None, x: Scalar) -> Const | None:
    if bound is None:
        return None
    return Const(_representable(bound, np.empty(0, x.dtype.numpy)), x.dtype)


def _import_attributes(i: Importer) -> Any:
    return i.emit(
        Clip(float(i.attr("min", -3.4028234663852886e38)), float(i.attr("max", 3.4028234663852886e38))),
        i.input(0),
    )


def _import_operands(i: Importer) -> Any:
    return i.emit(Clip(), i.input(0), i.optional(1), i.optional(2))


def _export(e: Exporter, op: Clip, x: Value, *operands: Value | None) -> Any:
    array = np.empty(0, x.type.dtype.numpy)
    bounds = [
        None if b is None else e.const(like(_representable(b, array), array)) for b in (op.low, op.high)
    ]
    return e.emit("Clip", x, *(operands or bounds))


Clip.to_onnx = _export
Clip.onnx = {("Clip", 6): _import_attributes, ("Clip", 11): _import_operands}
Clip.samples = (
    Sample(Clip(-0.5, 0.5), (arg(F32, 3, 5),)),
    Sample(Clip(0.0, 6.0), (arg(F64, 3, symbol("N")),)),
    Sample(Clip(0.0), (arg(F16, 3, 5),)),
    Sample(Clip(None, 1), (arg(I64, 4, values=(-1, 0, 1, 2)),)),
    Sample(Clip(1, 3), (arg(U8, 5),)),
    Sample(Clip(0.5, -0.5), (arg(F32, 5),)),
    Sample(Clip(), (arg(F32, 3),)),
    Sample(Clip(), (arg(F32, 3, 4), arg(F32, values=(-0.25,)), arg(F32, values=(0.25,)))),
    Sample(Clip(), (arg(F32, 3, 4), arg(F32, values=(-0.25,)))),
    Sample(Clip(), (arg(F32, 3, 4), None, arg(F32))),
    Sample(Clip(), (arg(F32, 3, 4), arg(F32), arg(F32))),
    Sample(Clip(), (arg(I32, 3, 4), arg(I32, values=(-1,)), arg(I32, values=(2,)))),
    Sample(Clip(), (arg(F32, 3), arg(F64)), "the lower bound is f64"),
    Sample(Clip(), (arg(F32, 3), None, arg(F32, 3)), "must be a scalar"),
)


def _aten_clamp(i: AtenImporter) -> Any:
    bounds = [i.number(name) for name in _BOUND_NAMES[i.op_type.split(".")[1]]]
    x = i.result(i.input(0))
    if not any(isinstance(bound, Value) for bound in bounds):
        return i.emit(Clip(*bounds), x)
    given = [bound if bound is None or isinstance(bound, Value) else number(i, bound, x) for bound in bounds]
    return i.emit(
        Clip(), x, *(None if bound is None else i.emit(Cast(x.type.dtype), bound) for bound in given)
    )


_BOUND_NAMES = {"clamp": ("min", "max"), "hardtanh": ("min_val", "max_val")}
Clip.aten = {
    "clamp": _aten_clamp,
    "hardtanh": _aten_clamp,
    "relu6": lambda i: i.emit(Clip(0.0, 6.0), i.input(0)),
}

"""Binarizer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphwright.ir.loops.nodes import Const, Scalar, select
from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, Trait, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, F64, I32, I64, STRING, DType, TensorType, dtype_of
from graphwright.ops.core.checks import need_dtype
from graphwright.ops.core.references import like

DTYPES = frozenset({F32, F64, I64, I32})


@op("Binarizer")
class Binarizer(Op):
    """1 if ``x > threshold``, else 0, in the dtype of ``x``."""

    threshold: float = 0.0
    traits = Trait.ELEMENTWISE

    def infer(self, at: Inference, x: Fact) -> TensorType:
        need_dtype(at, x, DTYPES)
        return x.type

    def reference(self, x: Array) -> Array:
        if x.dtype.kind == "f":
            return like(x > x.dtype.type(self.threshold), x)
        least = self._smallest_above(dtype_of(x))
        return np.zeros_like(x) if least is None else like(x >= least, x)

    def expression(self, x: Scalar) -> Scalar:
        zero, one = Const(0, x.dtype), Const(1, x.dtype)
        if x.dtype.is_float:
            return select(x > Const(self.threshold, x.dtype), one, zero)
        least = self._smallest_above(x.dtype)
        return (
            select(x >= Const(least, x.dtype), one, zero) if least is not None else select(x > x, one, zero)
        )

    def _smallest_above(self, dtype: DType) -> int | None:
        """The smallest integer of ``dtype`` above the threshold; None if there is none."""
        low, end = -(1 << dtype.bits - 1), 1 << dtype.bits - 1
        if math.isnan(self.threshold) or self.threshold >= end - 1:
            return None
        return low if self.threshold < low else math.floor(self.threshold) + 1


def _import(i: Importer) -> Any:
    return i.emit(Binarizer(float(i.attr("threshold", 0.0))), i.input(0))


Binarizer.onnx = {("Binarizer", 1, "ai.onnx.ml"): _import}
_INTEGERS = arg(I32, 5, values=(-(2**31), -1, 0, 1, 2**31 - 1))
_EDGE = (0.0, -0.0, 1.0, float("inf"), float("-inf"), float("nan"))
Binarizer.samples = (
    *(Sample(Binarizer(0.5), (arg(t, 4, 5),)) for t in (F32, F64, I64, I32)),
    *(Sample(Binarizer(t), (_INTEGERS,)) for t in (-0.5, 0.0, 1.0, 2.0**31, -(2.0**31), -1e30, 1e30)),
    *(Sample(Binarizer(t), (arg(F32, 6, values=_EDGE),)) for t in _EDGE),
    *(Sample(Binarizer(t), (_INTEGERS,)) for t in _EDGE),
    Sample(Binarizer(), (arg(F32, symbol("N"), 3),)),
    Sample(Binarizer(), (arg(F32),)),
    Sample(Binarizer(), (arg(STRING, 2),), "the input is string"),
)

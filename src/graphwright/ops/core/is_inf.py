"""IsInf."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphwright.ir.loops.nodes import Const, Scalar, apply
from graphwright.ir.op import Array, Importer, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.types import BF16, BOOL, F16, F32, F64, I32
from graphwright.ops.core.cast import in_wide_float
from graphwright.ops.core.pointwise import Pointwise


@op("IsInf")
class IsInf(Pointwise):
    """Whether ``x`` is infinite, with a sign that ``detect_negative`` and ``detect_positive`` select."""

    detect_negative: bool = True
    detect_positive: bool = True
    gives = BOOL

    def reference(self, x: Array) -> Array:
        return np.asarray((self.detect_positive & (x == np.inf)) | (self.detect_negative & (x == -np.inf)))

    def expression(self, x: Scalar) -> Scalar:
        if self.detect_negative and self.detect_positive:
            return apply("isinf", x)
        if not (self.detect_negative or self.detect_positive):
            return Const(value=False, dtype=BOOL)
        return apply("eq", x, math.inf if self.detect_positive else -math.inf)


def _import(i: Importer) -> Any:
    op = IsInf(bool(i.attr("detect_negative", 1)), bool(i.attr("detect_positive", 1)))
    return i.emit(op, in_wide_float(i.builder, i.input(0)))


IsInf.onnx = {("IsInf", 10): _import}
IsInf.to_onnx = as_onnx("IsInf", detect_negative="detect_negative", detect_positive="detect_positive")
IsInf.samples = (
    *(Sample(IsInf(), (arg(dtype, 3, 5),)) for dtype in (F32, F64, F16, BF16)),
    Sample(IsInf(detect_negative=False), (arg(F32, 3, 5),)),
    Sample(IsInf(detect_positive=False), (arg(F32, 3, 5),)),
    Sample(IsInf(detect_negative=False, detect_positive=False), (arg(F32, 3, 5),)),
    Sample(IsInf(), (arg(F32),)),
    Sample(IsInf(), (arg(I32, 2),), "the operand is i32"),
)

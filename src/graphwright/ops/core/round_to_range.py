"""RoundToRange, the rounding and saturation of a quantization. An op of graphwright, without ONNX
counterpart.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from graphwright.ir.loops.nodes import Const, Scalar, apply
from graphwright.ir.op import Array, Fact, Inference, InferError, Op, Sample, Trait, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F16, F32, F64, TensorType
from graphwright.ops.core.checks import need_broadcast, need_dtype, same_dtype
from graphwright.ops.core.references import quiet

_MOST: Final = 1 << 16
"""The largest integers of the function ``quantize``."""


def _is_small_integer(number: float) -> bool:
    return -_MOST <= number <= _MOST and float(number).is_integer()


@op("RoundToRange")
class RoundToRange(Op):
    """``x`` rounded to integers (ties to even), plus the optional ``zero``, clipped to [low, high]; NaN
    becomes ``low``. Floats in, floats out.
    """

    low: float = 0.0
    high: float = 255.0
    traits = Trait.ELEMENTWISE
    optional_inputs = frozenset({1})

    def verify(self) -> None:
        if not self.low <= self.high:
            raise InferError(f"the range [{self.low}, {self.high}] is empty")

    def infer(self, at: Inference, x: Fact, zero: Fact | None = None) -> TensorType:
        need_dtype(at, x, {F32, F64})
        if zero is not None:
            same_dtype(at, x, zero)
            need_broadcast(at, zero, x.shape, "the zero point")
        return x.type

    @quiet
    def reference(self, x: Array, zero: Array | None = None) -> Array:
        return round_to_range(x, zero, self.low, self.high)

    def expression(self, x: Scalar, zero: Scalar | None = None) -> Scalar:
        zero = Const(0.0, x.dtype) if zero is None else zero
        numbers = (self.low, self.high, zero.value) if isinstance(zero, Const) else ()
        if numbers and all(map(_is_small_integer, numbers)):
            return apply("quantize", x, zero, self.low, self.high)
        return apply("clamp", apply("round", x) + zero, self.low, self.high)


def round_to_range(x: Array, zero: Array | None, low: float, high: float) -> Array:
    """:class:`RoundToRange` of an array of f32 or f64."""
    nearest = np.rint(x) if zero is None else np.rint(x) + zero
    return np.asarray(np.minimum(np.fmax(nearest, nearest.dtype.type(low)), nearest.dtype.type(high)))


_EDGES = (0.5, 1.5, -0.5, -2.5, 254.5, 255.5, 1e30, -1e30, float("inf"), float("-inf"), float("nan"))
RoundToRange.samples = (
    *(Sample(RoundToRange(), (arg(t, 11, values=_EDGES),)) for t in (F32, F64)),
    Sample(RoundToRange(-128.0, 127.0), (arg(F32, 11, values=_EDGES), arg(F32, values=(3,)))),
    Sample(RoundToRange(), (arg(F32, symbol("N"), 4), arg(F32, 4))),
    Sample(RoundToRange(1.0, 0.0), (arg(F32, 3),), "the range [1.0, 0.0] is empty"),
    Sample(RoundToRange(), (arg(F16, 3),), "the input is f16"),
    Sample(RoundToRange(), (arg(F32, 3), arg(F32, 4)), "the zero point"),
)

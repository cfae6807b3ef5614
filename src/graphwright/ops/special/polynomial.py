"""Polynomial. An op of graphwright, without ONNX counterpart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.ir.loops.nodes import Const, Scalar
from graphwright.ir.op import Array, InferError, Sample, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F16, F32, F64, I32
from graphwright.ops.core.pointwise import Pointwise
from graphwright.ops.core.references import like, quiet


def horner(x: Array, coefficients: Sequence[Any]) -> Array:
    """The polynomial by Horner's scheme. The first coefficient is that of the constant term."""
    total = np.full_like(x, coefficients[-1])
    for each in reversed(coefficients[:-1]):
        total = total * x + each
    return total


@op("Polynomial")
class Polynomial(Pointwise):
    """``coefficients[0] + coefficients[1] * x + coefficients[2] * x**2 ...``, by Horner's scheme."""

    coefficients: tuple[float, ...] = (0.0, 1.0)

    def verify(self) -> None:
        if not self.coefficients:
            raise InferError("there are no coefficients")

    @quiet
    def reference(self, x: Array) -> Array:
        return like(horner(x, [like(each, x) for each in self.coefficients]), x)

    def expression(self, x: Scalar) -> Scalar:
        total: Scalar = Const(self.coefficients[-1], x.dtype)
        for each in reversed(self.coefficients[:-1]):
            total = total * x + each
        return total


Polynomial.samples = (
    *(Sample(Polynomial((1.0, -0.5, 0.25, 2.0)), (arg(t, 2, 7),)) for t in (F32, F64, F16)),
    Sample(Polynomial((0.5,)), (arg(F32, symbol("N")),)),
    Sample(Polynomial(), (arg(F32),)),
    Sample(Polynomial(), (arg(F32, 0, 3),)),
    Sample(Polynomial(()), (arg(F32, 2),), "no coefficients"),
    Sample(Polynomial(), (arg(I32, 2),), "the operand is"),
)

"""Pow."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.loops.nodes import Scalar, apply, select
from graphwright.ir.op import Array, AtenImporter, Importer, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.types import F64
from graphwright.ops.core.aten_imports import by_overload, elementwise, number
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.checks import NUMBERS
from graphwright.ops.core.elementwise_samples import binary_samples
from graphwright.ops.core.pointwise import Pointwise
from graphwright.ops.core.references import like, quiet


@op("Pow")
class Pow(Pointwise):
    """``a ** b``; integers are truncated towards zero"""

    dtypes = NUMBERS

    @quiet
    def reference(self, a: Array, b: Array) -> Array:
        if a.dtype.kind not in "iu":
            return like(np.power(a, b), a)
        raised = np.power(a, np.maximum(b, 0))
        odd = np.where(b % 2 == 0, 1, a)
        return like(np.where(b >= 0, raised, np.where(np.abs(a) == 1, odd, 0)), a)

    def expression(self, a: Scalar, b: Scalar) -> Scalar:
        if a.dtype.is_float or a.dtype.kind == "uint":
            return apply("pow", a, b)
        odd = select(apply("eq", apply("rem", b, 2), 0), 1, a)
        fraction = select(apply("eq", apply("abs", a), 1), odd, 0)
        return select(b >= 0, apply("pow", a, apply("max", b, 0)), fraction)


def _import(i: Importer) -> Any:
    """Exponents of another dtype are cast to that of the base. An integer base with a float exponent is
    computed in a float dtype that can represent both.
    """
    base, exponent = i.input(0), i.input(1)
    own, other = base.type.dtype, exponent.type.dtype
    if own == other:
        return i.emit(Pow(), base, exponent)
    if own.is_integer and other.is_float:
        wide = F64 if own.bits > 16 else other  # f32 cannot represent all 32-bit integers
        return i.emit(Cast(own), i.emit(Pow(), i.emit(Cast(wide), base), i.emit(Cast(wide), exponent)))
    return i.emit(Pow(), base, i.emit(Cast(own), exponent))


def _aten_exp2(i: AtenImporter) -> Any:
    (x,) = i.promoted(0, floats=True)
    return i.emit(Pow(), number(i, 2, x), x)


Pow.onnx = {("Pow", 7): _import}
Pow.to_onnx = as_onnx("Pow")
Pow.aten = {
    **by_overload("pow", elementwise(Pow(), 2), "Tensor_Tensor", "Tensor_Scalar", "Scalar"),
    "exp2": _aten_exp2,
}
Pow.samples = binary_samples(Pow(), NUMBERS)

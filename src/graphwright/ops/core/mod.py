"""Mod."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.loops.nodes import Scalar, apply
from graphwright.ir.op import Array, Inference, op
from graphwright.ir.op.exporter import Exporter, Operand
from graphwright.ir.symbols import Dim, mod
from graphwright.ops.core.aten_imports import BOTH_WAYS, TENSOR_OR_NUMBER, by_overload, elementwise
from graphwright.ops.core.checks import NUMBERS
from graphwright.ops.core.elementwise_samples import binary_samples
from graphwright.ops.core.imports import with_attributes
from graphwright.ops.core.pointwise import Pointwise
from graphwright.ops.core.references import like, quiet


@op("Mod")
class Mod(Pointwise):
    """The remainder of ``a / b``. It has the sign of ``b``, with ``fmod`` that of ``a``. The remainder of a
    division by the integer 0 is 0.
    """

    fmod: bool = False
    dtypes = NUMBERS

    def known(self, at: Inference, *elements: Dim) -> Dim | None:
        (a, b), symbols = elements, at.symbols
        if not symbols.proves_at_least(b, 0) or (self.fmod and not symbols.proves_at_least(a, 0)):
            return None
        for near in (a, a + b):
            if symbols.proves_at_least(near, 0) and symbols.proves_at_least(b - near, 1):
                return near
        return mod(a, symbols.larger(b, 1))  # x mod 1 is 0 as well

    @quiet
    def reference(self, a: Array, b: Array) -> Array:
        return like(np.fmod(a, b) if self.fmod else np.mod(a, b), a)

    def expression(self, a: Scalar, b: Scalar) -> Scalar:
        return apply("rem" if self.fmod else "mod", a, b)


def _export(e: Exporter, op: Mod, a: Operand, b: Operand) -> Any:
    """Before opset 28, floats required ``fmod``."""
    floats = isinstance(a, Value) and a.type.dtype.is_float
    return e.emit("Mod", a, b, since=28 if floats and not op.fmod else 1, fmod=op.fmod)


Mod.onnx = {("Mod", 10): with_attributes(Mod)}
Mod.to_onnx = _export
Mod.aten = {
    **by_overload("remainder", elementwise(Mod(), 2), *BOTH_WAYS),
    **by_overload("fmod", elementwise(Mod(fmod=True), 2), *TENSOR_OR_NUMBER),
}
Mod.samples = (
    *binary_samples(Mod(), NUMBERS, divisor=True),
    *binary_samples(Mod(fmod=True), NUMBERS, divisor=True),
)

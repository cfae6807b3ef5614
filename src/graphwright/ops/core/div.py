"""Div."""

from __future__ import annotations

from graphwright.ir.loops.functions import FUNCTIONS
from graphwright.ir.loops.nodes import Scalar, apply
from graphwright.ir.op import Array, Inference, op
from graphwright.ir.symbols import Dim, floordiv, mod
from graphwright.ops.core.checks import NUMBERS
from graphwright.ops.core.elementwise_samples import binary_samples
from graphwright.ops.core.imports import simple
from graphwright.ops.core.pointwise import Pointwise
from graphwright.ops.core.references import like, quiet


@op("Div")
class Div(Pointwise):
    """``a / b``. Integers are truncated towards zero; the quotient of an integer and 0 is 0.

    ``by_sum``: the operands are floats, ``b >= 1`` is a sum of nonnegative numbers, and ``a`` is one of them,
    as in softmax. The kernel then needs fewer instructions.
    """

    by_sum: bool = False
    dtypes = NUMBERS

    @quiet
    def reference(self, a: Array, b: Array) -> Array:
        return like(FUNCTIONS["div"].numpy(a, b), a)

    def expression(self, a: Scalar, b: Scalar) -> Scalar:
        return apply("div_by_sum" if self.by_sum else "div", a, b)

    def known(self, at: Inference, *elements: Dim) -> Dim | None:
        """The quotient of two numbers, or of symbolic operands that are not negative: their quotient,
        truncated towards zero, is floordiv. A divisor that may be 0 is assumed not to be.
        """
        a, b = elements
        if b == 0:
            return 0
        if isinstance(a, int) and isinstance(b, int):
            return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        if not at.symbols.proves_at_least(a, 0) or not at.symbols.proves_at_least(b, 0):
            return None
        return floordiv(a, b) if at.not_less(b, 1) else None

    def known_real(self, at: Inference, *elements: Dim) -> Dim | None:
        """The quotient if there is no remainder."""
        a, b = elements
        return floordiv(a, b) if at.symbols.proves_at_least(b, 1) and mod(a, b) == 0 else None


Div.onnx = {("Div", 7): simple(Div)}
Div.to_onnx = lambda e, op, a, b: e.emit("Div", a, b)
Div.samples = binary_samples(Div(), NUMBERS, divisor=True)

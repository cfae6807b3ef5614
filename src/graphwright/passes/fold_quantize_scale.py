"""Divides the scales of dequantized operands by that of the quantized sum or product, once and for all.

Exporters write a residual connection as ``quantize((a - za) * sa + (b - zb) * sb, sy)``. Instead of dividing
each sum by ``sy``, the operands are multiplied by the constants ``sa / sy`` and ``sb / sy``; a product is
multiplied once by ``sa * sb / sy``. The exact value is rounded at most 5 times either way, so a quantized
result differs by at most one step, and only if the exact value lies that close to the middle of two steps.
"""

from __future__ import annotations

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.match import Const, Match, Opt, P, Rule, Var
from graphwright.ir.types import F32
from graphwright.ops.core.binary import Add, Mul, Sub
from graphwright.ops.core.unary import Relu
from graphwright.ops.quantized.dequantize_linear import DequantizeLinear
from graphwright.ops.quantized.quantize_linear import QuantizeLinear
from graphwright.ops.quantized.quantized import BYTES, into_quantized, is_single, reshaped
from graphwright.passes.base import RulePass

A, A_SCALE, A_ZERO = Var("a"), Const("a_scale"), Opt("a_zero")
B, B_SCALE, B_ZERO = Var("b"), Const("b_scale"), Opt("b_zero")
LEFT, RIGHT = P(DequantizeLinear, A, A_SCALE, A_ZERO), P(DequantizeLinear, B, B_SCALE, B_ZERO)
RESULT = P((Add, Sub, Mul), LEFT, RIGHT, once=True)
POSITIVE = P(Relu, RESULT, once=True)
Y_SCALE, Y_ZERO = Const("y_scale"), Opt("y_zero")
QUANTIZED = P(QuantizeLinear, RESULT, Y_SCALE, Y_ZERO)
QUANTIZED_POSITIVE = P(QuantizeLinear, POSITIVE, Y_SCALE, Y_ZERO)
_LEAST, _MOST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max) / 255**2
"""The smallest and the largest factor with which results are normal and finite."""


def _ratios(m: Match) -> tuple[float, float]:
    """The factors of the left and the right operand."""
    a, b, y = (float(m.array(scale).item()) for scale in (A_SCALE, B_SCALE, Y_SCALE))
    return (1.0, a * b / y) if isinstance(m.op(RESULT), Mul) else (a / y, b / y)


def _refusal(m: Match) -> str | None:
    op = m.root.op
    assert isinstance(op, QuantizeLinear)
    if op.to not in BYTES or op.divides_in(m[Y_SCALE].type.dtype) != F32:
        return f"no quantization to bytes in f32, but to {op.to}"
    for pattern, value in ((LEFT, m[A]), (RIGHT, m[B])):
        if value.type.dtype not in BYTES or m.op(pattern).to != F32:
            return f"no bytes dequantized to f32, but {value.type.dtype} to {m.op(pattern).to}"
    for wildcard in (A_SCALE, A_ZERO, B_SCALE, B_ZERO, Y_SCALE, Y_ZERO):
        parameter = m.optional(wildcard)
        if parameter is not None and not is_single(parameter.type.dims):
            return "a scale or zero point varies along an axis"
    if not all(m.array(scale).item() > 0 for scale in (A_SCALE, B_SCALE, Y_SCALE)):
        return "a scale is not positive"
    if not all(_LEAST <= ratio <= _MOST for ratio in _ratios(m)):
        return "a ratio of scales is out of the range of f32"
    return None


def _folded(b: Builder, m: Match) -> Value:
    return _quantized(b, m, _result(b, m))


def _folded_positive(b: Builder, m: Match) -> Value:
    return _quantized(b, m, b(m.op(POSITIVE), _result(b, m)))


def _result(b: Builder, m: Match) -> Value:
    """The sum or product in steps of the quantization."""
    left, right = _ratios(m)
    result: Value = b(
        m.op(RESULT),
        b(DequantizeLinear(), m[A], b.const(left, F32), m.optional(A_ZERO)),
        b(DequantizeLinear(), m[B], b.const(right, F32), m.optional(B_ZERO)),
    )
    return result


def _quantized(b: Builder, m: Match, steps: Value) -> Value:
    op, zero = m.root.op, m.optional(Y_ZERO)
    assert isinstance(op, QuantizeLinear)
    return into_quantized(b, steps, None if zero is None else reshaped(b, zero, ()), op.to)


RULES: tuple[Rule, ...] = (
    Rule("quantized sum or product", QUANTIZED, _refusal, _folded),
    Rule("quantized sum or product of at least 0", QUANTIZED_POSITIVE, _refusal, _folded_positive),
)

FOLD_QUANTIZE_SCALE = RulePass("fold_quantize_scale", RULES)
"""The pass. It runs after products with constant weights have become integer products."""

"""Divides the scales of dequantized operands by that of the quantized sum, product or mean at compile time.

Exporters write a residual connection as ``quantize((a - za) * sa + (b - zb) * sb, sy)``. Instead of dividing
each sum by ``sy``, the operands are multiplied by the constants ``sa / sy`` and ``sb / sy``; a product is
multiplied once by ``sa * sb / sy``. A mean with the scale of its operand is then computed on whole numbers,
so ties are rounded to even as in exact arithmetic. The exact value is rounded at most 5 times either way, so
a quantized result differs by at most one step, and only if the exact value lies that close to the middle of
two steps.
"""

from __future__ import annotations

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.match import Const, Match, Opt, P, Rest, Rule, Var
from graphwright.ir.types import F32
from graphwright.ops.core.binary import Add, Mul, Sub
from graphwright.ops.core.reductions import ReduceMean
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.unary import Relu
from graphwright.ops.nn.average_pool import AveragePool
from graphwright.ops.nn.global_pool import GlobalAveragePool
from graphwright.ops.quantized.dequantize_linear import DequantizeLinear
from graphwright.ops.quantized.quantize_linear import QuantizeLinear
from graphwright.ops.quantized.quantized import BYTES, into_quantized, is_single
from graphwright.passes.rule_pass import RulePass

A, A_SCALE, A_ZERO = Var("a"), Const("a_scale"), Opt("a_zero")
B, B_SCALE, B_ZERO = Var("b"), Const("b_scale"), Opt("b_zero")
LEFT, RIGHT = P(DequantizeLinear, A, A_SCALE, A_ZERO), P(DequantizeLinear, B, B_SCALE, B_ZERO)
RESULT = P((Add, Sub, Mul), LEFT, RIGHT, once=True)
POSITIVE = P(Relu, RESULT, once=True)
AXES = Rest("axes")
MEAN = P((AveragePool, GlobalAveragePool, ReduceMean), LEFT, AXES, once=True)
Y_SCALE, Y_ZERO = Const("y_scale"), Opt("y_zero")
QUANTIZED = P(QuantizeLinear, RESULT, Y_SCALE, Y_ZERO)
QUANTIZED_POSITIVE = P(QuantizeLinear, POSITIVE, Y_SCALE, Y_ZERO)
QUANTIZED_MEAN = P(QuantizeLinear, MEAN, Y_SCALE, Y_ZERO)
_LEAST, _MOST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max) / 255**2
"""The smallest and the largest factor with which results are normal and finite."""


def _number(m: Match, scale: Const) -> float:
    return float(m.array(scale).item())


def _ratios(m: Match) -> tuple[float, float]:
    """The factors of the left and the right operand."""
    a, b, y = (_number(m, scale) for scale in (A_SCALE, B_SCALE, Y_SCALE))
    return (1.0, a * b / y) if isinstance(m.op(RESULT), Mul) else (a / y, b / y)


def _refusal(m: Match) -> str | None:
    refusal = _operand_refusal(m, LEFT, A, A_SCALE, A_ZERO) or _operand_refusal(m, RIGHT, B, B_SCALE, B_ZERO)
    return refusal or _result_refusal(m) or _range_refusal(*_ratios(m))


def _mean_refusal(m: Match) -> str | None:
    refusal = _operand_refusal(m, LEFT, A, A_SCALE, A_ZERO) or _result_refusal(m)
    return refusal or _range_refusal(_number(m, A_SCALE) / _number(m, Y_SCALE))


def _operand_refusal(m: Match, pattern: P[DequantizeLinear], x: Var, scale: Const, zero: Opt) -> str | None:
    dtype, to = m[x].type.dtype, m.op(pattern).to
    if dtype not in BYTES or to != F32:
        return f"it dequantizes {dtype} to {to}, not bytes to f32"
    return _scale_refusal(m, scale, zero)


def _result_refusal(m: Match) -> str | None:
    op = m.root.op
    assert isinstance(op, QuantizeLinear)
    divides_in = op.divides_in(m[Y_SCALE].type.dtype)
    if op.to not in BYTES or divides_in != F32:
        return f"it quantizes {divides_in} to {op.to}, not f32 to bytes"
    return _scale_refusal(m, Y_SCALE, Y_ZERO)


def _scale_refusal(m: Match, scale: Const, zero: Opt) -> str | None:
    given = m.optional(zero)
    if not is_single(m[scale].type.dims) or (given is not None and not is_single(given.type.dims)):
        return "a scale or zero point varies along an axis"
    return None if _number(m, scale) > 0 else "a scale is not positive"


def _range_refusal(*ratios: float) -> str | None:
    if all(_LEAST <= ratio <= _MOST for ratio in ratios):
        return None
    return "a ratio of scales is out of the range of f32"


def _folded(b: Builder, m: Match) -> Value:
    return _quantized(b, m, _result(b, m))


def _folded_positive(b: Builder, m: Match) -> Value:
    return _quantized(b, m, b(m.op(POSITIVE), _result(b, m)))


def _folded_mean(b: Builder, m: Match) -> Value:
    ratio = b.const(_number(m, A_SCALE) / _number(m, Y_SCALE), F32)
    steps = b(DequantizeLinear(), m[A], ratio, m.optional(A_ZERO))
    return _quantized(b, m, b(m.op(MEAN), steps, *m.rest(AXES)))


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
    Rule("quantized mean", QUANTIZED_MEAN, _mean_refusal, _folded_mean),
)

FOLD_QUANTIZE_SCALE = RulePass("fold_quantize_scale", RULES)
"""The pass. It runs after products with constant weights have become integer products."""

"""Products of dequantised bytes become products of the bytes, scaled afterwards.

What exporters write as DequantizeLinear, Conv, QuantizeLinear means ``sum((x - zx) * sx * (w - zw) * sw)`` in
f32. The integers are summed exactly instead and scaled once: ``f32(sum) * (sx * sw)`` (Jacob et al., 2018,
section 2.2), and where bytes follow, ``f32(sum) * (sx * sw / sy) + bias / sy``. That is off the value in real
numbers by at most 5 roundings of f32, 2**-21.6 of the larger term, whereas sums of K terms in f32 may be off
by K + 2 of them. So a result that is quantised again differs by one step at most, and only where the value
lies that close to the middle between two steps.
"""

from __future__ import annotations

from graphwright.ir.build import Builder
from graphwright.ir.constant import Constant
from graphwright.ir.graph import Value
from graphwright.ir.match import Const, Match, Opt, P, Rest, Rule, Var
from graphwright.ir.symbols import product
from graphwright.ir.types import F32, I32
from graphwright.ops.core.binary import Add, Div, Mul
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.gemm import Gemm
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.nn.conv import Conv
from graphwright.ops.quantized.conv_integer import ConvInteger, per_feature_value
from graphwright.ops.quantized.dequantize_linear import DequantizeLinear
from graphwright.ops.quantized.matmul_integer import MatMulInteger
from graphwright.ops.quantized.quantize_linear import QuantizeLinear
from graphwright.ops.quantized.quantized import BYTES, into_quantized, is_single, limits, reshaped
from graphwright.passes.base import RulePass

X, X_SCALE, X_ZERO = Var("x"), Var("x_scale"), Opt("x_zero")
W, W_SCALE, W_ZERO = Var("w"), Var("w_scale"), Opt("w_zero")
BIAS = Opt("bias")
LEFT, RIGHT = P(DequantizeLinear, X, X_SCALE, X_ZERO), P(DequantizeLinear, W, W_SCALE, W_ZERO)
CONV, MATMUL, GEMM = P(Conv, LEFT, RIGHT, BIAS), P(MatMul, LEFT, RIGHT), P(Gemm, LEFT, RIGHT, BIAS)
TURN = P(Transpose, RIGHT, where=lambda op: op.perm != (0, 1))
TURNED = P(MatMul, LEFT, TURN)
SUMS, RATIO, ADDEND = P(Cast, P((ConvInteger, MatMulInteger), Rest("operands"))), Var("ratio"), Var("addend")
SCALED = P(Mul, SUMS, RATIO, once=True)
Y_SCALE, Y_ZERO = Const("y_scale"), Opt("y_zero")
PLAIN = P(QuantizeLinear, SCALED, Y_SCALE, Y_ZERO)
BIASED = P(QuantizeLinear, P(Add, SCALED, ADDEND, once=True), Y_SCALE, Y_ZERO)

_MOST_TERMS = limits(I32)[1] // 255**2
"""Sums of so many products of differences of bytes stay in i32."""


def _refusal(m: Match, axis: int, terms: object) -> str | None:
    """Why the product of both operands cannot be one of bytes; ``axis`` of w is that of the result."""
    for pattern, value, scale in ((LEFT, m[X], m[X_SCALE]), (RIGHT, m[W], m[W_SCALE])):
        op = m.op(pattern)
        if value.type.dtype not in BYTES or scale.type.dtype != F32 or op.to != F32 or op.block:
            return f"no product of {value.type} scaled by {scale.type} to {op.to}"
        if scale.type.shape is None or value.type.shape is None:
            return "a rank is not known"
    for parameter in (m[X_SCALE], m.optional(X_ZERO)):
        if parameter is not None and not is_single(parameter.type.dims):
            return "scales along an axis of the left operand"
    rank = len(m[W].type.dims)
    if rank < 2:
        return "its right operand is a vector, which is summed as a whole"
    for parameter in (m[W_SCALE], m.optional(W_ZERO)):
        if (
            parameter is not None
            and not is_single(parameter.type.dims)
            and m.op(RIGHT).axis % rank != axis % rank
        ):
            return "scales along an axis that is summed"
    if not isinstance(terms, int) or terms > _MOST_TERMS:
        return f"sums of {terms} products may leave i32"
    return None


def _conv_refusal(m: Match) -> str | None:
    return _refusal(m, 0, product((m[W].type.shape or ())[1:]))


def _matmul_refusal(m: Match) -> str | None:
    shape = m[W].type.shape or ()
    return _refusal(m, -1, shape[-2:][0] if shape else None)


def _turned_refusal(m: Match) -> str | None:
    shape = m[W].type.shape or ()
    if len(shape) != 2:
        return "its right operand is no transposed matrix"
    return _refusal(m, 0, shape[1])


def _gemm_refusal(m: Match) -> str | None:
    op = m.op(GEMM)
    if op.alpha != 1 or op.beta != 1 or op.trans_a:
        return "its factors are scaled or its left operand transposed"
    shape = m[W].type.shape or (None, None)
    return _refusal(m, 0 if op.trans_b else 1, shape[1 if op.trans_b else 0])


def _scaled(b: Builder, m: Match, sums: Value, of_w: Value) -> Value:
    """Sums in f32, times both scales."""
    ratio = b(Mul(), reshaped(b, m[X_SCALE], ()), of_w)
    made: Value = b(Mul(), b(Cast(F32), sums), ratio)
    return made


def _conv(b: Builder, m: Match) -> Value:
    op, features = m.op(CONV), len(m[W].type.dims) - 1
    integer = ConvInteger(op.strides, op.pads, op.dilations, op.group, op.auto_pad)
    sums = b(integer, m[X], m[W], m.optional(X_ZERO), m.optional(W_ZERO))
    made = _scaled(b, m, sums, per_feature_value(b, m[W_SCALE], features))
    bias = m.optional(BIAS)
    return made if bias is None else b(Add(), made, per_feature_value(b, bias, features))


def _matmul(b: Builder, m: Match) -> Value:
    return _product(b, m, m[W])


def _turned(b: Builder, m: Match) -> Value:
    return _product(b, m, b(m.op(TURN), m[W]))


def _gemm(b: Builder, m: Match) -> Value:
    w: Value = b(Transpose((1, 0)), m[W]) if m.op(GEMM).trans_b else m[W]
    made, bias = _product(b, m, w), m.optional(BIAS)
    return made if bias is None else b(Add(), made, bias)


def _product(b: Builder, m: Match, w: Value) -> Value:
    sums = b(MatMulInteger(), m[X], w, m.optional(X_ZERO), m.optional(W_ZERO))
    of_w = m[W_SCALE]
    return _scaled(b, m, sums, reshaped(b, of_w, ()) if is_single(of_w.type.dims) else of_w)


def _requantised_refusal(m: Match) -> str | None:
    op = m.root.op
    assert isinstance(op, QuantizeLinear)
    if (
        op.to not in BYTES
        or op.divides_in(m[Y_SCALE].type.dtype) != F32
        or not is_single(m[Y_SCALE].type.dims)
    ):
        return f"steps of {m[Y_SCALE].type} to {op.to}"
    zero, addend = m.optional(Y_ZERO), m.optional(ADDEND)
    if zero is not None and not is_single(zero.type.dims):
        return "a zero point along an axis"
    if addend is not None and not _is_made_of_constants(addend):
        return "what is added is computed"
    return None


def _is_made_of_constants(value: Value, depth: int = 4) -> bool:
    """Whether ``value`` will be folded: it is the bias, dequantised and reshaped at most."""
    made = value.producer
    if made is None or isinstance(made.op, Constant):
        return made is not None
    return depth > 0 and all(v is None or _is_made_of_constants(v, depth - 1) for v in made.inputs)


def _requantised(b: Builder, m: Match) -> Value:
    op = m.root.op
    assert isinstance(op, QuantizeLinear)
    step, zero, addend = reshaped(b, m[Y_SCALE], ()), m.optional(Y_ZERO), m.optional(ADDEND)
    made = b(Mul(), m.node(SUMS).output, b(Div(), m[RATIO], step))
    if addend is not None:
        made = b(Add(), made, b(Div(), addend, step))
    return into_quantized(b, made, None if zero is None else reshaped(b, zero, ()), op.to)


RULES: tuple[Rule, ...] = (
    Rule("convolution of bytes", CONV, _conv_refusal, _conv),
    Rule("product of bytes", MATMUL, _matmul_refusal, _matmul),
    Rule("product of transposed bytes", TURNED, _turned_refusal, _turned),
    Rule("product of bytes with a bias", GEMM, _gemm_refusal, _gemm),
    Rule("product of bytes to bytes", PLAIN, _requantised_refusal, _requantised),
    Rule("product of bytes with a bias to bytes", BIASED, _requantised_refusal, _requantised),
)

INTEGER_PRODUCTS = RulePass("integer_products", RULES)
"""The pass. It runs before constants are folded: dequantised weights would be floats from then on."""

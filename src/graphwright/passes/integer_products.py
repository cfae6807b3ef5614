"""Replaces products of dequantized 8-bit values by integer products, scaled afterwards.

DequantizeLinear, Conv, QuantizeLinear, as exporters write them, mean ``sum((x - zx) * sx * (w - zw) * sw)``
in f32. Instead, the integers are summed exactly and scaled once: ``f32(sum) * (sx * sw)`` (Jacob et al.,
2018, section 2.2), or, before a quantization, ``f32(sum) * (sx * sw / sy) + bias / sy``. The error against
real arithmetic is at most 5 roundings of f32, 2**-21.6 of the larger term, while a sum of K terms in f32 can
accumulate K + 2 roundings. So a requantized result differs by at most one step, and only if the exact value
lies that close to the middle of two steps.
"""

from __future__ import annotations

from math import prod

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Module, Value
from graphwright.ir.match import Const, Match, Opt, P, Rest, Rule, Var, constant_array
from graphwright.ir.symbols import product
from graphwright.ir.types import F32, I32
from graphwright.ops.core.binary import Add, Mul
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.div import Div
from graphwright.ops.core.gemm import Gemm
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.reshape import Reshape, reshaped
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.nn.conv import Conv
from graphwright.ops.quantized.conv_integer import ConvInteger, per_feature_value
from graphwright.ops.quantized.dequantize_linear import DequantizeLinear
from graphwright.ops.quantized.matmul_integer import MatMulInteger
from graphwright.ops.quantized.quantize_linear import QuantizeLinear
from graphwright.ops.quantized.quantized import BYTES, into_quantized, is_single, limits
from graphwright.passes.rule_pass import RulePass

X, X_SCALE, X_ZERO = Var("x"), Var("x_scale"), Opt("x_zero")
W, W_SCALE, W_ZERO = Var("w"), Var("w_scale"), Opt("w_zero")
BIAS = Opt("bias")
LEFT, RIGHT = P(DequantizeLinear, X, X_SCALE, X_ZERO), P(DequantizeLinear, W, W_SCALE, W_ZERO)
CONV, MATMUL, GEMM = P(Conv, LEFT, RIGHT, BIAS), P(MatMul, LEFT, RIGHT), P(Gemm, LEFT, RIGHT, BIAS)
TRANSPOSED_RIGHT = P(Transpose, RIGHT, where=lambda op: op.perm != (0, 1))
MATMUL_TRANSPOSED = P(MatMul, LEFT, TRANSPOSED_RIGHT)
SUMS, RATIO, ADDEND = P(Cast, P((ConvInteger, MatMulInteger), Rest("operands"))), Var("ratio"), Var("addend")
SCALED = P(Mul, SUMS, RATIO, once=True)
Y_SCALE, Y_ZERO = Const("y_scale"), Opt("y_zero")
PLAIN = P(QuantizeLinear, SCALED, Y_SCALE, Y_ZERO)
BIASED = P(QuantizeLinear, P(Add, SCALED, ADDEND, once=True), Y_SCALE, Y_ZERO)

_MOST_TERMS = limits(I32)[1] // 255**2
"""The most products of 8-bit differences whose sum fits in i32."""
_LARGEST_RATIO = 2.0**96
"""The largest factor of a sum in i32 with which the product is finite in f32."""


def _refusal(m: Match, axis: int, terms: object) -> str | None:
    """Why the product cannot be computed on integers; ``axis``: the axis of w that the result keeps."""
    for pattern, value, scale in ((LEFT, m[X], m[X_SCALE]), (RIGHT, m[W], m[W_SCALE])):
        op = m.op(pattern)
        if value.type.dtype not in BYTES or scale.type.dtype != F32 or op.to != F32 or op.block:
            return f"no integer product for {value.type} with scale {scale.type} to {op.to}"
        if scale.type.shape is None or value.type.shape is None:
            return "a rank is not known"
    if not _largest(m[X_SCALE], m.module) * _largest(m[W_SCALE], m.module) <= _LARGEST_RATIO:
        return "the product of both scales may be infinite"
    for parameter in (m[X_SCALE], m.optional(X_ZERO)):
        if parameter is not None and not is_single(parameter.type.dims):
            return "the left operand has a scale or zero point per axis"
    rank = len(m[W].type.dims)
    if rank < 2:
        return "the right operand is a vector"
    for parameter in (m[W_SCALE], m.optional(W_ZERO)):
        varies = parameter is not None and not is_single(parameter.type.dims)
        if varies and m.op(RIGHT).axis % rank != axis % rank:
            return "the scale or zero point of the right operand varies along the summed axis"
    if not isinstance(terms, int) or terms > _MOST_TERMS:
        return f"a sum of {terms} products can overflow i32"
    return None


def _largest(scale: Value, module: Module) -> float:
    """The largest magnitude of a product of constants, which may be reshaped; others count as 1."""
    constant, producer = constant_array(scale, module), scale.producer
    if constant is not None:
        return float(np.abs(constant.astype(np.float64)).max(initial=0.0))
    if producer is None or not isinstance(producer.op, Mul | Reshape):
        return 1.0
    return prod(_largest(factor, module) for factor in producer.inputs if factor is not None)


def _conv_refusal(m: Match) -> str | None:
    return _refusal(m, 0, product((m[W].type.shape or ())[1:]))


def _matmul_refusal(m: Match) -> str | None:
    shape = m[W].type.shape or ()
    return _refusal(m, -1, shape[-2:][0] if shape else None)


def _transposed_refusal(m: Match) -> str | None:
    shape = m[W].type.shape or ()
    if len(shape) != 2:
        return "the right operand is not a transposed matrix"
    return _refusal(m, 0, shape[1])


def _gemm_refusal(m: Match) -> str | None:
    op = m.op(GEMM)
    if op.alpha != 1 or op.beta != 1 or op.trans_a:
        return "alpha or beta is not 1, or the left operand is transposed"
    shape = m[W].type.shape or (None, None)
    return _refusal(m, 0 if op.trans_b else 1, shape[1 if op.trans_b else 0])


def _scaled(b: Builder, m: Match, sums: Value, w_scale: Value) -> Value:
    """The sums in f32, times both scales."""
    ratio = b(Mul(), reshaped(b, m[X_SCALE], ()), w_scale)
    scaled: Value = b(Mul(), b(Cast(F32), sums), ratio)
    return scaled


def _conv(b: Builder, m: Match) -> Value:
    op, features = m.op(CONV), len(m[W].type.dims) - 1
    integer = ConvInteger(op.strides, op.pads, op.dilations, op.group, op.auto_pad)
    sums = b(integer, m[X], m[W], m.optional(X_ZERO), m.optional(W_ZERO))
    result = _scaled(b, m, sums, per_feature_value(b, m[W_SCALE], features))
    bias = m.optional(BIAS)
    return result if bias is None else b(Add(), result, per_feature_value(b, bias, features))


def _matmul(b: Builder, m: Match) -> Value:
    return _product(b, m, m[W])


def _transposed(b: Builder, m: Match) -> Value:
    return _product(b, m, b(m.op(TRANSPOSED_RIGHT), m[W]))


def _gemm(b: Builder, m: Match) -> Value:
    w: Value = b(Transpose((1, 0)), m[W]) if m.op(GEMM).trans_b else m[W]
    product, bias = _product(b, m, w), m.optional(BIAS)
    return product if bias is None else b(Add(), product, bias)


def _product(b: Builder, m: Match, w: Value) -> Value:
    sums = b(MatMulInteger(), m[X], w, m.optional(X_ZERO), m.optional(W_ZERO))
    w_scale = m[W_SCALE]
    return _scaled(b, m, sums, reshaped(b, w_scale, ()) if is_single(w_scale.type.dims) else w_scale)


def _requantized_refusal(m: Match) -> str | None:
    op = m.root.op
    assert isinstance(op, QuantizeLinear)
    scale = m[Y_SCALE].type
    if op.to not in BYTES or op.divides_in(scale.dtype) != F32 or not is_single(scale.dims):
        return f"no requantization with scale {scale} to {op.to}"
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = _largest(m[RATIO], m.module) / np.abs(m.array(Y_SCALE).astype(np.float64))
    if not (ratios <= _LARGEST_RATIO).all():
        return "the ratio of scales may be infinite"
    zero, addend = m.optional(Y_ZERO), m.optional(ADDEND)
    if zero is not None and not is_single(zero.type.dims):
        return "the zero point varies along an axis"
    if addend is not None and not _is_made_of_constants(addend):
        return "the added value is not constant"
    return None


def _is_made_of_constants(value: Value, depth: int = 4) -> bool:
    """Whether ``value`` will be folded to a constant: a bias, at most dequantized and reshaped."""
    producer = value.producer
    if producer is None or producer.is_constant:
        return producer is not None
    return depth > 0 and all(v is None or _is_made_of_constants(v, depth - 1) for v in producer.inputs)


def _requantized(b: Builder, m: Match) -> Value:
    op = m.root.op
    assert isinstance(op, QuantizeLinear)
    step, zero, addend = reshaped(b, m[Y_SCALE], ()), m.optional(Y_ZERO), m.optional(ADDEND)
    scaled = b(Mul(), m.node(SUMS).output, b(Div(), m[RATIO], step))
    if addend is not None:
        scaled = b(Add(), scaled, b(Div(), addend, step))
    return into_quantized(b, scaled, None if zero is None else reshaped(b, zero, ()), op.to)


RULES: tuple[Rule, ...] = (
    Rule("8-bit convolution", CONV, _conv_refusal, _conv),
    Rule("8-bit product", MATMUL, _matmul_refusal, _matmul),
    Rule(
        "8-bit product with a transposed right operand", MATMUL_TRANSPOSED, _transposed_refusal, _transposed
    ),
    Rule("8-bit product with a bias", GEMM, _gemm_refusal, _gemm),
    Rule("requantized 8-bit product", PLAIN, _requantized_refusal, _requantized),
    Rule("requantized 8-bit product with a bias", BIASED, _requantized_refusal, _requantized),
)

INTEGER_PRODUCTS = RulePass("integer_products", RULES)
"""The pass. It runs before constant folding, which would turn dequantized weights into floats."""

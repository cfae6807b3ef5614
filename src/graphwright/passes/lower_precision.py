"""Lowers matrix products and convolutions to bf16 with f32 accumulation, if the option ``precision`` requests
it.

Constant weights become bf16 and take half the memory. Left operands of matrix products are cast as well: the
cast fuses into the kernel that computes them, which then stores half the bytes. Images stay f32, and
convolutions round their channel blocks while reading. Sums, biases, norms, softmax, activations, reductions,
and the inputs and outputs of the model stay f32, and so do convolutions on CPUs whose bf16 instructions take
longer than those of f32.
"""

from __future__ import annotations

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.match import Const, Match, Opt, P, Rest, Rule, Var, always
from graphwright.ir.types import BF16, F32
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.grouped_matmul import GroupedMatMul
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.nn.attention import ScaledDotProductAttention
from graphwright.ops.nn.conv import MAX_PLANAR_CHANNELS, Conv
from graphwright.passes.rule_pass import RulePass
from graphwright.records import replace

X, W, BIAS, ENDS = Var("x"), Const("w"), Opt("bias"), Var("ends")
MATMUL = P(MatMul, X, W, where=lambda op: op.precision is None)
GROUPED = P(GroupedMatMul, X, W, ENDS, where=lambda op: op.precision is None)
CONV = P(Conv, X, W, BIAS, where=lambda op: op.precision is None)
OPERANDS = Rest("operands")
ATTENTION = P(ScaledDotProductAttention, OPERANDS, where=lambda op: op.precision is None)


def lower_precision(precision: str, *, convolutions: bool) -> tuple[RulePass, ...]:
    """The pass for a value of the option ``precision``; empty if it requests nothing. ``convolutions``:
    whether they are faster in bf16.
    """
    if precision != "bf16":
        return ()
    return (LOWER_PRECISION if convolutions else LOWER_PRODUCTS,)


def _refusal(m: Match) -> str | None:
    dtypes = [m[X].type.dtype, m[W].type.dtype]
    return None if dtypes == [F32, F32] else f"operands have types {dtypes[0]} and {dtypes[1]}, not f32"


def _product(b: Builder, m: Match) -> Value:
    w = m.array(W)
    op, x = replace(m.op(MATMUL), precision=BF16), b(Cast(BF16), m[X])
    product: Value = b(op, x, b.const(w.astype(BF16.numpy)))
    return product


def _grouped(b: Builder, m: Match) -> Value:
    op, w = replace(m.op(GROUPED), precision=BF16), b.const(m.array(W).astype(BF16.numpy))
    result: Value = b(op, b(Cast(BF16), m[X]), w, m[ENDS])
    return result


def _conv_refusal(m: Match) -> str | None:
    op, channels = m.op(CONV), m[W].type.sizes[1]
    if op.group > 1 or channels <= MAX_PLANAR_CHANNELS or channels % 2:
        return f"{op.group} groups of {channels} input channels: bf16 kernels process channels in pairs"
    return _refusal(m)


def _convolution(b: Builder, m: Match) -> Value:
    w, bias = m.array(W), m.optional(BIAS)
    op, weights = replace(m.op(CONV), precision=BF16), b.const(w.astype(BF16.numpy))
    result: Value = b(op, m[X], weights, *([] if bias is None else [bias]))
    return result


def _attention(b: Builder, m: Match) -> Value:
    result: Value = b(replace(m.op(ATTENTION), precision=BF16), *m.rest(OPERANDS))
    return result


_PRODUCTS = (
    Rule("product with constant weights", MATMUL, _refusal, _product),
    Rule("grouped product with constant weights", GROUPED, _refusal, _grouped),
    Rule("attention", ATTENTION, always, _attention),
)
LOWER_PRODUCTS = RulePass("lower_precision", _PRODUCTS)
LOWER_PRECISION = RulePass(
    "lower_precision",
    (*_PRODUCTS, Rule("convolution with constant weights", CONV, _conv_refusal, _convolution)),
)

"""Replaces products with dequantized constant weights by products that read the quantized
codes.

Folding the dequantization would make such weights four to sixteen times as large. The product multiplies the
same numbers, ``(code - zero) * scale`` in f32, and sums them in blocks of K.
"""

from __future__ import annotations

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.match import Const, Match, Opt, P, Rule, Var
from graphwright.ir.op import Array
from graphwright.ir.types import F32
from graphwright.ops.core.binary import Add
from graphwright.ops.core.gemm import Gemm
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.quantized.dequantize_linear import DequantizeLinear
from graphwright.ops.quantized.matmul_nbits import MIN_BLOCK, WIDTHS, MatMulNBits, in_words
from graphwright.ops.quantized.quantized import is_single, limits
from graphwright.passes import integer_weights
from graphwright.passes.rule_pass import RulePass

X, W, SCALE, ZERO, BIAS = Var("x"), Const("w"), Const("scale"), Opt("zero"), Opt("bias")
RIGHT = P(DequantizeLinear, W, SCALE, ZERO)
TRANSPOSED_RIGHT = P(Transpose, RIGHT, where=lambda op: op.perm != (0, 1))
MATMUL, MATMUL_TRANSPOSED = P(MatMul, X, RIGHT), P(MatMul, X, TRANSPOSED_RIGHT)
GEMM = P(Gemm, X, RIGHT, BIAS)

_BLOCK = 128
"""Block length along K if one scale serves a whole column."""


def _refusal(m: Match, depth_axis: int) -> str | None:
    """Why the weights cannot stay quantized. ``depth_axis``: the axis of the weights that the product sums
    over.
    """
    op, w, scale, x = m.op(RIGHT), m[W].type, m[SCALE].type, m[X].type
    if not w.dtype.is_integer or w.dtype.bits not in WIDTHS or len(w.dims) != 2 or not w.sizes[depth_axis]:
        return f"no kernel for quantized weights of {w}"
    if x.dtype != F32 or op.to != F32 or scale.dtype != F32 or not x.shape:
        return f"operands have types {x} and {op.to}, not f32"
    if m.optional(ZERO) is not None and m.constant(ZERO) is None:
        return "the zero points are not constant"
    along = op.axis % 2 == depth_axis
    if op.block and not is_single(scale.dims):
        fits = along and _block(m, depth_axis) >= MIN_BLOCK
        return None if fits else f"no kernel for blocks of {op.block} along axis {op.axis}"
    return "the scale differs along the summed axis" if along and not is_single(scale.dims) else None


def _block(m: Match, depth_axis: int) -> int:
    """The block length: the largest power of two that divides the blocks of the weights, or what K allows."""
    block = m.op(RIGHT).block
    if block and not is_single(m[SCALE].type.dims):
        return block & -block
    depth = m[W].type.sizes[depth_axis]
    return max(MIN_BLOCK, min(_BLOCK, 1 << (depth.bit_length() - 1)))


def _product(b: Builder, m: Match, depth_axis: int) -> Value:
    dtype, block = m[W].type.dtype, _block(m, depth_axis)
    w = m.array(W).astype(np.int16).swapaxes(0, 1) if depth_axis == 0 else m.array(W).astype(np.int16)
    n, depth = w.shape
    lowest, blocks = limits(dtype)[0], -(-depth // block)
    op = MatMulNBits(dtype.bits, block)
    zero = m.constant(ZERO)
    zeros = _per_block(
        np.array(0, np.int16) if zero is None else zero.astype(np.int16), m, depth_axis, n, blocks
    )
    zeros = (zeros - lowest).astype(np.uint8)
    codes = b.const(in_words((w - lowest).astype(np.uint8), op))
    scales = b.const(_per_block(m.array(SCALE), m, depth_axis, n, blocks))
    shifts = [b.const(zeros)] if (zeros != op.middle).any() else []
    result: Value = b(op, m[X], codes, scales, *shifts)
    return result


def _per_block(parameter: Array, m: Match, depth_axis: int, n: int, blocks: int) -> Array:
    """A scale or zero point, expanded to [N, blocks]."""
    if parameter.ndim < 2:
        column = np.broadcast_to(parameter.reshape(-1, 1), (n, 1))
        return np.ascontiguousarray(np.broadcast_to(column, (n, blocks)))
    rows = parameter.swapaxes(0, 1) if depth_axis == 0 else parameter
    times = m.op(RIGHT).block // _block(m, depth_axis)
    return np.ascontiguousarray(np.repeat(rows, times, 1)[:, :blocks])


def _gemm_refusal(m: Match) -> str | None:
    op = m.op(GEMM)
    if op.alpha != 1 or op.beta != 1 or op.trans_a:
        return "alpha or beta is not 1, or the left operand is transposed"
    return _refusal(m, int(op.trans_b))


def _gemm(b: Builder, m: Match) -> Value:
    product, bias = _product(b, m, int(m.op(GEMM).trans_b)), m.optional(BIAS)
    return product if bias is None else b(Add(), product, bias)


WEIGHT_ONLY_QUANTIZATION = RulePass(
    "weight_only_quantization",
    (
        Rule(
            "product with quantized weights", MATMUL, lambda m: _refusal(m, 0), lambda b, m: _product(b, m, 0)
        ),
        Rule(
            "product with transposed quantized weights",
            MATMUL_TRANSPOSED,
            lambda m: _refusal(m, 1),
            lambda b, m: _product(b, m, 1),
        ),
        Rule("product with quantized weights and a bias", GEMM, _gemm_refusal, _gemm),
        *integer_weights.RULES,
    ),
)
"""The pass. It runs before constant folding, which would turn dequantized weights into floats."""

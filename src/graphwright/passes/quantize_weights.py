"""Quantizes the weights of matrix products to 4 or 8 bits, if the option ``weights`` requests
it.

Each column of the matrix is cut into blocks with one scale each; quantization is symmetric, with 0 as a code.
With 8 bits, the scale maps the largest magnitude of a block to 127; with 4 bits, it maps the number of
largest magnitude to -8, the end of the range that has one more code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.match import Const, Match, P, Rule, Var
from graphwright.ir.op import Array
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.quantized.matmul_nbits import BYTES, MIN_BLOCK, MatMulNBits, in_words
from graphwright.ops.quantized.quantized import SCALES
from graphwright.passes.rule_pass import RulePass
from graphwright.records import replace

X, W = Var("x"), Const("w")
MATMUL = P(MatMul, X, W)

FORMS: Final[Mapping[str, MatMulNBits]] = {"int8": MatMulNBits(8, 128), "int4": MatMulNBits(4, 64, BYTES)}
"""For each value of the option: bits per code, and elements of K that share a scale. With an f32 scale, a
weight takes 8.25 or 4.5 bits. Rounding the other operand to 8 bits adds little to the error of 4 bits.
"""


def quantize_weights(weights: str) -> tuple[RulePass, ...]:
    """The pass for a value of the option ``weights``; empty if it requests nothing."""
    if weights not in FORMS:
        return ()
    form = FORMS[weights]
    rule = Rule("product with constant weights", MATMUL, _refusal, lambda b, m: _product(b, m, form))
    return (RulePass("quantize_weights", (rule,)),)


def _refusal(m: Match) -> str | None:
    x, w = m[X].type, m[W].type
    if w.dtype not in SCALES or len(w.dims) != 2 or not x.shape:
        return f"no kernel for {x} times quantized weights of {w}"
    if w.sizes[0] < MIN_BLOCK or not w.sizes[1]:
        return f"columns of the weights {w} have fewer than {MIN_BLOCK} elements"
    return None if np.isfinite(m.array(W)).all() else "the weights are not finite"


def _product(b: Builder, m: Match, form: MatMulNBits) -> Value:
    op = _fitting(form, m[W].type.sizes[0])
    codes, scales = quantize(m.array(W).T, op)
    product: Value = b(op, m[X], b.const(in_words(codes, op)), b.const(scales))
    return product


def _fitting(form: MatMulNBits, depth: int) -> MatMulNBits:
    """``form`` with a block no longer than the largest power of two in a column."""
    return replace(form, block=min(form.block, 1 << (depth.bit_length() - 1)))


def quantize(w: Array, op: MatMulNBits) -> tuple[Array, Array]:
    """Quantizes ``w[N, K]`` to codes u8[N, K] and scales [N, blocks] in the dtype of ``w``."""
    n, depth = w.shape
    blocks = -(-depth // op.block)
    padded = np.zeros((n, blocks * op.block), np.float32)
    padded[:, :depth] = w
    parts = padded.reshape(n, blocks, op.block)
    scales = _scales(parts, op).astype(w.dtype)
    factors = scales.astype(np.float32)[..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.where(factors == 0, 0, np.rint(parts / factors))
    codes = np.clip(steps, -op.middle, op.middle - 1) + op.middle
    return codes.astype(np.uint8).reshape(n, -1)[:, :depth], scales


def _scales(parts: Array, op: MatMulNBits) -> Array:
    if op.bits == 8:
        return np.asarray(np.abs(parts).max(-1) / (op.middle - 1))
    largest = np.abs(parts).argmax(-1)[..., None]
    return np.asarray(np.take_along_axis(parts, largest, -1)[..., 0] / -op.middle)

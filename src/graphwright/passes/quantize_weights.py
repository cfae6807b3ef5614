"""Rounds the weights of matrix products to codes of 4 or 8 bits, where the option ``weights`` asks for it.

A column of the matrix is cut into blocks, each with a scale of its own and 0 as a code. Of 8 bits the scale
takes the largest magnitude of a block to 127; of 4 bits it takes the number of the largest magnitude to -8,
which is the end of the range that has one code more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Array, Value
from graphwright.ir.match import Const, Match, P, Rule, Var
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.quantized.matmul_nbits import LEAST_BLOCK, MatMulNBits, in_words
from graphwright.ops.quantized.quantized import SCALES
from graphwright.passes.base import RulePass

X, W = Var("x"), Const("w")
MATMUL = P(MatMul, X, W)

FORMS: Final[Mapping[str, MatMulNBits]] = {"int8": MatMulNBits(8, 128), "int4": MatMulNBits(4, 64)}
"""By value of the option: bits of a code, and elements of K that share a scale. A scale is an f32, so that a
weight takes 8.25 or 4.5 bits."""


def quantize_weights(weights: str) -> tuple[RulePass, ...]:
    """The pass for a value of the option; none where weights stay as they are."""
    if weights not in FORMS:
        return ()
    form = FORMS[weights]
    rule = Rule("product with rounded weights", MATMUL, _refusal, lambda b, m: _product(b, m, form))
    return (RulePass("quantize_weights", (rule,)),)


def _refusal(m: Match) -> str | None:
    x, w = m[X].type, m[W].type
    if w.dtype not in SCALES or len(w.dims) != 2 or not x.shape:
        return f"no product of {x} and codes of {w}"
    if w.sizes[0] < LEAST_BLOCK or not w.sizes[1]:
        return f"weights of {w}: a column has fewer than {LEAST_BLOCK} elements"
    return None if np.isfinite(m.array(W)).all() else "weights that are not finite"


def _product(b: Builder, m: Match, form: MatMulNBits) -> Value:
    op = _fitting(form, m[W].type.sizes[0])
    codes, scales = rounded(m.array(W).T, op)
    made: Value = b(op, m[X], b.const(in_words(codes, op)), b.const(scales))
    return made


def _fitting(form: MatMulNBits, depth: int) -> MatMulNBits:
    """``form`` with a block no longer than a column has room for."""
    return MatMulNBits(form.bits, min(form.block, 1 << (depth.bit_length() - 1)))


def rounded(w: Array, op: MatMulNBits) -> tuple[Array, Array]:
    """Codes u8[N, K] of ``w[N, K]`` and their scales [N, blocks], in the dtype of ``w``."""
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

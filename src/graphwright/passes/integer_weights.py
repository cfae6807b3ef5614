"""Replaces PyTorch products with integer weights, as torchao writes them, by products that read quantized
codes.

torchao expresses weight-only quantization in ordinary ops. With 8 bits, a scale per column follows the
product with the widened weights ``w[N, K]``; in general, ``(w - zero) * scale`` is computed on groups along K
and then multiplied. Codes take as few bits as the integers need.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.match import Const, Match, P, Rule, Var
from graphwright.ir.op import Array
from graphwright.ir.types import I8
from graphwright.ops.core.binary import Mul, Sub
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.quantized.matmul_nbits import MIN_BLOCK, WIDTHS, MatMulNBits, in_words
from graphwright.ops.quantized.quantized import SCALES

X, W, SCALE, ZERO = Var("x"), Const("w"), Const("scale"), Const("zero")
WIDENED = P(MatMul, X, P(Cast, P(Transpose, W, where=lambda op: op.perm == (1, 0))))
GROUPS = P(Sub, P(Cast, P(Reshape, W)), P(Cast, P(Reshape, ZERO)))
MATRIX = P(Reshape, P(Mul, GROUPS, P(Reshape, SCALE)))
GROUPED = P(MatMul, X, P(Transpose, MATRIX, where=lambda op: op.perm == (1, 0)))

_BLOCK: Final = 128
"""Block length along K if one scale serves a whole column."""


def _refusal(m: Match) -> str | None:
    x, w = m[X].type, m[W].type
    if w.dtype != I8 or len(w.dims) != 2 or w.sizes[1] < MIN_BLOCK or x.dtype not in SCALES or not x.shape:
        return f"no kernel for {x} times quantized weights of {w}"
    return None


def _grouped_refusal(m: Match) -> str | None:
    w, scale, zero = m[W].type, m[SCALE].type, m[ZERO].type
    if (refusal := _refusal(m)) is not None:
        return refusal
    if zero.dtype != I8 or zero.dims != scale.dims or scale.dtype != m[X].type.dtype or len(scale.dims) != 2:
        return f"no kernel for scales of {scale} and zero points of {zero}"
    (n, depth), (rows, groups) = w.sizes, scale.sizes
    if rows != n or not groups or depth % groups or m.node(MATRIX).output.type.dims != w.dims:
        return f"scales of {scale} do not divide the weights {w} into groups"
    return None if _block(depth, groups) >= MIN_BLOCK else f"groups have only {depth // groups} elements"


def _block(depth: int, groups: int) -> int:
    """The block length: the largest power of two that divides a group, or that fits in a single group."""
    if groups > 1:
        return depth // groups & -(depth // groups)
    return min(_BLOCK, 1 << (depth.bit_length() - 1))


def _widened_product(b: Builder, m: Match) -> Value:
    w, dtype = m.array(W), m[X].type.dtype
    ones = np.ones((len(w), 1), dtype.numpy)
    return _product(b, m[X], w, ones, np.zeros((len(w), 1), np.int8))


def _grouped_product(b: Builder, m: Match) -> Value:
    return _product(b, m[X], m.array(W), m.array(SCALE), m.array(ZERO))


def _product(b: Builder, x: Value, w: Array, scales: Array, zeros: Array) -> Value:
    """``x`` times the transpose of ``(w - zeros) * scales``; scales and zeros are [N, groups]."""
    depth, groups = w.shape[1], scales.shape[1]
    op = MatMulNBits(_bits(w, zeros), _block(depth, groups))
    codes = b.const(in_words((w.astype(np.int16) + op.middle).astype(np.uint8), op))
    times, blocks = max(1, depth // groups // op.block), -(-depth // op.block)
    if groups == 1:
        times = blocks
    each = b.const(np.ascontiguousarray(np.repeat(scales, times, 1)))
    shifts = np.repeat((zeros.astype(np.int16) + op.middle).astype(np.uint8), times, 1)
    product: Value = b(op, x, codes, each, *([b.const(shifts)] if zeros.any() else []))
    return product


def _bits(*integers: Array) -> int:
    """The fewest bits that represent all of these integers."""
    low, high = min(int(x.min()) for x in integers), max(int(x.max()) for x in integers)
    return next(bits for bits in WIDTHS if -(1 << bits - 1) <= low and high < 1 << bits - 1)


RULES: Final[tuple[Rule, ...]] = (
    Rule("product with widened integers", WIDENED, _refusal, _widened_product),
    Rule("product with groups of integers", GROUPED, _grouped_refusal, _grouped_product),
)

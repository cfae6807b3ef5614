"""Multiplies from the left where transposes surround a matrix multiplication: transpose(transpose(x) w) is
w^T x.

Layers over the heads of an attention transpose them to the end and back. Few heads leave most of a tile of
columns empty, and the loops around the layer work on short rows.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.match import Const, Match, P, Rule, Var, always
from graphwright.ir.symbols import product
from graphwright.ir.types import F32
from graphwright.ops.core.binary import Add
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.transpose import Transpose
from graphwright.passes.canonicalize_transposes import composed, permutation
from graphwright.passes.rule_pass import RulePass

FEW: Final = 16
"""The most rows and columns of the weights. Larger weights stay the right operand: they fill its tiles, and
are packed at compile time.
"""

X, BIAS = Var("x"), Const("bias")
W: Final = Const("w", where=lambda array: array.ndim == 2 and 0 < max(array.shape) <= FEW)
BEFORE: Final = P(Transpose, X)
PRODUCT: Final = P(MatMul, BEFORE, W, once=True)
AFTER: Final = P(Transpose, PRODUCT)
AFTER_BIAS: Final = P(Transpose, P(Add, PRODUCT, BIAS, once=True))


def _swapped(b: Builder, m: Match) -> Value | str:
    before, after, bias = permutation(m.node(BEFORE)), permutation(m.root), m.constant(BIAS)
    if before is None or after is None or m[X].type.dtype != F32:
        return "the rank is not known, or the elements are not f32"
    if composed(after, before) != tuple(range(len(before))):
        return "the transposes do not cancel each other"
    if before[-1] == len(before) - 1:
        return "the last axis stays the last"
    if bias is not None and bias.shape != m[W].type.sizes[1:]:
        return "the bias is not a number for each column"
    axis, dims, weights = before[-1], m[X].type.dims, m.array(W)
    rows = reshaped(b, m[X], (*dims[: axis + 1], product(dims[axis + 1 :])))
    result = b(MatMul(), b.const(np.ascontiguousarray(weights.T)), rows)
    if bias is not None:
        result = b(Add(), result, b.const(bias[:, None]))
    return reshaped(b, result, m.root.output.type.dims)


SWAP_OPERANDS = RulePass(
    "swap_operands",
    (
        Rule("product between transposes", AFTER, always, _swapped),
        Rule("product and bias between transposes", AFTER_BIAS, always, _swapped),
    ),
)
"""The pass."""

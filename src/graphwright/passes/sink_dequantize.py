"""Moves the dequantization of bytes after a MaxPool, which then reads bytes.

The largest of several bytes is also the largest after dequantization, whose scale is positive. Quantizing
what was just dequantized with the same scale and zero point gives the same bytes, and disappears.
"""

from __future__ import annotations

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.match import Const, Match, Opt, P, Rule, Var
from graphwright.ir.types import F32
from graphwright.ops.nn.max_pool import MaxPool
from graphwright.ops.quantized.dequantize_linear import DequantizeLinear
from graphwright.ops.quantized.quantize_linear import QuantizeLinear
from graphwright.ops.quantized.quantized import BYTES, is_single
from graphwright.passes.rule_pass import RulePass

X, SCALE, ZERO = Var("x"), Const("scale"), Opt("zero")
NEXT_SCALE, NEXT_ZERO = Const("next scale"), Opt("next zero")
BYTES_AS_FLOATS = P(DequantizeLinear, X, SCALE, ZERO)
POOLED = P(MaxPool, BYTES_AS_FLOATS)
AGAIN = P(QuantizeLinear, BYTES_AS_FLOATS, NEXT_SCALE, NEXT_ZERO)


def _pool_refusal(m: Match) -> str | None:
    refusal = _refusal(m)
    if refusal is None and m.op(POOLED).indices:
        return "the pooling also returns the positions of the maxima"
    return refusal


def _refusal(m: Match) -> str | None:
    """Why bytes and floats do not have the same order."""
    if m[X].type.dtype not in BYTES:
        return f"{m[X].type.dtype} is not a type of 8 bits"
    if not is_single(m[SCALE].type.dims) or not np.all(m.array(SCALE) > 0):
        return "the scale is not one positive number"
    zero = m.optional(ZERO)
    return None if zero is None or is_single(zero.type.dims) else "the zero point varies along an axis"


def _pool(b: Builder, m: Match) -> Value:
    dequantized: Value = b(m.op(BYTES_AS_FLOATS), b(m.op(POOLED), m[X]), m[SCALE], m.optional(ZERO))
    return dequantized


def _again_refusal(m: Match) -> str | None:
    refusal = _refusal(m)
    if refusal is not None:
        return refusal
    scale, after, op = m.array(SCALE).reshape(()), m.array(NEXT_SCALE), m.root.op
    assert isinstance(op, QuantizeLinear)
    if m.op(BYTES_AS_FLOATS).to != F32 or op.divides_in(m[NEXT_SCALE].type.dtype) != F32:
        return "16-bit floats would round the dequantized values"
    if op.to != m[X].type.dtype or after.size != 1 or scale != after.reshape(()):
        return "the types or scales differ"
    if scale < np.finfo(np.float32).tiny or scale > np.finfo(np.float32).max / 255:
        return "f32 does not represent all multiples of the scale"
    return None if _zero(m, ZERO) == _zero(m, NEXT_ZERO) else "the zero points differ"


def _zero(m: Match, zero: Opt) -> int | Value:
    """A zero point: its number, if it is known."""
    value, array = m.optional(zero), m.constant(zero)
    if value is None:
        return 0
    return value if array is None or array.size != 1 else int(array.reshape(()))


def _bytes(_b: Builder, m: Match) -> Value:
    return m[X]


SINK_DEQUANTIZE = RulePass(
    "sink_dequantize",
    (
        Rule("maximum of bytes", POOLED, _pool_refusal, _pool),
        Rule("bytes dequantized and quantized again", AGAIN, _again_refusal, _bytes),
    ),
)
"""The pass."""

"""Removes casts to integers and back inside a kernel, and a zero point that is added and subtracted again:
quantization steps are whole numbers in f32 already.
"""

from __future__ import annotations

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.match import Const, Match, P, Rest, Rule, Var
from graphwright.ir.types import F32
from graphwright.ops.core.binary import Add, Sub
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.round_to_range import RoundToRange
from graphwright.passes.rule_pass import RulePass

STEPS = P(RoundToRange, Rest("operands"))
WIDENED = P(Cast, P(Cast, STEPS, where=lambda op: op.to.is_integer), where=lambda op: op.to == F32)

X, ZERO, SAME_ZERO = Var("x"), Const("zero"), Const("same zero")
SHIFTED = P(RoundToRange, X, ZERO, once=True)
RESTORED = P(Sub, SHIFTED, SAME_ZERO)


def _refusal(m: Match) -> str | None:
    dtype = m.node(STEPS).output.type.dtype
    return None if dtype == F32 else f"quantization steps are computed in {dtype}"


def _steps(b: Builder, m: Match) -> Value:
    """The steps in f32. The integer cast would turn -0.0 into 0; adding 0 does the same, as adding the zero
    point does.
    """
    steps = m.node(STEPS)
    if m.op(STEPS).low >= 0 or len(steps.inputs) > 1:
        return steps.output
    result: Value = b(Add(), steps.output, b.const(0.0, F32))
    return result


def _zero_refusal(m: Match) -> str | None:
    zero, again = m.array(ZERO), m.array(SAME_ZERO)
    if zero.size != 1 or again.size != 1 or zero.item() != again.item():
        return "another number than the zero point is subtracted"
    return None if m.root.output.type == m[X].type else "the zero point changes the shape"


def _unshifted(b: Builder, m: Match) -> Value:
    op, zero = m.op(SHIFTED), m.array(ZERO).item()
    steps = RoundToRange(op.low - zero, op.high - zero)
    result: Value = b(steps, m[X], b.const(0.0, m[X].type.dtype))  # -0.0 becomes 0, as it did
    return result


RULES: tuple[Rule, ...] = (
    Rule("cast to integer and back", WIDENED, _refusal, _steps),
    Rule("zero point added and subtracted", RESTORED, _zero_refusal, _unshifted),
)

FOLD_REQUANTIZE = RulePass("fold_requantize", RULES)
"""The pass. It runs after fusion: between kernels, values stay integers, which take fewer bytes."""

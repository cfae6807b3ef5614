"""Inside a kernel, what is quantised and widened again skips the integers: steps are whole numbers in f32."""

from __future__ import annotations

from graphwright.ir.match import Match, P, Rest, Rule
from graphwright.ir.types import F32
from graphwright.ops.core.cast import Cast
from graphwright.ops.quantized.round_to_range import RoundToRange
from graphwright.passes.base import RulePass

STEPS = P(RoundToRange, Rest("operands"))
WIDENED = P(Cast, P(Cast, STEPS, where=lambda op: op.to.is_integer), where=lambda op: op.to == F32)


def _refusal(m: Match) -> str | None:
    dtype = m.node(STEPS).output.type.dtype
    return None if dtype == F32 else f"steps in {dtype}"


RULES: tuple[Rule, ...] = (
    Rule("narrowing casts that are widened again", WIDENED, _refusal, lambda b, m: m.node(STEPS).output),
)

FOLD_REQUANTIZE = RulePass("fold_requantize", RULES)
"""The pass. It runs behind fusion: what leaves a kernel does so as integers, which take fewer bytes."""

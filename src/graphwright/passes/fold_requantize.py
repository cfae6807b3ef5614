"""Removes casts to integers and back inside a kernel: quantization steps are whole numbers in f32 already."""

from __future__ import annotations

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.match import Match, P, Rest, Rule
from graphwright.ir.types import F32
from graphwright.ops.core.binary import Add
from graphwright.ops.core.cast import Cast
from graphwright.ops.quantized.round_to_range import RoundToRange
from graphwright.passes.base import RulePass

STEPS = P(RoundToRange, Rest("operands"))
WIDENED = P(Cast, P(Cast, STEPS, where=lambda op: op.to.is_integer), where=lambda op: op.to == F32)


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


RULES: tuple[Rule, ...] = (Rule("cast to integer and back", WIDENED, _refusal, _steps),)

FOLD_REQUANTIZE = RulePass("fold_requantize", RULES)
"""The pass. It runs after fusion: between kernels, values stay integers, which take fewer bytes."""

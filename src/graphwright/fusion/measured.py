"""Legal merges that are expected to pay, or not: what was measured counts more."""

from __future__ import annotations

import math
from typing import Final

from graphwright.cost.choices import Choices
from graphwright.fusion.candidate import Candidate
from graphwright.ir.op import Trait
from graphwright.ir.refusal import Code, Refusal
from graphwright.passes.cse import nodes_key
from graphwright.records import dataclass

TOGETHER: Final = "one kernel"
APART: Final = "two kernels"
EXPECTED: Final = (Code.ROW_BEYOND_CACHE, Code.NARROW_OPERAND, Code.ROW_FUNCTION)
"""Why a legal merge is expected not to pay."""
_SLOWER: Final = Refusal(Code.MEASURED, Code.MEASURED.means)


@dataclass(frozen=True)
class Outcome:
    """Why two sides merge, in words, or why they do not; ``measured``: the logarithm of the time of one
    kernel over that of two, where it is known."""

    decided: Refusal | str
    measured: float | None = None


def measured_outcome(
    decided: Refusal | str, candidate: Candidate, choices: Choices, notes: list[object]
) -> Outcome:
    """``decided`` by a rule about ``candidate``, unless the other way was measured to be faster."""
    is_merged = not isinstance(decided, Refusal)
    is_expected = not isinstance(decided, Refusal) or decided.code in EXPECTED
    if not choices.is_kept or not is_expected or _moves_nothing(candidate):
        return Outcome(decided)
    ways = (TOGETHER, APART) if is_merged else (APART, TOGETHER)
    sides = candidate.producer.nodes, candidate.consumer.nodes
    content = tuple(map(nodes_key, sides)), nodes_key(candidate.nodes)
    choice = choices.choose("merge", content, ways, candidate.nodes, notes)
    if choice.is_changed:
        decided = _SLOWER if is_merged else "measured"
    ratio = choice.ratio(TOGETHER, APART)
    return Outcome(decided, None if ratio is None else math.log(ratio))


def _moves_nothing(candidate: Candidate) -> bool:
    """Whether one side is views alone: apart, it is no kernel."""
    sides = candidate.producer.nodes, candidate.consumer.nodes
    return any(all(Trait.VIEW in node.op.traits for node in side) for side in sides)

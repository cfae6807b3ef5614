"""Overrides the expected benefit of a legal merge by measurements on this machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from graphwright.cost.choices import Choices
from graphwright.fusion.candidate import Candidate
from graphwright.ir.graph import Node
from graphwright.ir.op import Trait
from graphwright.ir.refusal import Code, Refusal
from graphwright.passes.cse import nodes_key
from graphwright.records import dataclass

TOGETHER: Final = "one kernel"
APART: Final = "two kernels"
EXPECTED: Final = (Code.ROW_BEYOND_CACHE, Code.NARROW_OPERAND, Code.ROUNDED_IMAGE, Code.ROW_FUNCTION)
"""Codes of refusals that expect a legal merge to be slower; a measurement can override these."""
_SLOWER: Final = Refusal(Code.MEASURED, Code.MEASURED.means)


@dataclass(frozen=True)
class Outcome:
    """The outcome for a candidate. ``decided``: the reason for the merge as text, or the refusal.
    ``measured``: log(time of one kernel / time of two), if known.
    """

    decided: Refusal | str
    measured: float | None = None


def measured_outcome(
    decided: Refusal | str, candidate: Candidate, choices: Choices, notes: list[object]
) -> Outcome:
    """``decided``, the decision of a rule about ``candidate``; or the opposite decision if measurements show
    that it is faster.
    """
    is_merged = not isinstance(decided, Refusal)
    is_expected = not isinstance(decided, Refusal) or decided.code in EXPECTED
    if not choices.is_kept or not is_expected or _moves_nothing(candidate):
        return Outcome(decided)
    alternatives = (TOGETHER, APART) if is_merged else (APART, TOGETHER)
    sides = candidate.producer.nodes, candidate.consumer.nodes
    content = tuple(map(nodes_key, sides)), nodes_key(candidate.nodes)
    choice = choices.choose("merge", content, alternatives, candidate.nodes, notes)
    if choice.is_changed:
        decided = _SLOWER if is_merged else "measured"
    ratio = choice.ratio(TOGETHER, APART)
    return Outcome(decided, None if ratio is None else math.log(ratio))


def is_split(
    group: Sequence[Node],
    first: Sequence[Node],
    second: Sequence[Node],
    choices: Choices,
    notes: list[object],
) -> bool:
    """Whether to split the kernel of ``group`` into ``first`` and ``second``, which are predicted to be
    faster. A measurement that shows one kernel to be faster overrides the prediction.
    """
    content = nodes_key(first), nodes_key(second), nodes_key(group)
    return not choices.choose("split", content, (APART, TOGETHER), group, notes).is_changed


def _moves_nothing(candidate: Candidate) -> bool:
    """Whether one side consists only of views, so that it is not a kernel of its own without the merge."""
    sides = candidate.producer.nodes, candidate.consumer.nodes
    return any(all(Trait.VIEW in node.op.traits for node in side) for side in sides)

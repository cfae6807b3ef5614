"""Merges that a rule takes: one kernel, unless two were measured to be faster."""

from __future__ import annotations

import math
from typing import Final

from graphwright.cost.choices import Choice, Choices
from graphwright.fusion.candidate import Candidate
from graphwright.ir.op import Trait
from graphwright.passes.cse import nodes_key

TOGETHER: Final = "one kernel"
APART: Final = "two kernels"
_WAYS: Final = (TOGETHER, APART)


def choose_merge(candidate: Candidate, choices: Choices, notes: list[object]) -> Choice:
    """Whether the two sides of ``candidate``, which a rule merges, stay one kernel or become two."""
    if not choices.is_kept or _moves_nothing(candidate):
        return Choice(_WAYS, TOGETHER)
    sides = candidate.producer.nodes, candidate.consumer.nodes
    content = tuple(map(nodes_key, sides)), nodes_key(candidate.nodes)
    return choices.choose("merge", content, _WAYS, candidate.nodes, notes)


def measured_ratio(choice: Choice) -> float | None:
    """The logarithm of the time of one kernel over that of two, where it was measured."""
    ratio = choice.ratio(TOGETHER, APART)
    return None if ratio is None else math.log(ratio)


def _moves_nothing(candidate: Candidate) -> bool:
    """Whether one side is views alone: apart, it is no kernel."""
    sides = candidate.producer.nodes, candidate.consumer.nodes
    return any(all(Trait.VIEW in node.op.traits for node in side) for side in sides)

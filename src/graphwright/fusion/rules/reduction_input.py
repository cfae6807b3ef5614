"""Operands of reductions: what a reduction folds is computed as it is read."""

from __future__ import annotations

from graphwright.fusion.candidate import Candidate
from graphwright.fusion.rules.base import FusionRule


def _folds_what_is_computed(candidate: Candidate) -> bool:
    return candidate.consumer.has_reduction and not candidate.producer.has_reduction


REDUCTION_INPUT = FusionRule(
    "reduction_input",
    "computes the input of a reduction while the reduction reads it",
    _folds_what_is_computed,
)

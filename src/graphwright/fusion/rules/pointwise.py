"""Computes chains of elementwise ops in one loop: intermediate elements stay in registers."""

from __future__ import annotations

from graphwright.fusion.candidate import Candidate
from graphwright.fusion.rules.base import FusionRule


def _folds_nothing(candidate: Candidate) -> bool:
    return not candidate.has_reduction


POINTWISE = FusionRule("pointwise", "computes chains of elementwise ops in one loop", _folds_nothing)

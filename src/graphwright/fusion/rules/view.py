"""Fuses across reshapes, which move no data: only the indices of the loops change."""

from __future__ import annotations

from graphwright.fusion.candidate import Candidate
from graphwright.fusion.rules.base import FusionRule


def _joins_views(candidate: Candidate) -> bool:
    return candidate.producer.is_only_views or candidate.consumer.is_only_views


VIEW = FusionRule("view", "fuses across reshapes when one loop nest fits both sides", _joins_views)

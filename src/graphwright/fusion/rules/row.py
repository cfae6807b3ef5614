"""Rows: what follows a reduction runs on the same rows while they are in the cache."""

from __future__ import annotations

from graphwright.fusion.candidate import Candidate
from graphwright.fusion.rules.base import FusionRule


def _continues_rows(candidate: Candidate) -> bool:
    return candidate.producer.has_reduction


ROW = FusionRule(
    "row", "computes on rows behind a reduction over them, as softmax and normalizations do", _continues_rows
)

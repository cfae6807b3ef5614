"""Fuses a reduction with the ops after it, which then read the same rows from the cache."""

from __future__ import annotations

from graphwright.fusion.candidate import Candidate
from graphwright.fusion.rules.base import FusionRule


def _continues_rows(candidate: Candidate) -> bool:
    return candidate.producer.has_reduction


ROW = FusionRule(
    "row",
    "fuses ops on rows with a reduction over these rows, as in softmax and normalizations",
    _continues_rows,
)

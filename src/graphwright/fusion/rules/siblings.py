"""Computes two matrix products with the same left operand in one kernel, whose epilogue has the tiles of both
(gated MLPs).
"""

from __future__ import annotations

from graphwright.fusion.candidate import Candidate
from graphwright.fusion.rules.base import ALL, FusionRule


def _joins_two_products(candidate: Candidate) -> bool:
    return bool(candidate.producer.anchors and candidate.consumer.anchors)


SIBLINGS = FusionRule(
    "siblings",
    "computes two matrix multiplications with the same left operand in one kernel (gated MLPs)",
    _joins_two_products,
    level=ALL,
)

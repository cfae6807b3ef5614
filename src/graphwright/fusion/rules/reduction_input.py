"""Fuses the computation of an operand into the reduction that reads it."""

from __future__ import annotations

from graphwright.fusion.candidate import Candidate
from graphwright.fusion.rules.base import FusionRule


def _consumer_reduces(candidate: Candidate) -> bool:
    return candidate.consumer.has_reduction and not candidate.producer.has_reduction


REDUCTION_INPUT = FusionRule(
    "reduction_input",
    "computes the input of a reduction while the reduction reads it",
    _consumer_reduces,
)

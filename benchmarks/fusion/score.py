"""The quality of decisions for which both alternatives were measured."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.fusion.paired import TIE


@dataclass(frozen=True)
class Score:
    """``right``: the share of decisions that are right or make no difference. ``regret``: the geometric mean
    of the time after each decision relative to that after the best one, minus 1. ``worst``: the largest
    regret of one decision.
    """

    count: int
    right: float
    regret: float
    worst: float

    def __str__(self) -> str:
        return f"{self.count:6} {self.right:7.1%} {self.regret:8.2%} {self.worst:8.1%}"


HEAD: Final = f"{'count':>6} {'right':>7} {'regret':>8} {'worst':>8}"
"""Names of the columns of a printed score."""


def score(ratios: Sequence[float], taken: Sequence[bool]) -> Score:
    """Scores decisions about changes; ``ratios`` has log(time with it / time without it) for each."""
    lost = [(r if is_taken else 0.0) - min(r, 0.0) for r, is_taken in zip(ratios, taken, strict=True)]
    right = sum(each <= TIE for each in lost) / len(lost)
    return Score(len(lost), right, math.exp(statistics.fmean(lost)) - 1, math.exp(max(lost)) - 1)

"""The median of samples with a distribution-free confidence interval from order statistics (H. A. David and
H. N. Nagaraja, "Order Statistics", 2003, section 7.1).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import cache
from typing import Final

LEVEL: Final = 0.98
"""The confidence level of each interval. Samples are added until an interval decides, so each of several
looks needs a higher level than the 95 % of the whole.
"""
LOOKS: Final = (9, 13, 19, 28, 42)
"""The numbers of samples at which the interval is evaluated."""


@cache
def rank(count: int, level: float = LEVEL) -> int:
    """The largest k such that the median is between the k-th smallest and the k-th largest of ``count``
    samples with probability ``level``; 0 if there are too few samples.
    """
    outside, k = 0.0, 0
    while k < count // 2:
        outside += math.comb(count, k) / 2**count
        if 2 * outside > 1 - level:
            break
        k += 1
    return k


def interval(samples: Sequence[float]) -> tuple[float, float]:
    """The confidence interval of the median of ``samples``; infinite if there are too few."""
    ordered, k = sorted(samples), rank(len(samples))
    return (ordered[k - 1], ordered[-k]) if k else (-math.inf, math.inf)


def median_interval(samples: Sequence[float]) -> tuple[float, float, float]:
    """The median of ``samples`` and its confidence interval."""
    return statistics.median(samples), *interval(samples)

"""The median of samples, with a distribution-free interval from order statistics (H. A. David and
H. N. Nagaraja, "Order Statistics", 2003, section 7.1).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import cache
from typing import Final

LEVEL: Final = 0.98
"""Of each interval. Samples are added until an interval decides: as there are several looks, each has to hold
more often than the 95 % that the last one is to hold."""
LOOKS: Final = (9, 13, 19, 28, 42)
"""Numbers of samples at which the interval is looked at."""


@cache
def rank(count: int, level: float = LEVEL) -> int:
    """The largest k such that the median lies between the k-th least and the k-th largest of ``count``
    samples in ``level`` of all cases; 0 where there are too few."""
    outside, k = 0.0, 0
    while k < count // 2:
        outside += math.comb(count, k) / 2**count
        if 2 * outside > 1 - level:
            break
        k += 1
    return k


def interval(samples: Sequence[float]) -> tuple[float, float]:
    """The interval of the median of ``samples``, infinite if they are too few."""
    ordered, k = sorted(samples), rank(len(samples))
    return (ordered[k - 1], ordered[-k]) if k else (-math.inf, math.inf)


def median_interval(samples: Sequence[float]) -> tuple[float, float, float]:
    """The median of ``samples``, and its interval."""
    return statistics.median(samples), *interval(samples)

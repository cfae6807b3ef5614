"""Delta debugging: finds a smallest part of a list that still has a property.

The algorithm ddmin of Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, IEEE
Transactions on Software Engineering 28 (2), 2002.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


class Budget:
    """The time limit of a search, in seconds."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def is_spent(self) -> bool:
        return time.monotonic() >= self._end


def ddmin(items: Sequence[T], holds: Callable[[Sequence[T]], bool], budget: Budget) -> list[T]:
    """A minimal part of ``items``, in their order, for which ``holds`` is true: no item can be removed,
    unless the budget was exhausted before.
    """
    kept, parts = list(items), 2
    while len(kept) > 1 and not budget.is_spent:
        pieces = _pieces(kept, parts)
        piece = next((each for each in pieces if not budget.is_spent and holds(each)), None)
        if piece is not None:
            kept, parts = piece, 2
            continue
        rests = (kept_without(kept, pieces, number) for number in range(len(pieces)))
        rest = next((r for r in rests if parts > 2 and not budget.is_spent and holds(r)), None)
        if rest is not None:
            kept, parts = rest, max(parts - 1, 2)
        elif parts >= len(kept):
            break
        else:
            parts = min(2 * parts, len(kept))
    return kept


def kept_without(items: Sequence[T], pieces: Sequence[Sequence[T]], number: int) -> list[T]:
    """``items`` without the piece with this number."""
    return [item for k, piece in enumerate(pieces) if k != number for item in piece]


def _pieces(items: Sequence[T], count: int) -> list[list[T]]:
    """``items`` in ``count`` pieces of about the same length."""
    bounds = [len(items) * k // count for k in range(count + 1)]
    return [list(items[a:b]) for a, b in pairwise(bounds) if a < b]

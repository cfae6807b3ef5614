"""The permutations between channels-first [N, C, D...] and channels-last [N, D..., C] images."""

from __future__ import annotations

from graphwright.ir.interfaces.blocked_form import CHANNELS


def to_last(rank: int) -> tuple[int, ...]:
    """The permutation from [N, C, D...] to [N, D..., C]."""
    return (0, *range(CHANNELS + 1, rank), CHANNELS)


def to_first(rank: int) -> tuple[int, ...]:
    """The permutation from [N, D..., C] to [N, C, D...]."""
    return (0, rank - 1, *range(CHANNELS, rank - 1))

"""Offsets in one arena, by the native runtime: a compiled model plans new shapes with the same code."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright import _native


def plan_memory(
    sizes: Sequence[int], conflicts: Sequence[Sequence[int]], often: bool = False
) -> tuple[list[int], int]:
    """Offsets of buffers of ``sizes`` bytes, and the bytes of the arena that holds them; all multiples of 64.

    ``conflicts[i]`` lists the buffers of lower number that may not overlap buffer ``i``. ``often``: as for a
    program that is planned for each new shape, with a shorter search. Deterministic.
    Raises ValueError for a conflict that is no lower number, ``_native.PlanError`` for a negative size.
    Greedy by size with best fit (Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net
    Inference, 2020), then a bounded search of orders (iterated greedy: Ruiz and Stuetzle, 2007) while the
    arena is above the heaviest clique of conflicts.
    """
    offsets, arena = _native.plan_memory(list(sizes), [list(lower) for lower in conflicts], often)
    return offsets, arena

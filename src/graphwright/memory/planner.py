"""Plans offsets in one arena. The native runtime does this, as it plans new shapes at run time in the same
way.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphwright import _native


def plan_memory(
    sizes: Sequence[int], conflicts: Sequence[Sequence[int]], often: bool = False
) -> tuple[list[int], int]:
    """Offsets of buffers of ``sizes`` bytes, and the size of the arena in bytes; all are multiples of 64.

    ``conflicts[i]`` lists the buffers of lower index that must not overlap buffer ``i``. ``often`` shortens
    the search, for programs that are planned for each new shape. The result is deterministic. Raises
    ValueError for a conflict that is not a lower index, and ``_native.PlanError`` for a negative size.

    Algorithm: greedy by size with best fit (Pisarchyk and Lee, Efficient Memory Management for Deep Neural
    Net Inference, 2020), then a bounded search over orders (iterated greedy: Ruiz and Stuetzle, 2007) as long
    as the arena is larger than the heaviest clique of conflicts that was found.
    """
    offsets, arena = _native.plan_memory(list(sizes), [list(lower) for lower in conflicts], often)
    return offsets, arena

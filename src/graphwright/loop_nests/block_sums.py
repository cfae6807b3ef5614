"""Long sums in blocks: the elements of each block are added first, then the sums of the blocks.

Errors of rounding then grow with ``n / BLOCK``, not with ``n``, the number of elements (Higham, "The Accuracy
of Floating Point Summation", 1993).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from graphwright.ir.loops.nodes import Accumulate, Alloc, Kind, Load, Loop, Statement, walk
from graphwright.ir.symbols import Dim, ceildiv, minimum, symbol
from graphwright.loop_nests.unroll import copy_of
from graphwright.records import replace

BLOCK: Final = 64
"""A kernel writes and adds the sums of a block once per block, which costs a few percent of reading it."""


def longest(extents: Sequence[Dim]) -> int:
    """The position of the greatest extent; an unknown one counts as the greatest."""
    return max(range(len(extents)), key=lambda k: _known(extents[k]))


def _known(extent: Dim) -> float:
    return extent if isinstance(extent, int) else float("inf")


def sum_in_blocks(
    loop: Loop, take: Callable[[str], str], over_sums: Callable[[Sequence[Statement]], Loop] | None = None
) -> Loop:
    """``loop``, which runs over a reduced axis, in a loop over blocks of iterations, if it adds floats and is
    long or of unknown length. ``take`` makes a name unique; ``over_sums`` wraps statements about accumulators
    in the loop over their elements; without it, they are scalars.
    """
    found = [s for s in walk(loop.body) if isinstance(s, Accumulate) and _adds_floats(s)]
    sums = {s.buffer.name: s for s in found}  # a loop and its remainder add to the same buffers
    if not sums or _known(loop.extent) <= BLOCK:
        return loop
    parts = {name: replace(s.buffer, name=take("part")) for name, s in sums.items()}
    axis, block = take("r"), take("s")
    first = BLOCK * symbol(block)
    exact = loop.extent % BLOCK == 0
    extent = BLOCK if exact else minimum(BLOCK, loop.extent - first)
    body = copy_of(loop.body, {loop.axis: first + symbol(axis)}, parts, take)
    added = [
        Accumulate(s.buffer, s.index, s.combiner, Load(parts[name], s.index)) for name, s in sums.items()
    ]
    return Loop(
        block,
        Kind.REDUCE,
        ceildiv(loop.extent, BLOCK),
        (
            *(Alloc(part, 0) for part in parts.values()),
            Loop(axis, Kind.REDUCE, extent, body),
            *(added if over_sums is None else [over_sums(added)]),
        ),
    )


def _adds_floats(statement: Accumulate) -> bool:
    return statement.combiner == "add" and statement.buffer.dtype.is_float

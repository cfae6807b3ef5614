"""Parallel moves between memory blocks, in an order that keeps what later moves read."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from graphwright.low_ir.tasks import Storage
from graphwright.memory.locations import Location, Memory, Move, sequentialize

BLOCKS = range(6)


@given(st.dictionaries(st.sampled_from(BLOCKS), st.sampled_from(BLOCKS)))
def test_moves_in_order_do_what_parallel_moves_do(sources: dict[int, int]) -> None:
    """``sources`` gives the block that each target receives."""
    blocks = [Memory(Storage.ARENA, 8, f"block {k}") for k in BLOCKS]
    ordered = sequentialize([Move(Location(blocks[s]), Location(blocks[t]), 8) for t, s in sources.items()])
    held = {block: number for number, block in enumerate(blocks)}
    for move in ordered:
        held[move.target.memory] = held[move.source.memory]
    assert [held[block] for block in blocks] == [sources.get(k, k) for k in BLOCKS]


def test_many_moves_take_time_in_proportion() -> None:
    """A chain in the worst order, and one block that all others receive."""
    count = 20_000
    blocks = [Memory(Storage.ARENA, 8, str(k)) for k in range(count)]
    chain = [Move(Location(a), Location(b), 8) for a, b in pairwise(blocks)]
    assert sequentialize(chain) == chain[::-1]
    copies = [Move(Location(blocks[0]), Location(block), 8) for block in blocks[1:]]
    assert sequentialize(copies) == copies

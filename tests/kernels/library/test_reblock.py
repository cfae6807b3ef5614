"""Conversion of values to channel blocks and back: every element size, and no byte outside the result is
written.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphwright.ir.symbols import evaluate, symbol
from graphwright.kernels.movement import reblock
from graphwright.targets.cpu.isa import ISAS, Isa
from tests.kernels.library.blocked import blocks, in_blocks, place, room
from tests.kernels.library.cases import chunkings, each_isa
from tests.kernels.library.harness import Array, call, load, strided
from tests.kernels.library.windows import normal

shapes = st.tuples(
    st.integers(0, 2), st.sampled_from([1, 3, 8, 13, 16, 17, 40]), st.sampled_from([0, 1, 2, 5, 7, 16]),
    st.sampled_from([0, 1, 2, 7, 8, 9, 16, 17, 31, 33, 150]),
)  # fmt: skip


def check(isa: Isa, shape: tuple[int, ...], gap: int, side: str, channels_last: bool = False) -> None:
    """Checks both kernels with every chunking."""
    n, c, h, w = shape
    values = normal(np.random.default_rng(c * h * w), *shape)
    order = (0, 2, 3, 1) if channels_last else range(4)
    plain, (plain_n, plain_c, plain_h, _) = strided(values, order, 0 if channels_last else gap, side)
    expected = in_blocks(values, isa, pad=0.0)
    blocked, strides = room(*shape, isa, side, gap)
    args = reblock.ReblockArgs(n, c, h, w, plain_n, plain_c, plain_h, *strides)
    kernels, grid = load(reblock, isa), reblock.grid(isa, args)
    for chunks in chunkings(grid):
        blocked[...] = np.nan
        assert call(kernels[reblock.BLOCK], [plain, blocked], args, grid, 0, chunks=chunks) == 0
        np.testing.assert_array_equal(blocked, expected)
    blocked[...] = in_blocks(values, isa)
    for chunks in chunkings(grid):
        plain[...] = np.nan
        assert call(kernels[reblock.UNBLOCK], [blocked, plain], args, grid, 0, chunks=chunks) == 0
        np.testing.assert_array_equal(plain, values)


@each_isa
@settings(max_examples=80, deadline=None)
@given(shape=shapes, gap=st.sampled_from([0, 3]), side=st.sampled_from(["start", "end"]))
@example((1, 40, 40, 60), 0, "end")
@example((2, 33, 1, 1), 0, "start")
@example((1, 3, 7, 333), 5, "end")
def test_blocks_hold_the_channels_and_zeros(isa: Isa, shape: tuple[int, ...], gap: int, side: str) -> None:
    check(isa, shape, gap, side)


@each_isa
@pytest.mark.parametrize("channels", [1, 16, 37, 1280])
def test_images_of_one_pixel_may_be_channels_last(isa: Isa, channels: int) -> None:
    check(isa, (3, channels, 1, 1), 0, "end", channels_last=True)


@each_isa
def test_other_channels_of_the_concatenated_value_stay(isa: Isa) -> None:
    """The kernel writes channels 16 to 40 of a concatenated value of 48 (blocks 1 and 2 of 16), and no
    others.
    """
    values, lanes = normal(np.random.default_rng(4), 2, 24, 3, 5), isa.lanes
    whole: Array
    whole, (image, block, row) = place(in_blocks(normal(np.random.default_rng(5), 2, 48, 3, 5), isa))
    before = whole.copy()
    first, count = 16 // lanes, blocks(24, isa)
    slot = whole[:, first : first + count]
    args = reblock.ReblockArgs(2, 24, 3, 5, 24 * 15, 15, 5, image, block, row)
    assert call(load(reblock, isa)[reblock.BLOCK], [values, slot], args, reblock.grid(isa, args), 0) == 0
    before[:, first : first + count] = in_blocks(values, isa, pad=0.0)
    np.testing.assert_array_equal(whole, before)


def test_sizes_may_be_symbols() -> None:
    h = symbol("H")
    args = reblock.ReblockArgs(2, 20, h, 9, 180 * h, 9 * h, 9, 32 * 9 * h, 16 * 9 * h, 16 * 9)
    known = reblock.ReblockArgs(*(evaluate(dim, {"H": 200}) for dim in args))
    for isa in ISAS.values():
        assert evaluate(reblock.grid(isa, args), {"H": 200}) == reblock.grid(isa, known)
        assert evaluate(reblock.work_ns(isa, args), {"H": 200}) == reblock.work_ns(isa, known) > 0

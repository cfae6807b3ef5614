"""Channels copied between blocked values: every pair of offsets, and no other byte is written."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphwright.ir.symbols import evaluate, symbol
from graphwright.kernels.movement import blocked_concat
from graphwright.kernels.movement.blocked_concat import CopyChannelsArgs
from graphwright.targets.cpu.isa import ISAS, Isa
from tests.kernels.library.blocked import in_blocks, in_rows, place
from tests.kernels.library.cases import AnyArray, chunkings, each_isa
from tests.kernels.library.harness import call, load
from tests.kernels.library.windows import normal


def copy(
    isa: Isa, x: AnyArray, y: AnyArray, channels: int, x_first: int, y_first: int, gap: int = 0,
    side: str = "end",
) -> AnyArray:  # fmt: skip
    """``y`` with ``channels`` of ``x`` at ``y_first``; all other lanes keep their bits."""
    n, _, h, w = x.shape
    source, x_strides = place(in_blocks(x, isa), side, gap)
    target, y_strides = place(in_blocks(y, isa, pad=7.0), side, gap)
    args = CopyChannelsArgs(n, channels, h, w, x_first, y_first, *x_strides, *y_strides)
    kernel = load(blocked_concat, isa)[blocked_concat.SYMBOL]
    grid = int(blocked_concat.grid(isa, args))
    expected = y.copy()
    expected[:, y_first : y_first + channels] = x[:, x_first : x_first + channels]
    for chunks in chunkings(grid):
        target[...] = in_blocks(y, isa, pad=7.0)
        assert call(kernel, [source, target], args, grid, 0, chunks=chunks) == 0
        np.testing.assert_array_equal(target, in_blocks(expected, isa, pad=7.0))
    return in_rows(target, y.shape[1])


@each_isa
@settings(max_examples=100, deadline=None)
@given(
    n=st.integers(0, 2), channels=st.sampled_from([0, 1, 5, 8, 12, 16, 24, 33, 48]),
    x_first=st.sampled_from([0, 1, 8, 11, 16, 32]), y_first=st.sampled_from([0, 3, 8, 12, 16, 21, 32]),
    beyond=st.sampled_from([0, 1, 20]), h=st.sampled_from([0, 1, 3, 40]), w=st.sampled_from([1, 2, 7, 60]),
    gap=st.sampled_from([0, 3]), side=st.sampled_from(["start", "end"]),
)  # fmt: skip
@example(1, 48, 0, 32, 0, 40, 60, 0, "end")
@example(2, 33, 11, 21, 1, 3, 7, 5, "start")
def test_only_the_channels_are_copied(
    isa: Isa, n: int, channels: int, x_first: int, y_first: int, beyond: int, h: int, w: int, gap: int,
    side: str,
) -> None:  # fmt: skip
    rng = np.random.default_rng(channels + h)
    x = normal(rng, n, x_first + channels + beyond, h, w)
    y = normal(rng, n, y_first + channels + beyond, h, w)
    if x.shape[1] and y.shape[1]:
        copy(isa, x, y, channels, x_first, y_first, gap, side)


@each_isa
def test_concat_and_split_are_inverse(isa: Isa) -> None:
    rng, counts = np.random.default_rng(3), (24, 12, 16, 7)
    inputs = [normal(rng, 2, c, 5, 9) for c in counts]
    y = np.full((2, sum(counts), 5, 9), np.nan, np.float32)
    firsts = np.cumsum((0, *counts[:-1])).tolist()
    for x, first in zip(inputs, firsts, strict=True):
        y = copy(isa, x, y, x.shape[1], 0, first)
    np.testing.assert_array_equal(y, np.concatenate(inputs, 1))
    for x, first in zip(inputs, firsts, strict=True):
        np.testing.assert_array_equal(copy(isa, y, np.zeros_like(x), x.shape[1], first, 0), x)


def test_sizes_may_be_symbols() -> None:
    h = symbol("H")
    args = CopyChannelsArgs(2, 40, h, 9, 0, 20, 48 * 9 * h, 144 * h, 144, 64 * 9 * h, 144 * h, 144)
    known = CopyChannelsArgs(*(evaluate(dim, {"H": 200}) for dim in args))
    for isa in ISAS.values():
        for formula in (blocked_concat.grid, blocked_concat.work_ns):
            assert evaluate(formula(isa, args), {"H": 200}) == formula(isa, known) > 0

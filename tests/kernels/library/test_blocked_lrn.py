"""Local response normalization of channel blocks against float64 NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphwright.ir.symbols import evaluate, symbol
from graphwright.kernels.library.bits import double_bits
from graphwright.kernels.normalization import blocked_lrn
from graphwright.kernels.normalization.blocked_lrn import BlockedLrnArgs
from graphwright.targets.cpu.isa import ISAS, Isa
from tests.kernels.library.blocked import in_blocks, in_rows, place, room
from tests.kernels.library.cases import chunkings, each_isa
from tests.kernels.library.harness import call, load
from tests.kernels.library.windows import normal


def expected_lrn(x: Any, size: int, alpha: float, beta: float, bias: float) -> Any:
    """The sum over channels c - (size - 1) // 2 .. c + size // 2, one by one."""
    wide, channels = x.astype(np.float64), x.shape[1]
    total = np.zeros_like(wide)
    for c in range(channels):
        first, last = max(0, c - (size - 1) // 2), min(channels, c + size // 2 + 1)
        total[:, c] = (wide[:, first:last] ** 2).sum(1)
    return wide / (bias + alpha / size * total) ** beta


def run(
    isa: Isa, x: Any, size: int, alpha: float, beta: float, bias: float, gap: int = 0, side: str = "end"
) -> Any:
    """The kernel's output, the same bits under every chunking; NaN in the lanes without a channel."""
    n, channels, h, w = x.shape
    values, x_strides = place(in_blocks(x, isa), side, gap)
    y, y_strides = room(n, channels, h, w, isa, side, gap)
    numbers = (double_bits(alpha), double_bits(beta), double_bits(bias))
    args = BlockedLrnArgs(n, channels, h, w, size, *numbers, *x_strides, *y_strides)
    grid, scratch = int(blocked_lrn.grid(isa, args)), blocked_lrn.scratch_bytes(isa, args)
    results = []
    for chunks in chunkings(grid):
        y[...] = 99
        kernel = load(blocked_lrn, isa)[blocked_lrn.SYMBOL]
        assert call(kernel, [values, y], args, grid, scratch, chunks=chunks) == 0
        results.append(in_rows(y, channels).copy())
    for result in results[1:]:
        np.testing.assert_array_equal(result.view(np.uint32), results[0].view(np.uint32))
    return results[0]


@each_isa
@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(0, 2), channels=st.sampled_from([1, 3, 8, 16, 21, 40]), h=st.sampled_from([1, 3, 7]),
    w=st.sampled_from([1, 5, 16, 33]), size=st.sampled_from([1, 2, 3, 4, 5, 9, 45]),
    beta=st.sampled_from([0.75, 0.5, 1.0]), bias=st.sampled_from([1.0, 2.0]),
    gap=st.sampled_from([0, 3]), side=st.sampled_from(["start", "end"]),
)  # fmt: skip
@example(1, 40, 3, 33, 5, 0.75, 1.0, 5, "end")
def test_matches_float64(
    isa: Isa, n: int, channels: int, h: int, w: int, size: int, beta: float, bias: float, gap: int, side: str
) -> None:
    x = normal(np.random.default_rng(channels * w), n, channels, h, w)
    result = run(isa, x, size, 0.5, beta, bias, gap, side)
    np.testing.assert_allclose(result, expected_lrn(x, size, 0.5, beta, bias), rtol=2e-6)


@each_isa
@pytest.mark.parametrize("beta", [0.75, 0.6])
def test_special_values_reach_their_window_only(isa: Isa, beta: float) -> None:
    x = np.ones((1, 20, 1, 3), np.float32)
    x[0, 7, 0, 0], x[0, 9, 0, 1], x[0, 19, 0, 2] = np.nan, np.inf, 1e30
    y = run(isa, x, 3, 0.5, beta, 1.0)
    assert np.flatnonzero(np.isnan(y[0, :, 0, 0])).tolist() == [6, 7, 8]
    assert np.isnan(y[0, 9, 0, 1])
    np.testing.assert_array_equal(y[0, [8, 10], 0, 1], [0, 0])
    np.testing.assert_array_equal(y[0, [18, 19], 0, 2], [0, 0])
    np.testing.assert_allclose(y[0, 11:, 0, 1], expected_lrn(x[..., 0], 3, 0.5, beta, 1.0)[0, 11:, 0], 1e-6)


def test_sizes_may_be_symbols() -> None:
    h = symbol("H")
    strides = (4 * 56 * 16 * h, 56 * 16 * h, 56 * 16)
    args = BlockedLrnArgs(2, 64, h, 56, 5, 0, 0, 0, *strides, *strides)
    known = BlockedLrnArgs(*(evaluate(dim, {"H": 30}) for dim in args))
    for isa in ISAS.values():
        for formula in (blocked_lrn.grid, blocked_lrn.scratch_bytes, blocked_lrn.work_ns):
            assert evaluate(formula(isa, args), {"H": 30}) == formula(isa, known) > 0

"""Pooling of channel blocks against windows cut by NumPy, one output at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.ir.symbols import evaluate, symbol
from graphwright.kernels.pool import blocked_pool
from graphwright.kernels.pool.blocked_pool import BlockedPoolArgs
from graphwright.targets.cpu.isa import ISAS, Isa
from tests.kernels.library.blocked import in_blocks, in_rows, place, room
from tests.kernels.library.cases import chunkings, each_isa
from tests.kernels.library.harness import call, load
from tests.kernels.library.pooling import cases, expected_pool, signal

F32 = npt.NDArray[np.float32]
Case = dict[str, Any]
CASES = cases(([1, 5, 9], [1, 3, 16, 17, 37]), [1, 8, 16, 19])


def run(isa: Isa, symbol: str, x: F32, case: Case, include: bool, gap: int, side: str) -> F32:
    """The kernel's output, the same bits under every chunking."""
    n, channels, h, w = x.shape
    values, x_strides = place(in_blocks(x, isa), side, gap)
    y, y_strides = room(n, channels, *case["out"], isa, side, gap)
    args = BlockedPoolArgs(
        n, channels, h, w, *case["out"], *case["kernel"], *case["strides"], *case["before"], *case["after"],
        *case["dilations"], int(include), *x_strides, *y_strides,
    )  # fmt: skip
    grid, scratch = int(blocked_pool.grid(isa, args)), blocked_pool.scratch_bytes(isa, args)
    results = []
    for chunks in chunkings(grid):
        y[...] = 99
        assert call(load(blocked_pool, isa)[symbol], [values, y], args, grid, scratch, chunks=chunks) == 0
        results.append(in_rows(y, channels).copy())
    for result in results[1:]:
        np.testing.assert_array_equal(result.view(np.uint32), results[0].view(np.uint32))
    return results[0]


@each_isa
@pytest.mark.parametrize("kind", ["max", "average"])
@settings(deadline=None, max_examples=50)
@given(
    case=CASES, include=st.booleans(), special=st.booleans(), gap=st.sampled_from([0, 3]),
    side=st.sampled_from(["start", "end"]),
)  # fmt: skip
def test_pool_reduces_each_window(
    isa: Isa, kind: str, case: tuple[tuple[int, ...], Case], include: bool, special: bool, gap: int, side: str
) -> None:
    shape, axes = case
    x = signal(shape, special)
    name = blocked_pool.MAX if kind == "max" else blocked_pool.AVERAGE
    result = run(isa, name, x, axes, include, gap, side)
    np.testing.assert_allclose(result, expected_pool(x, axes, kind, include), rtol=1e-5, atol=1e-5)


@each_isa
def test_nan_wins_and_the_sign_of_an_infinity_stays(isa: Isa) -> None:
    x = np.array([[1, np.nan, 2, -np.inf, -np.inf, np.inf, 3]], np.float32).reshape(1, 1, 1, 7)
    case = {"out": [1, 6], "kernel": [1, 2], "strides": [1, 1], "before": [0, 0], "after": [0, 0]}
    result = run(isa, blocked_pool.MAX, x, {**case, "dilations": [1, 1]}, include=False, gap=0, side="end")
    np.testing.assert_array_equal(result.ravel(), [np.nan, np.nan, 2, -np.inf, np.inf, np.inf])


def test_sizes_may_be_symbols() -> None:
    h = symbol("H")
    strides = (4 * 56 * 16 * h, 56 * 16 * h, 56 * 16)
    args = BlockedPoolArgs(2, 64, h, 56, h, 56, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 0, *strides, *strides)
    known = BlockedPoolArgs(*(evaluate(dim, {"H": 30}) for dim in args))
    formulas = (blocked_pool.grid, blocked_pool.scratch_bytes, blocked_pool.work_ns)
    for isa in ISAS.values():
        assert math.prod((2, 64 // isa.lanes, 30)) == blocked_pool.grid(isa, known)
        for formula in formulas:
            assert evaluate(formula(isa, args), {"H": 30}) == formula(isa, known) > 0

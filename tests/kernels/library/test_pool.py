"""Pooling against windows cut by NumPy, one output at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.kernels.pool import pool
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import AnyArray, chunkings, each_isa, guard
from tests.kernels.library.harness import call, load, strided
from tests.kernels.library.pooling import PROBLEMS, expected_pool, signal


def spec(x: AnyArray, y: AnyArray, case: dict[str, Any], symbol: str, **flags: bool) -> pool.Pool:
    def strides(a: AnyArray) -> Any:
        return tuple(s // 4 for s in a.strides[:4])

    return pool.Pool(
        *(symbol, x.shape[0], x.shape[1], x.shape[2:], tuple(case["out"]), tuple(case["kernel"])),
        *(tuple(case["strides"]), tuple(case["before"]), tuple(case["after"]), tuple(case["dilations"])),
        *(strides(x), strides(y)),
        **flags,
    )


@st.composite
def pairs(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Windows of two columns of their own, over one plane or two, with and without rows of padding."""
    height, width = draw(st.integers(2, 5)), draw(st.integers(2, 70))
    depth, pad = draw(st.integers(1, 2)), draw(st.integers(0, 1))
    axes = {
        "kernel": [depth, 2, 2],
        "strides": [depth, 2, 2],
        "before": [0, pad, 0],
        "after": [0, 0, 0],
        "dilations": [1, 1, 1],
        "out": [2, (height + pad) // 2, width // 2],
    }
    return (1, draw(st.integers(1, 3)), 2 * depth, height, width), axes


@each_isa
@given(
    case=PROBLEMS | pairs(),
    include=st.booleans(),
    special=st.booleans(),
    at_end=st.booleans(),
    gap=st.sampled_from([0, 3]),
)
@settings(deadline=None, max_examples=60)
@pytest.mark.parametrize("kind", ["max", "average"])
def test_pool_reduces_each_window(
    isa: Isa,
    kind: str,
    case: tuple[tuple[int, ...], dict[str, Any]],
    include: bool,
    special: bool,
    at_end: bool,
    gap: int,
) -> None:
    shape, axes = case
    side = "end" if at_end else "start"
    x, _ = strided(signal(shape, special), range(5), gap, side)
    y = guard(np.empty((*shape[:2], *axes["out"]), np.float32), at_end=at_end)
    symbol = pool.Pool.MAX if kind == "max" else pool.Pool.AVERAGE
    args = spec(x, y, axes, symbol, count_include_pad=include)
    expected = expected_pool(x, axes, kind, include)
    results = []
    for chunks in chunkings(args.grid):
        y[...] = 99
        assert (
            call(
                getattr(load(pool, isa), symbol),
                [x, y],
                args.args,
                args.grid,
                args.scratch_bytes(isa),
                chunks=chunks,
            )
            == 0
        )
        results.append(y.copy())
    np.testing.assert_allclose(results[0], expected, rtol=1e-5, atol=1e-5)
    for result in results[1:]:
        np.testing.assert_array_equal(result.view(np.uint32), results[0].view(np.uint32))


@each_isa
@given(case=PROBLEMS, column_major=st.booleans())
@settings(deadline=None, max_examples=40)
def test_max_pool_indices_point_at_the_maxima(
    isa: Isa, case: tuple[tuple[int, ...], dict[str, Any]], column_major: bool
) -> None:
    shape, axes = case
    x = guard(np.random.default_rng(4).permutation(math.prod(shape)).astype(np.float32).reshape(shape))
    y = guard(np.empty((*shape[:2], *axes["out"]), np.float32))
    indices = guard(np.empty(y.shape, np.int64))
    args = spec(x, y, axes, pool.Pool.MAX_INDICES, column_major=column_major)
    kernel = load(pool, isa).gw_max_pool_indices_f32
    for chunks in chunkings(args.grid):
        assert (
            call(kernel, [x, y, indices], args.args, args.grid, args.scratch_bytes(isa), chunks=chunks) == 0
        )
    np.testing.assert_array_equal(y, expected_pool(x, axes, "max", count_include_pad=False))
    found = np.isfinite(y)
    assert (indices[~found] == -1).all()
    flat = x.transpose(0, 1, 4, 3, 2).reshape(-1) if column_major else x.reshape(-1)
    np.testing.assert_array_equal(flat[indices[found]], y[found])


@each_isa
def test_max_pool_indices_take_the_first_of_equals_and_of_nans(isa: Isa) -> None:
    x = np.array([1, 1, 0, np.nan, 5, np.nan], np.float32).reshape(1, 1, 1, 1, 6)
    y, indices = np.empty((1, 1, 1, 1, 2), np.float32), np.empty((1, 1, 1, 1, 2), np.int64)
    zero, one = [0, 0, 0], [1, 1, 1]
    axes = {
        "kernel": [1, 1, 3],
        "strides": [1, 1, 3],
        "before": zero,
        "after": zero,
        "dilations": one,
        "out": [1, 1, 2],
    }
    args = spec(x, y, axes, pool.Pool.MAX_INDICES)
    assert call(load(pool, isa).gw_max_pool_indices_f32, [x, y, indices], args.args, args.grid, 0) == 0
    assert indices.ravel().tolist() == [0, 3]
    assert y.ravel()[0] == 1 and np.isnan(y.ravel()[1])

"""Samples of images against a loop over pixels, in guarded memory, under any chunking."""

from __future__ import annotations

from itertools import product
from math import floor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.kernels.resize import grid_sample
from graphwright.kernels.resize.grid_sample import GridSampleCall, Mode, Padding
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import AnyArray, chunkings, each_isa, guard
from tests.kernels.library.harness import call, load


def run(isa: Isa, x: AnyArray, points: AnyArray, *how: int, chunks: Any = None) -> AnyArray:
    """The samples [N, C, Q] of x [N, C, H, W] at points [N, Q, 2]; ``how`` are mode, padding, aligned."""
    operands = [guard(np.ascontiguousarray(each), at_end=True) for each in (x, points)]
    y = guard(np.full((*x.shape[:2], points.shape[1]), np.nan, np.float32), at_end=True)
    args = GridSampleCall(*x.shape, points.shape[1], *how)
    kernel = load(grid_sample, isa).gw_grid_sample_f32
    assert call(kernel, [*operands, y], args, args.grid, 0, chunks=chunks) == 0
    return y


def cubic(d: float) -> float:
    """Keys 1981, equation 4, with a = -0.75."""
    a = -0.75
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a


def mirrored(pixel: int, size: int, aligned: bool) -> int:
    """Reflected step by step at the centers, or the edges, of the outer pixels."""
    if aligned and size == 1:
        return 0
    low, high = (0, 2 * (size - 1)) if aligned else (-1, 2 * size - 1)
    while not 0 <= pixel < size:
        pixel = (low if pixel < 0 else high) - pixel
    return pixel


def taps(point: Any, size: int, mode: Mode, padding: Padding, aligned: bool) -> list[tuple[int, float]]:
    """The pixels of a sample along one axis, and their weights."""
    one, two = np.float32(1), np.float32(2)  # the nearest pixel depends on rounding
    at = (
        (point + one) / two * np.float32(size - 1)
        if aligned
        else ((point + one) * np.float32(size) - one) / two
    )
    if mode is Mode.NEAREST:
        weights = {round(float(at)): 1.0}
    else:
        first, weight = floor(at), cubic if mode is Mode.CUBIC else lambda d: 1 - d
        offsets = range(-1, 3) if mode is Mode.CUBIC else range(2)
        weights = {first + k: weight(abs(float(at) - first - k)) for k in offsets}
    if padding is Padding.ZEROS:
        return [(pixel, weight) for pixel, weight in weights.items() if 0 <= pixel < size]
    if padding is Padding.BORDER:
        return [(min(max(pixel, 0), size - 1), weight) for pixel, weight in weights.items()]
    return [(mirrored(pixel, size, aligned), weight) for pixel, weight in weights.items()]


def expected(x: AnyArray, points: AnyArray, mode: Mode, padding: Padding, aligned: bool) -> AnyArray:
    y = np.zeros((*x.shape[:2], points.shape[1]))
    for n, q in np.ndindex(*points.shape[:2]):
        column, row = points[n, q]
        rows = taps(row, x.shape[2], mode, padding, aligned)
        for (h, below), (w, beside) in product(rows, taps(column, x.shape[3], mode, padding, aligned)):
            y[n, :, q] += below * beside * x[n, :, h, w]
    return y


@each_isa
@given(
    shape=st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(1, 9), st.integers(1, 17)),
    count=st.sampled_from([0, 1, 7, 16, 33, 130]),
    mode=st.sampled_from(Mode),
    padding=st.sampled_from(Padding),
    aligned=st.booleans(),
    reach=st.sampled_from([1.0, 1.5, 9.0]),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=100)
def test_samples_weigh_pixels(isa: Isa, shape: Any, count: int, mode: Mode, padding: Padding, aligned: bool,
                              reach: float, seed: int) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape).astype(np.float32)
    points = rng.uniform(-reach, reach, (shape[0], count, 2)).astype(np.float32)
    centers = (2 * rng.integers(0, 9, points.shape) + 1) / 9 - 1  # ties of the nearest pixel are among them
    points = np.where(rng.random(points.shape) < 0.3, centers, points).astype(np.float32)
    want = expected(x, points, mode, padding, aligned)
    how = int(mode), int(padding), int(aligned)
    for chunks in chunkings(shape[0] * -(-count // 128)):
        y = run(isa, x, points, *how, chunks=chunks)
        np.testing.assert_allclose(y, want, rtol=1e-4, atol=2e-4)


@each_isa
@pytest.mark.parametrize("mode", Mode)
def test_pixels_without_weight_are_not_read(isa: Isa, mode: Mode) -> None:
    x = np.full((1, 1, 3, 4), np.inf, np.float32)
    x[0, 0, 1, 1] = 5
    center = np.array([[[2 * 1.5 / 4 - 1, 0]]], np.float32)
    outside = np.array([[[-1e30, 1e30], [np.nan, 7]]], np.float32)
    assert run(isa, x, center, mode, Padding.ZEROS, 0).item() == 5
    np.testing.assert_array_equal(run(isa, x, outside, mode, Padding.ZEROS, 0), np.zeros((1, 1, 2)))

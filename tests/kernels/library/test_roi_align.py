"""Means of samples of regions against a loop over samples, in guarded memory, under any chunking."""

from __future__ import annotations

from itertools import product
from math import ceil, floor, isfinite
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.kernels.library.bits import single_bits
from graphwright.kernels.pool import roi_align
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import AnyArray, chunkings, each_isa, guard
from tests.kernels.library.harness import call, load


def run(isa: Isa, x: AnyArray, regions: AnyArray, images: AnyArray, out: tuple[int, int], points: int,
        half_pixel: bool, scale: float, chunks: Any = None) -> AnyArray:  # fmt: skip
    operands = [guard(np.ascontiguousarray(each), at_end=True) for each in (x, regions, images)]
    y = guard(np.full((len(regions), x.shape[1], *out), np.nan, np.float32), at_end=True)
    sizes = (len(regions), *x.shape, *out)
    args = roi_align.RoiAlignCall(*sizes, points, int(half_pixel), single_bits(scale))
    kernel = load(roi_align, isa).gw_roi_align_f32
    scratch = args.scratch_bytes(isa)
    assert call(kernel, [*operands, y], args, len(regions), scratch, chunks=chunks) == 0
    return y


def pixels(at: Any, size: int) -> list[tuple[int, Any]]:
    """The pixels of a sample along one axis that have a weight, and their weights."""
    if not -1 <= at <= size:
        return []
    inside = min(max(at, 0), size - 1)
    low, fraction = floor(inside), inside - floor(inside)
    return [(low, 1 - fraction), *([(low + 1, fraction)] if fraction else [])]


def samples(low: Any, high: Any, bins: int, points: int, half_pixel: bool, scale: float) -> list[list[Any]]:
    """The coordinates of the samples of each bin along one axis, in f32: rounding decides how many."""
    f32 = np.float32
    start, end = (bound * f32(scale) - f32(0.5 * half_pixel) for bound in (low, high))
    step = (end - start if half_pixel else max(end - start, f32(1))) / f32(bins)
    count = points or max(0, ceil(step))
    within = [(f32(i) + f32(0.5)) * step / f32(count) for i in range(count)]
    return [[start + f32(k) * step + each for each in within] for k in range(bins)]


def expected(x: AnyArray, regions: AnyArray, images: AnyArray, out: tuple[int, int], points: int,
             half_pixel: bool, scale: float) -> AnyArray:  # fmt: skip
    """The result as ONNX defines it, sample by sample."""
    y = np.zeros((len(regions), x.shape[1], *out))
    for r, (x1, y1, x2, y2) in enumerate(regions):
        rows = samples(y1, y2, out[0], points, half_pixel, scale)
        columns = samples(x1, x2, out[1], points, half_pixel, scale)
        for i, j in product(range(out[0]), range(out[1])):
            for at_row, at_column in product(rows[i], columns[j]):
                for (h, row), (w, column) in product(
                    pixels(at_row, x.shape[2]), pixels(at_column, x.shape[3])
                ):
                    y[r, :, i, j] += row * column * x[images[r], :, h, w]
            y[r, :, i, j] /= max(len(rows[i]) * len(columns[j]), 1)
    return y


@each_isa
@given(
    shape=st.tuples(st.integers(1, 2), st.integers(0, 3), st.integers(1, 17), st.integers(1, 19)),
    out=st.tuples(st.integers(1, 4), st.integers(1, 9)),
    count=st.integers(0, 4),
    points=st.integers(0, 3),
    half_pixel=st.booleans(),
    scale=st.sampled_from([1.0, 0.25, 2.0]),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=60)
def test_means_of_samples(isa: Isa, shape: Any, out: Any, count: int, points: int, half_pixel: bool,
                          scale: float, seed: int) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape).astype(np.float32)
    # multiples of 1/7 keep the samples away from the edges, where rounding decides
    regions = ((rng.integers(-50, 200, (count, 4)) + 0.3) / 7).astype(np.float32)
    images = rng.integers(-shape[0], shape[0], count)
    made = [
        run(isa, x, regions, images, out, points, half_pixel, scale, chunks) for chunks in chunkings(count)
    ]
    for other in made[1:]:
        np.testing.assert_array_equal(other, made[0])
    wanted = expected(x, regions, images, out, points, half_pixel, scale)
    np.testing.assert_allclose(made[0], wanted, rtol=1e-4, atol=1e-4)


@each_isa
@pytest.mark.parametrize("points", [0, 2])
def test_regions_that_are_no_regions(isa: Isa, points: int) -> None:
    """NaN, infinities, and regions far larger than the image: their samples are outside, or too many."""
    bad = [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e9, -1e9, 0.0]
    regions = np.array(list(product(bad, repeat=4)), np.float32)
    images = np.zeros(len(regions), np.int64)
    y = run(
        isa, np.ones((1, 1, 5, 6), np.float32), regions, images, (2, 2), points, half_pixel=True, scale=1.0
    )
    assert np.all((y >= 0) & (y <= 1.0001)) and all(map(isfinite, y.ravel().tolist()))


@each_isa
def test_a_weight_of_0_hides_infinities(isa: Isa) -> None:
    x = np.ones((1, 2, 8, 8), np.float32)
    x[0, 1, 0, 0] = np.inf
    y = run(
        isa,
        x,
        np.array([[0, 0, 8, 8]], np.float32),
        np.zeros(1, np.int64),
        (2, 2),
        0,
        half_pixel=False,
        scale=1.0,
    )
    np.testing.assert_allclose(y[0, 0], 1)
    np.testing.assert_allclose(y[0, 1], [[np.inf, 1], [1, 1]])

"""Fourier transforms against NumPy in double precision: every radix, padding, cutting, parts, guard pages."""

from __future__ import annotations

import numpy as np
import pytest

from graphwright.kernels.signal import fft
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import AnyArray, chunkings, each_isa, guard
from tests.kernels.library.harness import call, load

LENGTHS = (256, 289, 320, 343, 375, 400, 441, 512, 625, 896, 1000, 1024, 2048, 2401, 4096, 16384)
FAST = [length for length in LENGTHS if fft.sides(length)]


def transform(isa: Isa, x: AnyArray, length: int, inverse: bool, bins: int) -> AnyArray:
    """The transform, after checking that every chunking gives the same bits."""
    made = fft.Fft(x.shape[0], x.shape[1], length, x.shape[2], bins, inverse)
    operands = [guard(x, at_end=True), guard(fft.table(length, inverse), at_end=True)]
    results = []
    for chunks in chunkings(made.grid):
        y = guard(np.full((x.shape[0], bins, 2), np.nan, np.float32), at_end=True)
        scratch = made.scratch_bytes(isa)
        kernel = load(fft, isa)[fft.SYMBOL]
        assert call(kernel, [*operands, y], made.args, made.grid, scratch, chunks=chunks) == 0
        results.append(y.copy())
    assert all(np.array_equal(results[0], other) for other in results)
    return results[0]


def expected(x: AnyArray, length: int, inverse: bool, bins: int) -> AnyArray:
    wide = x.astype(np.float64)
    signal = wide[..., 0] + 1j * wide[..., 1] if x.shape[2] == 2 else wide[..., 0]
    spectrum = (np.fft.ifft if inverse else np.fft.fft)(signal, length, axis=1)[:, :bins]
    return np.stack([spectrum.real, spectrum.imag], axis=-1)


@each_isa
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("length", FAST)
def test_transform_follows_numpy(isa: Isa, length: int, parts: int, inverse: bool) -> None:
    rng = np.random.default_rng(length)
    for dim, bins in ((length, length), (length - 5, length // 2 + 1), (length + 7, length), (1, 3)):
        x = rng.standard_normal((3, dim, parts)).astype(np.float32)
        wanted = expected(x, length, inverse, bins)
        got = transform(isa, x, length, inverse, bins)
        assert np.abs(got - wanted).max() <= 1e-6 * max(1e-3, np.abs(wanted).max()) + 1e-7


def test_lengths_with_large_factors_have_no_sides() -> None:
    assert [fft.sides(n) for n in (0, 1, 255, 1021, 17 * 64, 11 * 11 * 4)] == [None] * 6
    assert fft.sides(16384) == (128, 128) and fft.sides(400) == (20, 20)
    assert all(np.prod(fft.stages(side)) == side for n in FAST for side in fft.sides(n) or ())

"""Indices of elements that are not 0 against NumPy, in guarded memory, under any chunking."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.kernels.search import non_zero
from graphwright.kernels.search.non_zero import NonZero
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import AnyArray, chunkings, each_isa, guard
from tests.kernels.library.harness import call, load

DTYPES = (np.bool_, np.int8, np.uint16, np.float16, np.int32, np.float32, np.int64, np.float64)


def mask_of(dtype: AnyArray) -> int:
    """Converts a mask; the sign of a float does not count."""
    return 2 ** (8 * dtype.itemsize - 1) - 1 if dtype.kind == "f" else -1


def check(isa: Isa, x: AnyArray) -> None:
    made = NonZero(x.itemsize, mask_of(x.dtype), x.shape)
    expected = np.array(np.nonzero(x), np.int64) if x.ndim else np.zeros((0, int(x != 0)), np.int64)
    library = load(non_zero, isa)
    for at_end in (True, False):
        source = guard(x, at_end=at_end)
        for chunks in chunkings(int(made.grid)):
            counts, total = guard(np.full(int(made.grid), -7)), guard(np.zeros((), np.int64))
            room = guard(np.full(x.ndim * x.size, -7, np.int64), at_end=at_end)
            operands = [source, counts]
            assert call(library.gw_count_non_zero, operands, made.args, made.grid, 0, chunks=chunks) == 0
            operands += [room, total]
            assert call(library.gw_non_zero, operands, made.args, made.grid, 0, chunks=chunks) == 0
            assert total == expected.shape[1]
            found = room[: expected.size]
            np.testing.assert_array_equal(found.reshape(expected.shape), expected)
            assert np.all(room[expected.size :] == -7)


@each_isa
@given(
    dtype=st.sampled_from(DTYPES),
    shape=st.lists(st.sampled_from([0, 1, 2, 3, 17, 64, 130]), max_size=3),
    filled=st.sampled_from([0.0, 0.01, 0.5, 1.0]),
    seed=st.integers(0, 9),
)
@settings(deadline=None, max_examples=80)
def test_indices_are_numpys(isa: Isa, dtype: type, shape: list[int], filled: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(shape) < filled, rng.integers(1, 100, shape), 0).astype(dtype)
    if x.dtype.kind == "f":
        specials = np.array([np.nan, -0.0, np.inf, np.finfo(x.dtype).smallest_subnormal], x.dtype)
        x = np.where(rng.random(shape) < 0.1, rng.choice(specials, shape), x)
    check(isa, np.asarray(x, dtype))


@each_isa
def test_indices_of_many_blocks_are_in_order(isa: Isa) -> None:
    rng = np.random.default_rng(0)
    check(isa, rng.random((3, 5, 7001)) < 0.3)
    check(isa, rng.random((40_000, 3)) < 0.3)

"""Gathers of elements of every size against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwright.kernels.movement import gather
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import AnyArray, chunkings, each_isa, guard
from tests.kernels.library.harness import call, load
from tests.kernels.library.movement import DTYPES, few, random


@each_isa
@given(
    dtype=st.sampled_from(DTYPES),
    index_dtype=st.sampled_from([np.int32, np.int64]),
    outer=st.sampled_from([0, 1, 3]),
    axis=st.sampled_from([1, 2, 19]),
    count=st.sampled_from([0, 1, 5, 64]),
    inner=st.sampled_from([0, 1, 3, 17, 5000]),
)
@few()
def test_gather_is_numpys_take(
    isa: Isa, dtype: type, index_dtype: type, outer: int, axis: int, count: int, inner: int
) -> None:
    rng = np.random.default_rng(3)
    src = guard(random(rng, (outer, axis, inner), dtype))
    indices = guard(rng.integers(-axis, axis, count).astype(index_dtype))
    out = guard(np.empty((outer, count, inner), dtype))
    spec = gather_spec(src, indices, out)
    for chunks in chunkings(spec.grid):
        out[...] = 99
        assert (
            call(load(gather, isa).gw_gather, [src, indices, out], spec.args, spec.grid, 0, chunks=chunks)
            == 0
        )
        np.testing.assert_array_equal(out, np.take(src, indices, axis=1))


@each_isa
@given(
    dtype=st.sampled_from(DTYPES),
    index_dtype=st.sampled_from([np.int32, np.int64]),
    outer=st.sampled_from([1, 3]),
    first=st.integers(-19, 18),
    count=st.integers(1, 19),
    swapped=st.booleans(),
)
@few()
def test_gather_of_consecutive_elements(
    isa: Isa, dtype: type, index_dtype: type, outer: int, first: int, count: int, swapped: bool
) -> None:
    src = guard(random(np.random.default_rng(3), (outer, 19, 1), dtype))
    indices = guard(np.minimum(np.arange(first, first + count), 18).astype(index_dtype))
    if swapped and count > 3:
        indices[[1, 2]] = indices[[2, 1]]
    out = guard(np.empty((outer, count, 1), dtype))
    spec = gather_spec(src, indices, out)
    for chunks in chunkings(spec.grid):
        out[...] = 99
        arrays = [src, indices, out]
        assert call(load(gather, isa).gw_gather, arrays, spec.args, spec.grid, 0, chunks=chunks) == 0
        np.testing.assert_array_equal(out, np.take(src, indices, axis=1))


def gather_spec(src: AnyArray, indices: AnyArray, out: AnyArray) -> gather.Gather:
    outer, axis, inner = src.shape
    strides = (out.shape[1] * inner, inner, axis * inner, inner)
    return gather.Gather(src.itemsize, indices.itemsize, outer, axis, len(indices), inner, *strides)


@each_isa
@pytest.mark.parametrize("bad", [4, -5, 2**40])
def test_gather_rejects_an_index_out_of_range(isa: Isa, bad: int) -> None:
    src, out = np.zeros((1, 4, 2), np.float32), np.zeros((1, 2, 2), np.float32)
    indices = np.array([0, bad])
    spec = gather_spec(src, indices, out)
    code = call(load(gather, isa).gw_gather, [src, indices, out], spec.args, spec.grid, 0)
    assert code == gather.INDEX_OUT_OF_RANGE

"""Copies of elements of every size against NumPy."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwright.kernels.movement import copy
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import AnyArray, chunkings, each_isa, element_strides, guard
from tests.kernels.library.harness import call, load
from tests.kernels.library.movement import DTYPES, few, random

AXIS = st.sampled_from([0, 1, 2, 3, 5, 7, 16, 17, 33])
REPEATED = st.lists(
    st.tuples(st.sampled_from([1, 2, 3, 5, 16]), st.sampled_from([1, 2, 9])), min_size=1, max_size=4
).filter(lambda axes: prod(size * repeats for size, repeats in axes) <= 1 << 20)
"""The size and the repetitions of each axis, of at most 2^20 elements."""


def run_copy(isa: Isa, src: AnyArray, view: AnyArray, out: AnyArray, out_view: AnyArray) -> list[AnyArray]:
    """Copies ``view`` (of ``src``) into ``out_view`` (of ``out``) under every chunking."""
    kernel = load(copy, isa).gw_copy_nd
    spec = copy.CopyNd(
        src.itemsize,
        view.shape,
        element_strides(out_view),
        element_strides(view),
        (out_view.ctypes.data - out.ctypes.data) // out.itemsize if view.size else 0,
        (view.ctypes.data - src.ctypes.data) // src.itemsize if view.size else 0,
    )
    results = []
    for chunks in chunkings(spec.grid):
        out[...] = 99
        assert call(kernel, [src, out], spec.args, spec.grid, 0, chunks=chunks) == 0
        results.append(out.copy())
    return results


@each_isa
@given(data=st.data(), dtype=st.sampled_from(DTYPES), at_end=st.booleans())
@few()
def test_copy_permutes_slices_and_concatenates(
    isa: Isa, data: st.DataObject, dtype: type, at_end: bool
) -> None:
    rng = np.random.default_rng(0)
    shape = tuple(data.draw(st.lists(AXIS, min_size=0, max_size=4), label="shape"))
    order = data.draw(st.permutations(range(len(shape))), label="order")
    steps = [data.draw(st.sampled_from([1, 1, 1, 2, -1, -3]), label="step") for _ in shape]
    src = guard(random(rng, shape, dtype), at_end=at_end)
    view = src.transpose(order)[(*(slice(None, None, s) for s in steps), ...)]
    axis = data.draw(st.integers(0, len(shape) - 1), label="axis") if shape else None
    slot = [slice(None)] * len(shape)
    full = list(view.shape)
    if axis is not None:
        full[axis] += 5
        slot[axis] = slice(2, 2 + view.shape[axis])
    out = guard(np.zeros(full, dtype), at_end=at_end)
    expected = np.full(full, 99, dtype)
    expected[(*slot, ...)] = view
    for result in run_copy(isa, src, view, out, out[(*slot, ...)]):
        np.testing.assert_array_equal(result, expected)


@each_isa
@given(
    columns=st.integers(0, 140),
    few=st.integers(1, 17),
    outer=st.integers(1, 3),
    dtype=st.sampled_from(DTYPES),
    at_end=st.booleans(),
)
@few()
def test_copy_takes_few_channels_apart_and_weaves_them(
    isa: Isa, columns: int, few: int, outer: int, dtype: type, at_end: bool
) -> None:
    rng = np.random.default_rng(2)
    for shape in ((outer, columns, few), (outer, few, columns)):
        src = guard(random(rng, shape, dtype), at_end=at_end)
        view = src.transpose(0, 2, 1)
        out = guard(np.zeros(view.shape, dtype), at_end=at_end)
        for result in run_copy(isa, src, view, out, out):
            np.testing.assert_array_equal(result, view)


@each_isa
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(1, 70)),
    repeated=st.integers(0, 2),
    dtype=st.sampled_from(DTYPES),
    at_end=st.booleans(),
)
@few()
def test_copy_repeats_elements_runs_and_rows(
    isa: Isa, shape: tuple[int, int, int], repeated: int, dtype: type, at_end: bool
) -> None:
    once = [1 if axis == repeated else size for axis, size in enumerate(shape)]
    src = guard(random(np.random.default_rng(4), once, dtype), at_end=at_end)
    view = np.broadcast_to(src, shape)
    out = guard(np.zeros(shape, dtype), at_end=at_end)
    for result in run_copy(isa, src, view, out, out):
        np.testing.assert_array_equal(result, view)


@each_isa
@given(
    axes=REPEATED,
    sliced=st.booleans(),
    dtype=st.sampled_from(DTYPES),
    at_end=st.booleans(),
)
@few()
def test_copy_repeats_blocks_of_blocks(
    isa: Isa, axes: list[tuple[int, int]], sliced: bool, dtype: type, at_end: bool
) -> None:
    """Each axis is preceded by its repetitions."""
    shape = [n for size, repeats in axes for n in (repeats, size)]
    src = guard(random(np.random.default_rng(5), [size for size, _ in axes], dtype), at_end=at_end)
    view = np.broadcast_to(src.reshape([n for size, _ in axes for n in (1, size)]), shape)
    out = guard(np.zeros([*shape[:1], *(n + sliced for n in shape[1:])], dtype), at_end=at_end)
    slot = tuple(slice(n) for n in shape)
    for result in run_copy(isa, src, view, out, out[slot]):
        np.testing.assert_array_equal(result[slot], view)


def test_axes_are_merged_if_there_are_too_many() -> None:
    shape, strides = (2, 1, 3, 5, 4, 1, 7, 2, 1), (840, 840, 280, 56, 14, 14, 2, 1, 1)
    swapped = (1, 1680, 2, 6, 30, 120, 120, 840, 1680)
    assert copy.CopyNd(4, shape, strides, strides).axes == ((1680, 1, 1),)
    merged = copy.CopyNd(4, shape, strides, swapped).axes
    assert merged == ((2, 840, 1), (3, 280, 2), (5, 56, 6), (4, 14, 30), (7, 2, 120), (2, 1, 840))


@each_isa
@given(
    columns=st.integers(1, 300),
    step=st.sampled_from([-5, -4, -2, -1, 2, 3, 4, 5]),
    dtype=st.sampled_from(DTYPES),
    at_end=st.booleans(),
)
@few()
def test_copy_reads_rows_at_steps(isa: Isa, columns: int, step: int, dtype: type, at_end: bool) -> None:
    src = guard(random(np.random.default_rng(3), (3, columns), dtype), at_end=at_end)
    view = src[:, ::step]
    out = guard(np.zeros(view.shape, dtype), at_end=at_end)
    for result in run_copy(isa, src, view, out, out):
        np.testing.assert_array_equal(result, view)


@each_isa
@pytest.mark.parametrize("dtype", DTYPES)
def test_copy_transposes_large_matrices(isa: Isa, dtype: type) -> None:
    src = guard(random(np.random.default_rng(1), (3, 131, 258), dtype))
    out = guard(np.zeros((3, 258, 131), dtype))
    for result in run_copy(isa, src, src.transpose(0, 2, 1), out, out):
        np.testing.assert_array_equal(result, src.transpose(0, 2, 1))


@each_isa
@pytest.mark.parametrize(
    "shape", [(1045, 37), (37, 1045), (1045, 7), (7, 1045), (530, 530), (17, 70), (2100, 16)]
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_copy_transposes_in_blocks_of_either_order(isa: Isa, dtype: type, shape: tuple[int, int]) -> None:
    src = guard(random(np.random.default_rng(1), shape, dtype))
    out = guard(np.zeros(shape[::-1], dtype))
    for result in run_copy(isa, src, src.T, out, out):
        np.testing.assert_array_equal(result, src.T)


@each_isa
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int64])
def test_copy_transposes_matrices_larger_than_the_caches(isa: Isa, dtype: type, offset: int) -> None:
    """Large copies go past the caches if lines of the result are aligned, also for a part of the rows."""
    rows, cols = 321, (9 << 20) // np.dtype(dtype).itemsize // 320 // 64 * 64 + 64
    src = np.random.default_rng(1).integers(0, 255, (cols, rows)).astype(dtype)
    out = np.zeros((rows, cols), dtype)
    for result in run_copy(isa, src, src.T[offset:], out, out[offset:]):
        np.testing.assert_array_equal(result[offset:], src.T[offset:])


@each_isa
def test_copy_of_short_runs_larger_than_the_caches(isa: Isa) -> None:
    src = np.arange(3 * 1200 * 1000, dtype=np.float32).reshape(1200, 3, 1000)
    out = np.zeros((3, 1200, 1000), np.float32)
    for result in run_copy(isa, src, src.transpose(1, 0, 2), out, out):
        np.testing.assert_array_equal(result, src.transpose(1, 0, 2))


@each_isa
def test_copy_expands_and_reverses_rows(isa: Isa) -> None:
    src = guard(np.arange(7, dtype=np.float32))
    out = guard(np.zeros((5, 7, 3), np.float32))
    view = np.broadcast_to(src[::-1, None], (5, 7, 3))
    for result in run_copy(isa, src, view, out, out):
        np.testing.assert_array_equal(result, view)


@each_isa
def test_copy_keeps_every_bit_of_floats(isa: Isa) -> None:
    bits = np.array([0x7FA00001, 0xFFC12345, 0x80000000, 1, 0x7F800000], np.uint32).repeat(64).reshape(16, 20)
    src, out = guard(bits.view(np.float32)), guard(np.zeros((20, 16), np.float32))
    for result in run_copy(isa, src, src.T, out, out):
        np.testing.assert_array_equal(result.view(np.uint32), bits.T)

"""Copies, pads and gathers of elements of every size against NumPy."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.kernels.library import copy
from graphwright.kernels.library.isa import Isa
from tests.kernels.library.cases import AnyArray, chunkings, each_isa, element_strides, guard
from tests.kernels.library.harness import call, compile_c, load, zig

DTYPES = (np.uint8, np.int16, np.float32, np.int64, np.complex128)
AXIS = st.sampled_from([0, 1, 2, 3, 5, 7, 16, 17, 33])
few = partial(settings, deadline=None, max_examples=40)


def random(rng: np.random.Generator, shape: tuple[int, ...], dtype: type) -> AnyArray:
    return rng.integers(0, 255, shape).astype(dtype)


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
@pytest.mark.parametrize("dtype", DTYPES)
def test_copy_transposes_large_matrices(isa: Isa, dtype: type) -> None:
    src = guard(random(np.random.default_rng(1), (3, 131, 258), dtype))
    out = guard(np.zeros((3, 258, 131), dtype))
    for result in run_copy(isa, src, src.transpose(0, 2, 1), out, out):
        np.testing.assert_array_equal(result, src.transpose(0, 2, 1))


@each_isa
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int64])
def test_copy_transposes_matrices_larger_than_the_caches(isa: Isa, dtype: type, offset: int) -> None:
    """Past the caches where lines of the result are aligned, also for a part of the rows."""
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


@each_isa
@given(data=st.data(), dtype=st.sampled_from(DTYPES), mode=st.sampled_from(copy.PadMode))
@few()
def test_pad_is_numpys(isa: Isa, data: st.DataObject, dtype: type, mode: copy.PadMode) -> None:
    shape = tuple(
        data.draw(st.lists(st.sampled_from([1, 2, 3, 7, 40]), min_size=1, max_size=4), label="shape")
    )
    pads = [(data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9))) for _ in shape]
    src = guard(random(np.random.default_rng(2), shape, dtype))
    fill = None if data.draw(st.booleans(), label="zeros") else guard(np.array([77], dtype))
    extra = {"constant_values": 0 if fill is None else 77} if mode is copy.PadMode.CONSTANT else {}
    expected = np.pad(src, pads, mode=mode.name.lower(), **extra)  # type: ignore[call-overload]
    check_pad(isa, mode, src, fill, [before for before, _ in pads], expected)


def check_pad(
    isa: Isa, mode: copy.PadMode, src: AnyArray, fill: AnyArray | None, before: list[int], expected: AnyArray
) -> None:
    out = guard(np.empty(expected.shape, expected.dtype))
    spec = copy.PadNd(
        src.itemsize, mode, out.shape, src.shape, tuple(before), element_strides(out), element_strides(src)
    )
    kernel = load(copy, isa).gw_pad_nd
    for chunks in chunkings(spec.grid):
        out[...] = 99
        assert call(kernel, [src, fill, out], spec.args, spec.grid, 0, chunks=chunks) == 0
        np.testing.assert_array_equal(out, expected)


@each_isa
def test_pad_crops_where_pads_are_negative(isa: Isa) -> None:
    src = guard(np.arange(60, dtype=np.float32).reshape(4, 15))
    expected = np.zeros((5, 9), np.float32)
    expected[2:5] = src[:3, 4:13]
    check_pad(isa, copy.PadMode.CONSTANT, src, None, [2, -4], expected)
    check_pad(isa, copy.PadMode.EDGE, src, None, [-1, -4], src[1:3, 4:13].copy())


@each_isa
def test_pad_of_an_empty_tensor_is_all_fill(isa: Isa) -> None:
    expected = np.full((3, 4), 5, np.int64)
    check_pad(isa, copy.PadMode.CONSTANT, np.empty((0, 2), np.int64), np.array([5]), [1, 1], expected)


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
            call(load(copy, isa).gw_gather, [src, indices, out], spec.args, spec.grid, 0, chunks=chunks) == 0
        )
        np.testing.assert_array_equal(out, np.take(src, indices, axis=1))


def gather_spec(src: AnyArray, indices: AnyArray, out: AnyArray) -> copy.Gather:
    outer, axis, inner = src.shape
    strides = (out.shape[1] * inner, inner, axis * inner, inner)
    return copy.Gather(src.itemsize, indices.itemsize, outer, axis, len(indices), inner, *strides)


@each_isa
@pytest.mark.parametrize("bad", [4, -5, 2**40])
def test_gather_refuses_an_index_out_of_range(isa: Isa, bad: int) -> None:
    src, out = np.zeros((1, 4, 2), np.float32), np.zeros((1, 2, 2), np.float32)
    indices = np.array([0, bad])
    spec = gather_spec(src, indices, out)
    code = call(load(copy, isa).gw_gather, [src, indices, out], spec.args, spec.grid, 0)
    assert code == copy.INDEX_OUT_OF_RANGE


@each_isa
def test_source_compiles_with_clang(isa: Isa) -> None:
    compile_c(copy.source(isa), f"copy_{isa.name}_zig", zig(), isa.zig_flags)

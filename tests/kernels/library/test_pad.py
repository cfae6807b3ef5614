"""Pads of elements of every size against NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphwright.kernels.movement import pad
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import AnyArray, chunkings, each_isa, element_strides, guard
from tests.kernels.library.harness import call, load
from tests.kernels.library.movement import DTYPES, few, random

PADS = st.just((0, 0)) | st.tuples(st.integers(0, 9), st.integers(0, 9))


@each_isa
@given(data=st.data(), dtype=st.sampled_from(DTYPES), mode=st.sampled_from(pad.PadMode))
@few()
def test_pad_is_numpys(isa: Isa, data: st.DataObject, dtype: type, mode: pad.PadMode) -> None:
    shape = tuple(
        data.draw(st.lists(st.sampled_from([1, 2, 3, 7, 40]), min_size=1, max_size=4), label="shape")
    )
    pads = [data.draw(PADS) for _ in shape]
    src = guard(random(np.random.default_rng(2), shape, dtype))
    fill = None if data.draw(st.booleans(), label="zeros") else guard(np.array([77], dtype))
    extra = {"constant_values": 0 if fill is None else 77} if mode is pad.PadMode.CONSTANT else {}
    expected = np.pad(src, pads, mode=mode.name.lower(), **extra)
    check_pad(isa, mode, src, fill, [before for before, _ in pads], expected)


def check_pad(
    isa: Isa, mode: pad.PadMode, src: AnyArray, fill: AnyArray | None, before: list[int], expected: AnyArray
) -> None:
    out = guard(np.empty(expected.shape, expected.dtype))
    spec = pad.PadNd(
        src.itemsize, mode, out.shape, src.shape, tuple(before), element_strides(out), element_strides(src)
    )
    kernel = load(pad, isa).gw_pad_nd
    for chunks in chunkings(spec.grid):
        out[...] = 99
        assert call(kernel, [src, fill, out], spec.args, spec.grid, 0, chunks=chunks) == 0
        np.testing.assert_array_equal(out, expected)


@each_isa
def test_negative_pads_crop(isa: Isa) -> None:
    src = guard(np.arange(60, dtype=np.float32).reshape(4, 15))
    expected = np.zeros((5, 9), np.float32)
    expected[2:5] = src[:3, 4:13]
    check_pad(isa, pad.PadMode.CONSTANT, src, None, [2, -4], expected)
    check_pad(isa, pad.PadMode.EDGE, src, None, [-1, -4], src[1:3, 4:13].copy())


@each_isa
def test_pad_of_an_empty_tensor_is_all_fill(isa: Isa) -> None:
    expected = np.full((3, 4), 5, np.int64)
    check_pad(isa, pad.PadMode.CONSTANT, np.empty((0, 2), np.int64), np.array([5]), [1, 1], expected)

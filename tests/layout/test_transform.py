"""Conversion of arrays to layouts: the position of each element, reads in pieces of any size, and the
inverse.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.ir.types import Layout
from graphwright.layout import transform
from graphwright.layout.transform import pack, unpack


@st.composite
def arrays(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], Layout]:
    """An array with its axes in any memory order, and a layout for it."""
    shape = tuple(draw(st.lists(st.integers(0, 7), min_size=1, max_size=4)))
    axes = range(len(shape))
    order = tuple(draw(st.permutations(axes)))
    blocked = draw(st.lists(st.sampled_from(axes), unique=True, max_size=2))
    lies = draw(st.permutations(axes))
    elements = np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape([shape[axis] for axis in lies])
    array = elements.transpose(np.argsort(lies))
    return array, Layout(order, tuple((axis, draw(st.integers(1, 5))) for axis in blocked))


@pytest.mark.parametrize("piece", [1, 64, 1 << 17])
@settings(max_examples=60, deadline=None)
@given(case=arrays())
def test_each_element_is_at_the_offset_of_the_layout(
    piece: int, case: tuple[np.ndarray[Any, Any], Layout]
) -> None:
    array, layout = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transform, "_READ_BYTES", piece)
        patch.setattr(transform, "_JOB_BYTES", piece)
        packed = pack(array, layout)
    assert packed.flags.c_contiguous and np.count_nonzero(packed) == array.size
    sizes = dict(layout.blocks)
    for index in itertools.product(*map(range, array.shape)):
        outer = [index[axis] // sizes.get(axis, 1) for axis in layout.order]
        inner = [index[axis] % size for axis, size in layout.blocks]
        assert packed[(*outer, *inner)] == array[index]
    np.testing.assert_array_equal(unpack(packed, layout, array.shape), array)

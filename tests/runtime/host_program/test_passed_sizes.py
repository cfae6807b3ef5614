"""Sizes that native loops pass to programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphwright._native import AxisSize, SizeBinder

BUFFER = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.mark.parametrize("size", [0, 1, 3, 4])
def test_the_size_is_an_empty_array_and_buffers_are_cut(size: int) -> None:
    binder = SizeBinder([(-1, 3), (2, -1), ()])
    passed, rows, columns, scalar = binder(np.array(size), BUFFER, BUFFER, BUFFER) or ()
    assert passed.shape == (size, 0)
    np.testing.assert_array_equal(rows, BUFFER[:size])
    np.testing.assert_array_equal(columns, np.arange(2 * size).reshape(2, size))
    assert scalar.shape == () and scalar == 0
    assert np.shares_memory(rows, BUFFER) is (size > 0)
    rows += 1
    np.testing.assert_array_equal(BUFFER[:size], rows)
    rows -= 1


@pytest.mark.parametrize(
    ("shapes", "operands"),
    [
        pytest.param([(-1, 3)], [np.array(5), BUFFER], id="exceeds the buffer"),
        pytest.param([(-1, 3)], [np.array(-1), BUFFER], id="negative"),
        pytest.param([(-1, 3)], [np.array(2**62), BUFFER], id="overflows"),
        pytest.param([(-1, 3)], [np.array(1, np.int32), BUFFER], id="another dtype"),
        pytest.param([(-1, 3)], [np.array([1, 1]), BUFFER], id="two sizes"),
        pytest.param([(-1, 3)], [1, BUFFER], id="no array"),
        pytest.param([(-1, 3)], [np.array(1), BUFFER[:, ::-1]], id="not contiguous"),
        pytest.param([(-1, 3)], [np.array(1), None], id="no buffer"),
        pytest.param([(-1, 3)], [np.array(1)], id="too few operands"),
        pytest.param([(1,) * 100], [np.array(1), BUFFER], id="too many axes"),
    ],
)
def test_what_cannot_be_bound_gives_none(shapes: Any, operands: Any) -> None:
    assert SizeBinder(shapes)(*operands) is None


def test_views_keep_their_buffer() -> None:
    binder = SizeBinder([(-1,)])
    views = [binder(np.array(3), np.full(1000, k, np.float64)) for k in range(50)]
    assert all(view is not None and view[1].tolist() == [k] * 3 for k, view in enumerate(views))


@pytest.mark.parametrize(
    ("array", "axis", "size"), [(BUFFER, 0, 4), (BUFFER, 1, 3), (np.zeros((0, 2)), 0, 0)]
)
def test_the_size_of_an_axis(array: Any, axis: int, size: int) -> None:
    (passed,) = AxisSize(axis)(array) or ()
    assert passed.shape == (size, 0)


@pytest.mark.parametrize(
    ("array", "axis"), [(BUFFER, 2), (BUFFER, -1), (np.array(1), 0), ([1], 0), (None, 0)]
)
def test_an_axis_that_does_not_exist(array: Any, axis: int) -> None:
    assert AxisSize(axis)(array) is None

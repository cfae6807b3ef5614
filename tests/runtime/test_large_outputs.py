"""Outputs of 128 KiB and more use recycled memory, and behave like other arrays."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import graphwright as gw
from graphwright.ops.core.binary import Add


@pytest.fixture(params=[128 << 10, 1_000_004, 32 << 20], ids=["least", "medium", "large"])
def elements(request: pytest.FixtureRequest) -> int:
    return int(request.param) // 4


@pytest.fixture(scope="module")
def model() -> gw.Model:
    b = gw.GraphBuilder()
    x = b.input("x", "f32", ("N",))
    b.output("y", b(Add(), x, x))
    return gw.compile(b.build())


def feed(elements: int, number: float) -> np.ndarray:
    return np.full(elements, number, np.float32)


def test_results_that_live_are_not_overwritten(model: gw.Model, elements: int) -> None:
    first, second, third = (model(feed(elements, k))[0] for k in (1, 2, 3))
    assert {first[0], second[-1], third[7]} == {2, 4, 6}
    assert not (np.shares_memory(first, second) or np.shares_memory(second, third))
    assert all(np.all(array == 2 * k) for k, array in enumerate((first, second, third), 1))


def test_memory_of_a_dead_result_is_used_again(model: gw.Model, elements: int) -> None:
    made = model(feed(elements, 1))[0]
    place = made.ctypes.data
    assert made.flags.owndata and made.flags.writeable and made.flags.c_contiguous
    del made
    gc.collect()
    again = model(feed(elements, 4))[0]
    assert again.ctypes.data == place and np.all(again == 8)


def test_a_view_keeps_the_memory_of_an_output(model: gw.Model, elements: int) -> None:
    view = model(feed(elements, 1))[0][::2]
    other = model(feed(elements, 5))[0]
    assert np.all(view == 2) and np.all(other == 10)


def test_arrays_may_be_resized(model: gw.Model, elements: int) -> None:
    made = model(feed(elements, 3))[0]
    made.resize(elements + 1000, refcheck=False)
    assert np.all(made[:elements] == 6) and not made[elements:].any()
    made.resize(10, refcheck=False)
    assert np.all(made == 6)


def test_trim_releases_the_memory_of_outputs(model: gw.Model, elements: int) -> None:
    made = model(feed(elements, 1))[0]
    del made
    assert model.trim() >= 4 * elements
    assert model.trim() == 0
    assert np.all(model(feed(elements, 2))[0] == 4)


def test_only_a_limited_amount_of_output_memory_is_kept(model: gw.Model) -> None:
    model.trim()
    many = [model(feed(size, 1))[0] for size in range(250_000, 262_000, 200)]
    total = sum(array.nbytes for array in many)
    many.clear()
    gc.collect()
    assert 16 << 20 <= model.trim() <= 33 << 20 < total

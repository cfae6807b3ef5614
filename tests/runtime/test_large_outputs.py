"""Outputs of 32 MiB and more lie in memory that is used again, and are arrays like others."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import graphwright as gw
from graphwright.ops.core.binary import Add

ELEMENTS = (32 << 20) // 4


@pytest.fixture(scope="module")
def model() -> gw.Model:
    b = gw.GraphBuilder()
    x = b.input("x", "f32", ("N",))
    b.output("y", b(Add(), x, x))
    return gw.compile(b.build())


def feed(number: float) -> np.ndarray:
    return np.full(ELEMENTS, number, np.float32)


def test_results_that_live_are_not_overwritten(model: gw.Model) -> None:
    first, second, third = (model(feed(k))[0] for k in (1, 2, 3))
    assert {first[0], second[-1], third[7]} == {2, 4, 6}
    assert not (np.shares_memory(first, second) or np.shares_memory(second, third))
    assert all(np.all(array == 2 * k) for k, array in enumerate((first, second, third), 1))


def test_memory_of_a_dead_result_is_used_again(model: gw.Model) -> None:
    made = model(feed(1))[0]
    place = made.ctypes.data
    assert made.flags.owndata and made.flags.writeable and made.flags.c_contiguous
    del made
    gc.collect()
    again = model(feed(4))[0]
    assert again.ctypes.data == place and np.all(again == 8)


def test_a_view_keeps_its_memory(model: gw.Model) -> None:
    view = model(feed(1))[0][::2]
    other = model(feed(5))[0]
    assert np.all(view == 2) and np.all(other == 10)


def test_arrays_may_be_resized(model: gw.Model) -> None:
    made = model(feed(3))[0]
    made.resize(ELEMENTS + 1000, refcheck=False)
    assert np.all(made[:ELEMENTS] == 6) and not made[ELEMENTS:].any()
    made.resize(10, refcheck=False)
    assert np.all(made == 6)


def test_trim_gives_the_memory_back(model: gw.Model) -> None:
    made = model(feed(1))[0]
    del made
    assert model.trim() >= 4 * ELEMENTS
    assert model.trim() == 0
    assert np.all(model(feed(2))[0] == 4)

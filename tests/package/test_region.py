"""Weights of several packages in one memory."""

from __future__ import annotations

import numpy as np
import pytest

from graphwright.package.pack_weights import pack_weights
from graphwright.package.weights import Region

SIZES = [[], [0], [1], [7, 0, 7], [16, 17, 31, 64, 67]]


def arrays(name: str, sizes: list[int]) -> dict[str, np.ndarray]:
    return {f"{name}{k}": np.arange(size, dtype=np.float32) + 100 * k for k, size in enumerate(sizes)}


@pytest.mark.parametrize("first", SIZES)
@pytest.mark.parametrize("second", SIZES)
def test_packing_keeps_earlier_weights(first: list[int], second: list[int]) -> None:
    region, one, two = Region(1 << 16), arrays("a", first), arrays("b", second)
    before = pack_weights(one, region.weights())
    after = pack_weights(two, before)
    for weights, expected in ((before, one), (after, one | two)):
        assert weights.region is region
        assert list(weights.tensors) == list(expected)
        for name, array in expected.items():
            np.testing.assert_array_equal(weights.arrays[name], array)


def test_other_memory_is_used_if_there_is_no_space() -> None:
    region = Region(256)
    before = pack_weights(arrays("a", [16, 16]), region.weights())
    assert (before.region, region.end) == (region, 128)
    beyond = pack_weights(arrays("b", [64]), before)
    assert beyond.region is None
    np.testing.assert_array_equal(beyond.arrays["a1"], np.arange(16) + 100)
    np.testing.assert_array_equal(beyond.arrays["b0"], np.arange(64))


def test_a_region_can_be_extended_only_once() -> None:
    region = Region(1 << 12)
    before = pack_weights(arrays("a", [16]), region.weights())
    one, two = pack_weights(arrays("b", [16]), before), pack_weights(arrays("c", [8]), before)
    assert (one.region, two.region) == (region, None)
    np.testing.assert_array_equal(one.arrays["b0"], np.arange(16))
    np.testing.assert_array_equal(two.arrays["a0"], np.arange(16))

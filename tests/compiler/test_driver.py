"""Faults that occur only in a complete compilation."""

from __future__ import annotations

import numpy as np
import pytest

import graphwright as gw


def outer_product(inputs: int) -> gw.GraphBuilder:
    """The outer product of the rows of many inputs, each with its own dynamic number of rows."""
    b = gw.GraphBuilder()
    rows = b.concat(*(b.input(f"x{k}", "f32", (f"N{k}", 2)) for k in range(inputs)), axis=0)
    b.output("y", b.relu(b.matmul(rows, b.transpose(rows, perm=(1, 0)))))
    return b


def test_products_of_many_dynamic_sizes_are_rejected_with_a_remedy() -> None:
    with pytest.raises(
        gw.ModelError, match=r"dynamic dimensions make a size of more than 1024 terms(?s:.*)shapes="
    ):
        outer_product(40).compile()


def test_the_remedy_in_the_error_works() -> None:
    model = outer_product(40).compile(shapes={f"x{k}": (1, 2) for k in range(30)})
    ones = np.ones((1, 2), np.float32)
    np.testing.assert_array_equal(*model(*[ones] * 40), np.full((40, 40), 2))


def test_a_deep_model_may_have_weights_of_dynamic_sizes() -> None:
    """The sum of an image's and a result's bytes has more terms than a size may have; each alone has not."""
    b, generator, depth = gw.GraphBuilder(), np.random.default_rng(0), 27
    x = b.input("x", "f32", ("N", "C", "H", "W"))
    for k in range(depth):
        x = b.relu(b.conv(x, b.input(f"w{k}", "f32", (f"M{k}", f"C{k}", f"h{k}", f"w{k}"))))
    b.output("y", x)
    image = generator.integers(-3, 4, (1, 2, 3, 4)).astype(np.float32)
    weights = [generator.integers(-1, 2, (2, 2, 1, 1)).astype(np.float32) for _ in range(depth)]
    expected = image.astype(np.int64)
    for each in weights:
        expected = np.maximum(np.einsum("ncij,mc->nmij", expected, each[:, :, 0, 0].astype(np.int64)), 0)
    assert np.abs(expected).max() < 1 << 24
    np.testing.assert_array_equal(b.compile()(image, *weights)[0], expected)


def test_many_inputs_are_joined_along_dynamic_axes() -> None:
    b, arrays = gw.GraphBuilder(), [np.full((k % 3, 2), k, np.float32) for k in range(500)]
    b.output("y", b.concat(*(b.input(f"x{k}", "f32", (f"N{k}", 2)) for k in range(500)), axis=0))
    np.testing.assert_array_equal(b.compile()(*arrays)[0], np.concatenate(arrays))


def test_more_sizes_than_a_sum_may_have_are_rejected_with_a_remedy() -> None:
    b = gw.GraphBuilder()
    with pytest.raises(gw.ModelError, match=r"more than 1024 terms(?s:.*)the same name, with shapes="):
        b.concat(*(b.input(f"x{k}", "f32", (f"N{k}", 2)) for k in range(1025)), axis=0)

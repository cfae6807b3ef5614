"""Scaling weights instead of images: results compared with NumPy in f64, decisions, and equal bits on any
thread count.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright as gw
from graphwright.fusion.decision_text import decode_decisions
from graphwright.ir.refusal import Code

Array = np.ndarray[Any, Any]


def excited(
    rng: np.random.Generator,
    image: tuple[int | str, ...],
    features: int,
    strides: tuple[int, ...],
    options: gw.CompileOptions | None = None,
) -> tuple[gw.Model, Array, Array]:
    """A model that scales images by a function of their means, projects them, and adds the images if the
    shapes are equal; its weights and bias.
    """
    channels = int(image[1])
    weights = rng.standard_normal((features, channels, *[1] * (len(image) - 2))).astype(np.float32)
    bias = rng.standard_normal(features).astype(np.float32)
    b = gw.GraphBuilder()
    x = b.relu(b.input("x", np.float32, image))
    gate = b.sigmoid(b.reduce_mean(x, axes=tuple(range(2, len(image)))))
    made = b.conv(b.mul(x, gate), weights, bias, strides=strides)
    b.output(
        "y", b.relu(b.add(made, x)) if features == channels and is_dense(strides) else b.hard_swish(made)
    )
    return b.compile(options=options), weights, bias


def meant(x: Array, weights: Array, bias: Array, strides: tuple[int, ...]) -> Array:
    """The result of the block in f64."""
    x, pixels = np.maximum(x, 0).astype(np.float64), tuple(range(2, x.ndim))
    scaled = x / (1 + np.exp(-x.mean(pixels, keepdims=True)))
    taken = scaled[(slice(None), slice(None), *(slice(None, None, step) for step in strides))]
    matrix = weights.reshape(weights.shape[:2]).astype(np.float64)
    sums = np.einsum("oc,nc...->no...", matrix, taken) + bias.reshape(-1, *[1] * len(pixels))
    if len(weights) == x.shape[1] and is_dense(strides):
        return np.maximum(sums + x, 0)
    return sums * np.clip(sums / 6 + 0.5, 0, 1)


def is_dense(strides: tuple[int, ...]) -> bool:
    """Whether each pixel is taken."""
    return set(strides) <= {1}


def is_scaled(model: gw.Model) -> bool:
    """Whether the weights are scaled in place of the image."""
    return "ScaledConv" in model.entry.graph


@settings(max_examples=14, deadline=None)
@given(
    st.sampled_from([1, 3, 8, 16, 24, 29, 64]),
    st.sampled_from([1, 5, 8, 16, 24]),
    st.lists(st.integers(4, 23), min_size=1, max_size=3),
    st.sampled_from([1, 1, 2, 3]),
    st.data(),
    st.integers(0, 1 << 30),
)
def test_results_are_those_of_numpy(
    channels: int, features: int, sizes: list[int], images: int, data: st.DataObject, seed: int
) -> None:
    step = data.draw(st.sampled_from([1, 1, 2]))
    strides = tuple(data.draw(st.sampled_from([1, step])) for _ in sizes)
    rng = np.random.default_rng(seed)
    model, weights, bias = excited(rng, (images, channels, *sizes), features, strides)
    assert is_scaled(model) == (int(np.prod(sizes)) >= 4 * features)
    x = rng.standard_normal((images, channels, *sizes)).astype(np.float32)
    wanted = meant(x, weights, bias, strides)
    np.testing.assert_allclose(model.run({"x": x})["y"], wanted, rtol=1e-5, atol=1e-5 * channels**0.5)


@pytest.mark.parametrize("image", [(1, 24, "H", "W"), (1, 20, "L"), ("N", 20, "H", "W"), ("N", 24, 33, 33)])
def test_dynamic_sizes_and_threads_give_the_same_bits(image: tuple[int | str, ...]) -> None:
    strides = (1,) * (len(image) - 2)
    made = [
        excited(np.random.default_rng(3), image, 16, strides, gw.CompileOptions(threads=count))
        for count in (1, 2)
    ]
    assert all(is_scaled(model) for model, *_ in made)
    for side in (1, 2, 9, 17):
        sizes = [side if isinstance(size, str) else size for size in image]
        x = np.random.default_rng(side).standard_normal(sizes)
        one, two = (model.run({"x": x.astype(np.float32)})["y"] for model, *_ in made)
        np.testing.assert_array_equal(one, two)
        _, weights, bias = made[0]
        np.testing.assert_allclose(one, meant(x, weights, bias, strides), rtol=1e-5, atol=4e-5)


def test_decisions_have_the_reason_against_a_merge() -> None:
    model, *_ = excited(np.random.default_rng(0), (1, 24, 2, 3), 16, (1, 1))
    assert not is_scaled(model)
    assert Code.SCALE_COST in {each.code for each in decode_decisions(model.entry.decisions)}


def test_the_rule_can_be_switched_off() -> None:
    options = gw.CompileOptions(fusion_rules="-scale")
    model, *_ = excited(np.random.default_rng(0), (1, 24, 16, 16), 16, (1, 1), options)
    assert not is_scaled(model)

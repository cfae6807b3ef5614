"""Ops of ONNX Runtime's domain for diffusion models, compared with NumPy: it has kernels on GPUs alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import graphwright as gw

from .contrib import COMPILED, DOMAIN, REFERENCE, Array, by_runtime, normal, one_node, refused

Feed = Sequence[Array | None]


def check(
    op_type: str, feeds: Feed, expected: Sequence[Array], *, tolerance: float = 1e-4, **attributes: Any
) -> None:
    outputs = [f"y{k}" for k in range(len(expected))]
    model = one_node(op_type, feeds, attributes, outputs, DOMAIN, symbolic=True, constants=())
    given = {f"x{k}": feed for k, feed in enumerate(feeds) if feed is not None}
    for options in (REFERENCE, COMPILED):
        results = gw.compile(model, options=options).run(given).values()
        for found, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def group_norm(x: Array, scale: Array, bias: Array, groups: int, epsilon: float) -> Array:
    """Group normalization of x[N, H, W, C]."""
    n, *sizes, c = x.shape
    parts = x.astype(np.float64).reshape(n, math.prod(sizes), groups, c // groups)
    mean, variance = parts.mean((1, 3), keepdims=True), parts.var((1, 3), keepdims=True)
    return np.asarray(((parts - mean) / np.sqrt(variance + epsilon)).reshape(x.shape) * scale + bias)


def silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("activation", [0, 1])
@pytest.mark.parametrize("last", [0, 1])
def test_group_norm_equals_its_formula(last: int, activation: int, dtype: Any) -> None:
    x, scale, bias = normal(2, 4, 5, 8, dtype=dtype), normal(8), normal(8)
    expected = group_norm(x, scale.astype(dtype), bias.astype(dtype), 4, 0.1)
    expected = silu(expected) if activation else expected
    image = x if last else x.transpose(0, 3, 1, 2)
    result = expected if last else expected.transpose(0, 3, 1, 2)
    tolerance = 1e-4 if dtype == np.float32 else 1e-2
    given = {"groups": 4, "epsilon": 0.1, "activation": activation, "channels_last": last}
    check("GroupNorm", [image, scale, bias], [result], tolerance=tolerance, **given)


@pytest.mark.parametrize("shape", [(2, 4, 5, 8), (2, 1, 1, 8), (2, 8)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_skip_group_norm_returns_the_norm_and_the_sum(shape: tuple[int, ...], has_bias: bool) -> None:
    x, scale, shift, skip, bias = normal(2, 4, 5, 8), normal(8), normal(8), normal(*shape), normal(8)
    total = x + skip.reshape(2, 1, 1, 8) if len(shape) == 2 else x + skip
    total = total + bias if has_bias else total
    feeds = [x, scale, shift, skip, *([bias] if has_bias else [])]
    check(
        "SkipGroupNorm",
        feeds,
        [silu(group_norm(total, scale, shift, 2, 1e-5)), total],
        groups=2,
        activation=1,
    )


def test_sums_with_a_bias() -> None:
    x, bias, skip = normal(2, 3, 8), normal(8), normal(2, 3, 8)
    check("BiasAdd", [x, bias, skip], [x + bias + skip])
    left, right = np.split(x + bias, 2, -1)
    gelu = right * 0.5 * (1 + np.vectorize(math.erf)(right / math.sqrt(2)))
    check("BiasSplitGelu", [x, bias], [left * gelu])


@pytest.mark.parametrize("fused", [False, True])
def test_channels_last_convolution_equals_that_of_the_transposed_image(fused: bool) -> None:
    """It is FusedConv of the transposed image."""
    x, w, bias, residual = normal(1, 5, 6, 4), normal(6, 2, 3, 3), normal(6), normal(1, 5, 6, 6)
    given: dict[str, Any] = {"group": 2, "pads": [1, 1, 1, 1]}
    feeds = [x.transpose(0, 3, 1, 2), w, bias]
    if fused:
        feeds, given = [*feeds, residual.transpose(0, 3, 1, 2)], {**given, "activation": "Relu"}
    plain = one_node("FusedConv", feeds, given, ("y",), DOMAIN, symbolic=False, constants=())
    (expected,) = by_runtime(plain, {f"x{k}": np.ascontiguousarray(feed) for k, feed in enumerate(feeds)})
    stored = w if fused else w.transpose(0, 2, 3, 1)
    operands = [x, stored, bias, *([residual] if fused else [])]
    op_type = "NhwcFusedConv" if fused else "NhwcConv"
    check(op_type, operands, [expected.transpose(0, 2, 3, 1)], **given)


def test_unsupported_attributes_are_rejected() -> None:
    message = refused("GroupNorm", [normal(2, 4, 5, 8), normal(8), normal(8)], groups=2, activation=7)
    assert "activation is 7; it must be 0 (none) or 1 (SiLU)" in message

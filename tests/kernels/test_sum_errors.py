"""Rounding errors of long sums, against f64: what one accumulator after another, or a sum that starts with a
large bias, would exceed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import graphwright as gw
from tests.isas import RUNNABLE
from tests.onnx_models import model_proto

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng


def result(isa: str, op: str, x: Array, w: Array, bias: Array | None = None, **attributes: Any) -> Array:
    """The result of ``op`` on ``x`` and constant weights, without Winograd."""
    weights = {"w": w} if bias is None else {"w": w, "b": bias}
    node = helper.make_node(op, ["x", *weights], ["y"], **attributes)
    model = model_proto([node], {"x": list(x.shape)}, {"y": None}, weights, opset=20)
    return gw.compile(model, options={"isa": isa, "numerics": "strict"})(x)[0].astype(np.float64)


def exact_conv(x: Array, w: Array, group: int) -> Array:
    """A convolution without padding, in f64."""
    n, _, height, width = x.shape
    cout, depth, kh, kw = w.shape
    y = np.zeros((n, cout, height - kh + 1, width - kw + 1))
    for i in range(kh):
        for j in range(kw):
            part = x[:, :, i : i + y.shape[2], j : j + y.shape[3]].astype(np.float64)
            parts, taps = part.reshape(n, group, depth, *y.shape[2:]), w[:, :, i, j].astype(np.float64)
            sums = np.einsum("ngdhw,gcd->ngchw", parts, taps.reshape(group, cout // group, depth))
            y += sums.reshape(y.shape)
    return y


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("rows", [1, 3, 8, 61])
def test_long_products_have_the_error_of_chained_sums(rows: int, isa: str) -> None:
    """4096 products of one sign of x; one accumulator has an error of 9e-7."""
    x, w = np.abs(RNG(0).standard_normal((rows, 4096))), RNG(1).standard_normal((4096, 160))
    x, w = x.astype(np.float32), w.astype(np.float32)
    exact = x.astype(np.float64) @ w.astype(np.float64)
    assert np.std(result(isa, "MatMul", x, w) - exact) < 5e-7 * np.std(exact)


@pytest.mark.parametrize("isa", RUNNABLE)
def test_long_convolutions_have_the_error_of_chained_sums(isa: str) -> None:
    """864 products; one accumulator has an error of 5.3e-7."""
    x, w = np.abs(RNG(0).standard_normal((1, 96, 26, 26))), RNG(1).standard_normal((48, 96, 3, 3))
    x, w = x.astype(np.float32), w.astype(np.float32)
    exact = exact_conv(x, w, 1)
    assert np.std(result(isa, "Conv", x, w, strides=[1, 1], dilations=[1, 1]) - exact) < 3e-7 * np.std(exact)


CONVOLUTIONS = {
    "first layer": ((3, 24, 24), (24, 3, 3, 3), 1),
    "pointwise": ((64, 24, 24), (48, 64, 1, 1), 1),
    "depthwise": ((32, 24, 24), (32, 1, 5, 5), 32),
    "grouped": ((12, 24, 24), (12, 3, 3, 3), 4),
    "5x5": ((32, 24, 24), (16, 32, 5, 5), 1),
}


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_bias_much_larger_than_the_sums(name: str, isa: str) -> None:
    """The last addition rounds to half a step of 2**-3; each addition would, if the bias came first."""
    image, weights, group = CONVOLUTIONS[name]
    x = RNG(0).standard_normal((1, *image)).astype(np.float32)
    w = RNG(1).standard_normal(weights).astype(np.float32)
    bias = np.full(weights[0], 2.0**20, np.float32)
    error = result(isa, "Conv", x, w, bias, group=group) - (exact_conv(x, w, group) + 2.0**20)
    assert np.abs(error).max() < 0.0626


@pytest.mark.parametrize("isa", RUNNABLE)
@pytest.mark.parametrize("rows", [1, 3, 61])
def test_a_bias_of_products(rows: int, isa: str) -> None:
    x, w = RNG(0).standard_normal((rows, 70)).astype(np.float32), RNG(1).standard_normal((70, 50))
    w, bias = w.astype(np.float32), np.full(50, 2.0**20, np.float32)
    error = result(isa, "Gemm", x, w, bias) - (x.astype(np.float64) @ w.astype(np.float64) + 2.0**20)
    assert np.abs(error).max() < 0.0626


@pytest.mark.parametrize("isa", RUNNABLE)
def test_attention_to_many_keys(isa: str) -> None:
    """Weighted means of 2048 values of one sign; one accumulator has an error of 6.6e-7."""
    b, shape = gw.GraphBuilder(), (1, 1, 2048, 32)
    operands = (b.input(name, "f32", shape) for name in ("q", "k", "v"))
    b.output("y", b.scaled_dot_product_attention(*operands, scale=32**-0.5))
    model = b.compile(options={"isa": isa})
    q, k, v = (RNG(seed).standard_normal(shape).astype(np.float32) for seed in range(3))
    scores = (q[0, 0].astype(np.float64) @ k[0, 0].astype(np.float64).T) / np.sqrt(32)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    exact = weights / weights.sum(1, keepdims=True) @ np.abs(v[0, 0]).astype(np.float64)
    error = model(q, k, np.abs(v))[0][0, 0].astype(np.float64) - exact
    assert np.sqrt(np.mean(error**2)) < 2.5e-7 * np.sqrt(np.mean(exact**2))

"""Equal regions share one kernel; each launch has its own operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphwright as gw
from graphwright.kernels.loops import fused
from graphwright.ops.core.binary import Add, Mul, Sub
from graphwright.ops.core.exp import Exp
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.nn.softmax import Softmax

RANDOM = np.random.default_rng(7)
LAYERS = 4


def _softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    made = np.exp(x - x.max(-1, keepdims=True))
    return made / made.sum(-1, keepdims=True)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the kernels that are made of regions."""
    names: list[str] = []
    real = fused.region_kernel

    def counted(region: Any, schedule: Any, constants: Any, name: str) -> Any:
        names.append(name)
        return real(region, schedule, constants, name)

    monkeypatch.setattr(fused, "region_kernel", counted)
    return names


@pytest.mark.parametrize("factors", [[2.0] * LAYERS, [2.0, 3.0, 2.0, 3.0], [0.0, -0.0, 0.0, -0.0]])
def test_equal_layers_share_a_kernel_and_give_their_own_results(
    made: list[str], factors: list[float]
) -> None:
    weights = [RANDOM.normal(size=(16, 16)).astype(np.float32) for _ in range(LAYERS)]
    scales = [RANDOM.normal(size=16).astype(np.float32) for _ in range(LAYERS)]
    builder = gw.GraphBuilder()
    x = builder.input("x", "f32", (5, 16))
    for weight, scale, factor in zip(weights, scales, factors, strict=True):
        product = builder(MatMul(), x, builder.constant(weight))
        scaled = builder(Mul(), product, builder.constant(scale))
        x = builder(Softmax(), builder(Mul(), scaled, builder.constant(np.float32(factor))))
    builder.output("y", x)
    feed = RANDOM.normal(size=(5, 16)).astype(np.float32)
    wanted = feed
    for weight, scale, factor in zip(weights, scales, factors, strict=True):
        wanted = _softmax((wanted @ weight) * scale * np.float32(factor))
    (y,) = builder.compile()(feed)
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6)
    assert 0 < len(made) <= len(set(map(str, factors)))


def test_the_order_of_operands_is_that_of_each_region(made: list[str]) -> None:
    builder = gw.GraphBuilder()
    a, b = builder.input("a", "f32", (3, 40)), builder.input("b", "f32", (3, 40))
    builder.output("p", builder(Sub(), builder(Exp(), a), b))
    builder.output("q", builder(Sub(), builder(Exp(), b), a))
    builder.output("r", builder(Sub(), a, builder(Exp(), b)))
    builder.output("s", builder(Add(), builder(Exp(), a), b))
    builder.output("t", builder(Add(), b, builder(Exp(), a)))
    left, right = (RANDOM.normal(size=(3, 40)).astype(np.float32) for _ in range(2))
    p, q, r, s, t = builder.compile()(left, right)
    np.testing.assert_allclose(p, np.exp(left) - right, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(q, np.exp(right) - left, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(r, left - np.exp(right), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(s, np.exp(left) + right, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(s, t)


def test_regions_of_different_sizes_have_different_kernels(made: list[str]) -> None:
    builder = gw.GraphBuilder()
    feeds, outputs = [], []
    for number, columns in enumerate((8, 24, 8, 33)):
        x = builder.input(f"x{number}", "f32", (3, columns))
        builder.output(f"y{number}", builder(Softmax(), builder(Exp(), x)))
        feeds.append(RANDOM.normal(size=(3, columns)).astype(np.float32))
        outputs.append(_softmax(np.exp(feeds[-1])))
    for y, wanted in zip(builder.compile()(*feeds), outputs, strict=True):
        np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6)
    assert len(made) == 3

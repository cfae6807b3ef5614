"""Random numbers: reproducible by seed, and of the right distribution; Dropout and optimizers in training."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import graphwright as gw
from graphwright.config import Options
from graphwright.ir.types import F32, F64, I64
from graphwright.ops.core.multinomial import Multinomial
from graphwright.ops.core.random import RandomNormal, RandomUniform
from graphwright.runtime.model import Model

from .support import run_reference

MANY = (400, 250)


def compiled(nodes: list[onnx.NodeProto], inputs: dict[str, list[Any]], outputs: list[str]) -> Model:
    kinds = {"training": TensorProto.BOOL, "count": TensorProto.INT64}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), s) for n, s in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
    )
    domains = [("", 17), ("ai.onnx.preview.training", 1)]
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(*d) for d in domains], ir_version=10)
    return gw.compile(model, options=Options(device="reference"))


def test_a_seed_fixes_the_numbers() -> None:
    for made in (RandomUniform, RandomNormal):
        first, again = (run_reference(made(MANY, seed=3.0), [])[0] for _ in range(2))
        np.testing.assert_array_equal(first, again)
        assert np.any(first != run_reference(made(MANY, seed=3.5), [])[0])
    expected = np.random.RandomState(3).uniform(2.0, 5.0, MANY)
    np.testing.assert_array_equal(run_reference(RandomUniform(MANY, 2.0, 5.0, F64, 3.0), [])[0], expected)


def test_without_a_seed_they_differ_each_time() -> None:
    for op, inputs in ((RandomNormal(MANY), []), (Multinomial(99), [np.zeros((9, 9), np.float32)])):
        assert np.any(run_reference(op, inputs)[0] != run_reference(op, inputs)[0])


@pytest.mark.parametrize("seed", [1.0, None])
def test_random_numbers_have_the_requested_mean_and_variance(seed: float | None) -> None:
    uniform, normal = (
        run_reference(op, [])[0].astype(np.float64)
        for op in (RandomUniform(MANY, -1.0, 3.0, F32, seed), RandomNormal(MANY, 5.0, 2.0, F32, seed))
    )
    assert -1 <= uniform.min() < -0.99 and 2.99 < uniform.max() < 3
    assert abs(uniform.mean() - 1) < 0.02 and abs(uniform.var() - 16 / 12) < 0.02
    assert abs(normal.mean() - 5) < 0.03 and abs(normal.std() - 2) < 0.03


def test_multinomial_draws_by_the_softmax_of_the_logits() -> None:
    shares = np.array([[0.5, 0.25, 0.0, 0.25], [0.0, 0.0, 1.0, 0.0]])
    with np.errstate(divide="ignore"):
        logits = np.log(shares).astype(np.float32) + 3
    (drawn,) = run_reference(Multinomial(40_000, I64, 1.0), [logits])
    counts = np.stack([np.bincount(row, minlength=4) / row.size for row in drawn])
    np.testing.assert_allclose(counts, shares, atol=0.01)


def test_multinomial_needs_no_table_of_samples_and_classes() -> None:
    tracemalloc.start()
    try:
        (drawn,) = run_reference(Multinomial(20_000, I64, 1.0), [np.zeros((1, 30_000), np.float32)])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0 <= drawn.min() < 30 and 29_970 <= drawn.max() < 30_000 and abs(drawn.mean() - 15_000) < 250
    assert peak < 8_000_000


@pytest.mark.parametrize("ratio", [0.0, 0.25, 0.9])
def test_dropout_scales_what_it_keeps(ratio: float) -> None:
    node = helper.make_node("Dropout", ["x", "ratio", "training"], ["y", "mask"], seed=5)
    model = compiled([node], {"x": ["n", 40], "ratio": [], "training": []}, ["y", "mask"])
    x = np.linspace(1, 2, 400 * 40, dtype=np.float32).reshape(400, 40)
    y, mask = model(x, np.float32(ratio), np.array(True))
    assert abs(mask.mean() - (1 - ratio)) < 0.01
    np.testing.assert_allclose(y, np.where(mask, x / (1 - np.float32(ratio)), 0), rtol=1e-6)
    y, mask = model(x, np.float32(ratio), np.array(False))
    np.testing.assert_array_equal(y, x)
    assert mask.all()


def test_bernoulli_draws_ones_with_the_given_probability() -> None:
    node = helper.make_node("Bernoulli", ["x"], ["y"], dtype=TensorProto.INT32, seed=1.0)
    model = compiled([node], {"x": [3, 20_000]}, ["y"])
    x = np.repeat(np.array([[0.0], [0.3], [1.0]], np.float32), 20_000, axis=1)
    (y,) = model(x)
    assert y.dtype == np.int32
    np.testing.assert_allclose(y.mean(axis=1), [0, 0.3, 1], atol=0.01)


def test_effects_are_not_merged() -> None:
    nodes = [helper.make_node("RandomUniformLike", ["x"], [name]) for name in ("a", "b")]
    a, b = compiled(nodes, {"x": [100]}, ["a", "b"])(np.zeros(100, np.float32))
    assert np.any(a != b)


@pytest.mark.parametrize("count", [0, 3])
def test_adam_of_two_tensors_follows_kingma_and_ba(count: int) -> None:
    rng = np.random.default_rng(0)
    names = ["x", "z", "gx", "gz", "vx", "vz", "hx", "hz"]
    fields = {"alpha": 0.9, "beta": 0.99, "epsilon": 1e-3, "norm_coefficient": 0.1}
    node = helper.make_node(
        "Adam", ["rate", "count", *names], ["x1", "z1", "v1", "w1", "h1", "k1"],
        domain="ai.onnx.preview.training", **fields,
    )  # fmt: skip
    shapes: dict[str, list[Any]] = {n: [2, 3] if "x" in n else [4] for n in names}
    model = compiled([node], {"rate": [], "count": [], **shapes}, list(node.output))
    given = {n: np.abs(rng.normal(size=s)).astype(np.float32) for n, s in shapes.items()}
    found = model.run({"rate": np.float32(0.1), "count": np.int64(count), **given})  # type: ignore[dict-item]
    for end, outputs in (("x", ("x1", "v1", "h1")), ("z", ("z1", "w1", "k1"))):
        x, g, v, h = (given[prefix + end].astype(np.float64) for prefix in ("", "g", "v", "h"))
        g = 0.1 * x + g
        v, h = 0.9 * v + 0.1 * g, 0.99 * h + 0.01 * g * g
        rate = 0.1 * np.sqrt(1 - 0.99**count) / (1 - 0.9**count) if count else 0.1
        for name, wanted in zip(outputs, (x - rate * v / (np.sqrt(h) + 1e-3), v, h), strict=True):
            np.testing.assert_allclose(found[name], wanted, rtol=2e-5)

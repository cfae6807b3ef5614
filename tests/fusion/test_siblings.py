"""Two products with the same left operand in one kernel: results compared with NumPy in f64, on several
threads; decisions.
"""

from __future__ import annotations

from collections.abc import Callable
from math import erf, sqrt
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

import graphwright as gw
from graphwright.fusion.decision_text import decode_decisions
from graphwright.fusion.decisions import Verdict
from graphwright.ir.refusal import Code

Array = np.ndarray[Any, Any]


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


ACTIVATIONS: dict[str, tuple[Callable[..., Any], Callable[[Array], Array]]] = {
    "silu": (lambda b, x: b.mul(x, b.sigmoid(x)), lambda x: x * sigmoid(x)),
    "gelu": (lambda b, x: b.gelu(x), lambda x: x * (1 + np.vectorize(erf, [float])(x / sqrt(2))) / 2),
    "glu": (lambda b, x: b.sigmoid(x), sigmoid),
    "relu": (lambda b, x: b.relu(x), lambda x: np.maximum(x, 0)),
    "bilinear": (lambda b, x: x, lambda x: x),
}


def gated(
    rng: np.random.Generator,
    x: tuple[int | str, ...],
    features: int,
    activation: str,
    biases: bool = False,
    **options: Any,
) -> tuple[gw.Model, list[Array]]:
    """``activation(x @ gate + bias) * (x @ up + bias)``; the weights of both, then the biases."""
    depth = int(x[-1])
    weights = [(rng.standard_normal((depth, features)) / sqrt(depth or 1)).astype(np.float32) for _ in "gu"]
    added = [rng.standard_normal(features).astype(np.float32) if biases else np.zeros(1) for _ in "gu"]
    b = gw.GraphBuilder()
    left = b.input("x", np.float32, x)
    gate, up = (b.matmul(left, w) for w in weights)
    if biases:
        gate, up = b.add(gate, added[0]), b.add(up, added[1])
    b.output("y", b.mul(ACTIVATIONS[activation][0](b, gate), up))
    return b.compile(options=gw.CompileOptions(**options)), [*weights, *added]


def meant(x: Array, activation: str, gate: Array, up: Array, first: Array, second: Array) -> Array:
    """The result of the block in f64."""
    wide = x.astype(np.float64)
    return ACTIVATIONS[activation][1](wide @ gate + first) * (wide @ up + second)


def is_dual(model: gw.Model) -> bool:
    """Whether one kernel computes both products."""
    return "gw_gemm_f32_dual" in model.report()


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from([0, 1, 2, 5, 16, 17, 37, 149]),
    st.sampled_from([16, 33, 96, 801]),
    st.sampled_from([5, 16, 31, 48, 97]),
    st.sampled_from(list(ACTIVATIONS)),
    st.booleans(),
    st.integers(0, 1 << 30),
)
@example(150, 1600, 97, "silu", True, 0)
def test_results_are_those_of_numpy(
    rows: int, depth: int, features: int, activation: str, biases: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    model, parameters = gated(rng, (rows, depth), features, activation, biases)
    assert is_dual(model) == (rows > 0)
    x = rng.standard_normal((rows, depth)).astype(np.float32)
    wanted = meant(x, activation, *parameters)
    np.testing.assert_allclose(model.run({"x": x})["y"], wanted, rtol=2e-5, atol=1e-5)


def test_dynamic_sizes_and_threads_give_the_same_bits() -> None:
    made = [
        gated(np.random.default_rng(3), ("B", "T", 40), 70, "silu", biases=True, threads=count)
        for count in (1, 2, 3)
    ]
    assert all(is_dual(model) for model, _ in made)
    for sizes in [(1, 1), (1, 3), (2, 8), (3, 33), (1, 300), (0, 4)]:
        x = np.random.default_rng(sizes[1]).standard_normal((*sizes, 40)).astype(np.float32)
        one, *others = (model.run({"x": x})["y"] for model, _ in made)
        for other in others:
            np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(one, meant(x, "silu", *made[0][1]), rtol=2e-5, atol=1e-5)


def test_products_in_one_kernel_have_the_same_bits_as_separate_ones() -> None:
    """K blocks are those of a single matrix multiplication, for few rows and for many."""
    for rows in (1, 7, 16, 40, 200):
        options = ({}, {"fusion_rules": "-siblings"})
        (dual, _), (apart, _) = (
            gated(np.random.default_rng(0), (rows, 1700), 50, "bilinear", **each) for each in options
        )
        assert is_dual(dual) and not is_dual(apart)
        x = np.random.default_rng(1).standard_normal((rows, 1700)).astype(np.float32)
        np.testing.assert_array_equal(dual.run({"x": x})["y"], apart.run({"x": x})["y"])


def test_a_product_that_is_an_output_is_stored_as_well() -> None:
    rng = np.random.default_rng(0)
    gate, up = (rng.standard_normal((24, 33)).astype(np.float32) for _ in range(2))
    b = gw.GraphBuilder()
    x = b.input("x", np.float32, ("N", 24))
    first, second = b.matmul(x, gate), b.matmul(x, up)
    b.output("y", b.sub(first, b.tanh(second)))
    b.output("second", second)
    model = b.compile()
    assert is_dual(model)
    x = rng.standard_normal((9, 24)).astype(np.float32)
    found, wide = model.run({"x": x}), x.astype(np.float64)
    np.testing.assert_allclose(found["second"], wide @ up, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(found["y"], wide @ gate - np.tanh(wide @ up), rtol=1e-5, atol=1e-4)


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from([1, 5, 17, 70]),
    st.sampled_from([8, 33, 96]),
    st.sampled_from([1, 7, 16, 33]),
    st.booleans(),
    st.integers(0, 1 << 30),
)
def test_weights_that_are_joined_are_split(
    rows: int, depth: int, features: int, biased: bool, seed: int
) -> None:
    """A gated linear unit is one matrix multiplication whose halves are combined."""
    rng = np.random.default_rng(seed)
    weights = (rng.standard_normal((depth, 2 * features)) / sqrt(depth)).astype(np.float32)
    bias = rng.standard_normal(2 * features).astype(np.float32) if biased else np.zeros(2 * features)
    b = gw.GraphBuilder()
    made = b.matmul(b.input("x", np.float32, ("N", depth)), weights)
    first, second = b.split(b.add(made, bias) if biased else made, parts=2, axis=-1)
    b.output("y", b.mul(first, b.sigmoid(second)))
    model = b.compile()
    assert is_dual(model)
    x = rng.standard_normal((rows, depth)).astype(np.float32)
    wide = x.astype(np.float64) @ weights + bias
    wanted = wide[:, :features] * sigmoid(wide[:, features:])
    np.testing.assert_allclose(model.run({"x": x})["y"], wanted, rtol=2e-5, atol=1e-5)


def test_the_rule_can_be_switched_off() -> None:
    model, _ = gated(np.random.default_rng(0), (8, 32), 48, "silu", fusion_rules="-siblings")
    assert not is_dual(model)
    refused = [each for each in decode_decisions(model.entry.decisions) if each.verdict is Verdict.REFUSED]
    assert [each.code for each in refused] == [Code.RULE_OFF]


def test_weights_are_packed_once(tmp_path: Path) -> None:
    """The weights in the package are the same with and without the rule."""
    sizes = []
    for rules in ("all", "-siblings"):
        model, _ = gated(np.random.default_rng(0), ("N", 64), 96, "silu", fusion_rules=rules)
        model.save(tmp_path / "model.om")
        with ZipFile(tmp_path / "model.om") as file:
            sizes.append(
                {each.filename: each.file_size for each in file.infolist() if "weights" in each.filename}
            )
    assert sizes[0] == sizes[1] and sum(sizes[0].values()) < 1.1 * 2 * 4 * 64 * 96

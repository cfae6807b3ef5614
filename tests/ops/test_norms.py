"""Normalizations against their formulas in f64."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright as gw
from graphwright.export.onnx import write_model
from graphwright.frontends.onnx import load
from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module
from graphwright.ir.op import Op
from graphwright.ir.types import F32, tensor
from graphwright.ops.nn.batch_normalization import BatchNormalization
from graphwright.ops.nn.instance_normalization import GroupNormalization, InstanceNormalization
from graphwright.ops.nn.layer_normalization import LayerNormalization, RMSNormalization
from graphwright.ops.nn.lp_normalization import LpNormalization
from graphwright.ops.nn.lrn import LRN
from graphwright.ops.nn.mean_variance_normalization import MeanVarianceNormalization

from .support import run_graph, run_reference

SIZES = st.sampled_from([1, 2, 3, 5])


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(1.0, 2.0, shape)


def standard(x: Any, axes: tuple[int, ...], epsilon: float) -> Any:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


@settings(deadline=None, max_examples=40)
@given(SIZES, SIZES, st.sampled_from([1, 4, 7, 16]), st.sampled_from([1, 2]))
def test_layer_normalization_follows_its_formula(n: int, m: int, k: int, count: int) -> None:
    x, scale, bias = normal(n, m, k), normal(*(m, k)[2 - count :]), normal(*(m, k)[2 - count :])
    axes = (1, 2)[2 - count :]
    op = LayerNormalization(-count, 1e-3, statistics=True)
    y, mean, inverse = run_reference(op, [x, scale, bias])
    np.testing.assert_allclose(y, standard(x, axes, 1e-3) * scale + bias, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(mean, x.mean(axes, keepdims=True), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(inverse, 1 / np.sqrt(x.var(axes, keepdims=True) + 1e-3), rtol=1e-9)


def test_layer_normalization_of_16_bit_floats_is_computed_in_f32() -> None:
    x = (normal(2, 64) * 100).astype(np.float16)
    y, mean, _ = run_reference(LayerNormalization(statistics=True), [x, np.ones(64, np.float16)])
    assert y.dtype == np.float16 and mean.dtype == np.float32
    np.testing.assert_allclose(y, standard(x.astype(np.float64), (1,), 1e-5), atol=2e-3)


def test_rms_normalization_follows_its_formula() -> None:
    x, scale = normal(3, 4, 8), normal(4, 8)
    expected = x / np.sqrt((x * x).mean((1, 2), keepdims=True) + 1e-2) * scale
    np.testing.assert_allclose(run_reference(RMSNormalization(1, 1e-2), [x, scale])[0], expected, rtol=1e-12)


@settings(deadline=None, max_examples=30)
@given(SIZES, SIZES, st.lists(SIZES, max_size=3))
def test_batch_normalization_follows_its_formula(n: int, c: int, rest: list[int]) -> None:
    x = normal(n, c, *rest)
    scale, bias, mean, spread = normal(c), normal(c), normal(c), np.abs(normal(c)) + 0.1
    shape = (-1, *[1] * len(rest))
    expected = (x - mean.reshape(shape)) / np.sqrt(spread.reshape(shape) + 1e-5) * scale.reshape(
        shape
    ) + bias.reshape(shape)
    np.testing.assert_allclose(
        run_reference(BatchNormalization(), [x, scale, bias, mean, spread])[0], expected, rtol=1e-9
    )


def test_batch_normalization_decomposes_to_one_product_and_one_sum_per_element() -> None:
    module = Module()
    types = [("x", tensor(F32, 2, 3, 4, 5)), *((name, tensor(F32, 3)) for name in "sbmv")]
    b, values = new_main_graph(module, types)
    y = BatchNormalization().decompose(b, *values)
    b.graph.set_outputs([y])
    assert sum(node.outputs[0].type.shape == (2, 3, 4, 5) for node in b.graph) == 2
    arrays = [
        a.astype(np.float32) for a in (normal(2, 3, 4, 5), normal(3), normal(3), normal(3), np.abs(normal(3)))
    ]
    (actual,) = run_graph(module, b.graph, dict(zip(values, arrays, strict=True)), {})
    np.testing.assert_allclose(actual, run_reference(BatchNormalization(), arrays)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("stash_type", "name"), [(1, "float32"), (10, "float32"), (16, "bfloat16")])
def test_statistics_of_layer_normalization_in_16_bits(stash_type: int, name: str) -> None:
    model = onnx.parser.parse_model(
        f"""<ir_version: 11, opset_import: ["": 23]>
        main (float16[3, 8] x, float16[8] scale) => (float16[3, 8] y, float[3, 1] mean, float16[3, 8] z) {{
            y, mean = LayerNormalization<stash_type = {stash_type}>(x, scale)
            z = RMSNormalization<stash_type = {stash_type}>(x, scale)
        }}"""
    )
    model.graph.output[1].ClearField("type")
    x, scale = normal(3, 8).astype(np.float16), normal(8).astype(np.float16)
    results = gw.compile(model)(x, scale)
    y, mean, z = (a.astype(np.float64) for a in results)
    assert [a.dtype.name for a in results] == ["float16", name, "float16"]
    wide = x.astype(np.float64)
    np.testing.assert_allclose(y, standard(wide, (1,), 1e-5) * scale, rtol=5e-3, atol=5e-3)
    np.testing.assert_allclose(mean, wide.mean(1, keepdims=True), rtol=1e-2)
    root = np.sqrt((wide * wide).mean(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(z, wide / root * scale, rtol=5e-3, atol=5e-3)


def test_instance_normalization_follows_its_formula() -> None:
    x, scale, bias = normal(2, 3, 4, 5), normal(3), normal(3)
    expected = standard(x, (2, 3), 1e-5) * scale[:, None, None] + bias[:, None, None]
    np.testing.assert_allclose(
        run_reference(InstanceNormalization(), [x, scale, bias])[0], expected, rtol=1e-9
    )


def test_group_normalization_follows_its_formula() -> None:
    x, scale, bias = normal(2, 6, 4, 5), normal(6), normal(6) + 1
    rows = standard(x.reshape(2, 2, 60), (2,), 1e-5).reshape(x.shape)
    expected = rows * scale[:, None, None] + bias[:, None, None]
    np.testing.assert_allclose(
        run_reference(GroupNormalization(2, 1e-5), [x, scale, bias])[0], expected, rtol=1e-9
    )


@pytest.mark.parametrize(
    "inputs",
    [
        "float[2, 6, 4, 5] x, float[2] scale, float[2] bias",
        "float[N, C, H, W] x, float[A] scale, float[B] bias",
    ],
)
def test_group_normalization_of_opset_18_has_parameters_of_each_group(inputs: str) -> None:
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 18]> main ({inputs}) => (float[D, E, F, G] y) {{
            y = GroupNormalization<num_groups = 2>(x, scale, bias)
        }}"""
    )
    x, scale, bias = (a.astype(np.float32) for a in (normal(2, 6, 4, 5), normal(2), normal(2) + 1))
    rows = standard(x.reshape(2, 2, 60), (2,), 1e-5)
    expected = (rows * scale[:, None] + bias[:, None]).reshape(x.shape)
    for source in (model, write_model(load(model)).with_weights()):
        (y,) = gw.compile(source)(x, scale, bias)
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
def test_lrn_sums_over_its_window(size: int) -> None:
    x = normal(2, 5, 3)
    expected = np.empty_like(x)
    for c in range(5):
        low, high = max(0, c - (size - 1) // 2), min(5, c + size // 2 + 1)
        expected[:, c] = x[:, c] / (2 + 0.5 / size * (x[:, low:high] ** 2).sum(1)) ** 0.75
    np.testing.assert_allclose(run_reference(LRN(size, 0.5, 0.75, 2.0), [x])[0], expected, rtol=1e-12)


@pytest.mark.parametrize("p", [1, 2])
def test_lp_normalization_of_zeros_is_zero(p: int) -> None:
    x = np.array([[3.0, -4.0], [0.0, 0.0]])
    norm = 7.0 if p == 1 else 5.0
    np.testing.assert_allclose(run_reference(LpNormalization(p=p), [x])[0], [[3 / norm, -4 / norm], [0, 0]])


def test_mean_variance_normalization() -> None:
    x = normal(2, 3, 4, 5)
    expected = (x - x.mean((0, 2, 3), keepdims=True)) / x.std((0, 2, 3), keepdims=True)
    np.testing.assert_allclose(run_reference(MeanVarianceNormalization(), [x])[0], expected, rtol=1e-6)


@pytest.mark.parametrize("op", [LayerNormalization(), RMSNormalization(), InstanceNormalization()])
def test_nan_stays_in_its_row(op: Op) -> None:
    x = normal(2, 3, 4).astype(np.float32)
    x[0, 0, 0] = np.nan
    parameters = [np.ones(3 if op.name == InstanceNormalization.name else 4, np.float32)] * (
        2 if op.name == InstanceNormalization.name else 1
    )
    (y,) = run_reference(op, [x, *parameters])
    assert np.isnan(y[0, 0]).all() and np.isfinite(y[0, 1:]).all() and np.isfinite(y[1]).all()

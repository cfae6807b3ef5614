"""Ops of ONNX Runtime's domain, compared with ONNX Runtime: one node each, on the reference device and
compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import graphwright as gw
from graphwright.errors import ModelError

from .contrib import (
    COMPILED,
    DOMAIN,
    GROUPS,
    REFERENCE,
    TOTAL,
    Array,
    Feed,
    compare,
    flags,
    grouped,
    normal,
    one_node,
    refused,
    rng,
    tables,
)


@pytest.mark.parametrize("shape", [(2, 3, 16), (1, 7, 17), (0, 3, 4)])
@pytest.mark.parametrize("op_type", ["Gelu", "FastGelu", "QuickGelu"])
def test_activations_are_those_of_onnx_runtime(op_type: str, shape: tuple[int, ...]) -> None:
    compare(op_type, [3 * normal(*shape)], symbolic=True)


@pytest.mark.parametrize("op_type", ["BiasGelu", "FastGelu"])
def test_activation_of_a_sum(op_type: str) -> None:
    for width in (16, 33):
        compare(op_type, [normal(2, 5, width), normal(width)], symbolic=True)


def test_quick_gelu_of_another_factor() -> None:
    compare("QuickGelu", [normal(3, 9)], alpha=0.7)


@pytest.mark.parametrize(
    ("a", "b", "attributes"),
    [
        ((2, 3, 4), (2, 4, 5), {"alpha": 0.125}),
        ((2, 4, 3), (2, 4, 5), {"transA": 1}),
        ((2, 3, 4), (2, 5, 4), {"transB": 1, "alpha": -2.0}),
        ((4, 3), (5, 4), {"transA": 1, "transB": 1}),
        ((3, 2, 4), (2, 4, 5), {"transBatchA": 1}),
        ((2, 6, 3, 4), (4, 2, 6, 5), {"transBatchB": 1}),
        ((4, 2, 3), (5, 2, 4), {"transBatchA": 1, "transA": 1, "transBatchB": 1, "transB": 1}),
        ((7,), (7, 3), {"transA": 1}),
        ((2, 3, 4), (4, 5), {}),
    ],
)
def test_fused_matmul_equals_onnx_runtime(
    a: tuple[int, ...], b: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    compare("FusedMatMul", [normal(*a), normal(*b)], **attributes)


def test_fused_matmul_under_its_old_name() -> None:
    compare("TransposeMatMul", [normal(2, 4, 3), normal(2, 4, 5)], transA=1)


def test_a_node_of_unknown_rank_is_imported_at_the_first_feed() -> None:
    """The node is imported again at the first feed."""
    operands = [normal(3, 4), normal(3, 5)]
    model = one_node("FusedMatMul", operands, {"transA": 1}, ("y",), DOMAIN, symbolic=False, constants=())
    model.graph.input[1].type.tensor_type.ClearField("shape")
    feeds = dict(zip((value.name for value in model.graph.input), operands, strict=True))
    (actual,) = gw.compile(model, options=REFERENCE).run(feeds).values()
    np.testing.assert_allclose(actual, operands[0].T @ operands[1], rtol=1e-5)


def test_fused_matmul_in_f64() -> None:
    operands = [normal(3, 4, dtype=np.float64), normal(5, 4, dtype=np.float64)]
    compare("FusedMatMul", operands, transB=1, alpha=0.3, tolerance=1e-12)


ACTIVATIONS = [
    ("Relu", ()),
    ("Tanh", ()),
    ("Sigmoid", ()),
    ("LeakyRelu", (0.1,)),
    ("HardSigmoid", (0.3, 0.4)),
    ("HardSwish", ()),
    ("Clip", (-0.5, 0.5)),
]


@pytest.mark.parametrize(("activation", "parameters"), ACTIVATIONS)
def test_fused_conv_equals_onnx_runtime(activation: str, parameters: tuple[float, ...]) -> None:
    x, w, bias = normal(2, 4, 7, 5), normal(6, 4, 3, 3) / 6, normal(6)
    given: dict[str, Any] = {"activation": activation, "pads": [1, 1, 1, 1], "constants": (1, 2)}
    if parameters:
        given["activation_params"] = list(parameters)
    compare("FusedConv", [x, w, bias], **given)
    compare("FusedConv", [x, w], **given)
    compare("FusedConv", [x, w, bias, normal(2, 6, 7, 5)], **given)


def test_fused_conv_with_strides_and_groups() -> None:
    x, w = normal(1, 4, 9, 8), normal(6, 2, 3, 3)
    compare("FusedConv", [x, w], activation="Relu", group=2, strides=[2, 2], dilations=[1, 2])


@pytest.mark.parametrize(
    ("activation", "parameters"),
    [p for p in ACTIVATIONS if p[0] not in ("Clip", "HardSwish")] + [("Elu", (0.6,))],
)
def test_fused_gemm_equals_onnx_runtime(activation: str, parameters: tuple[float, ...]) -> None:
    names = ("activation_alpha", "activation_beta")
    given = dict(zip(names, parameters, strict=False)) | {"activation": activation}
    compare("FusedGemm", [normal(3, 4), normal(5, 4), normal(5)], transB=1, alpha=0.5, beta=2.0, **given)
    compare("FusedGemm", [normal(4, 3), normal(4, 5)], transA=1, **given)


def test_fused_gemm_with_selu() -> None:
    feeds = [normal(3, 4), normal(4, 5), normal(5)]
    parameters = {"activation_alpha": 1.5, "activation_gamma": 1.1}
    compare("FusedGemm", feeds, activation="Selu", **parameters)
    compare("FusedGemm", feeds, activation="Selu", activation_beta=0.7, **parameters)


def test_activations_that_are_not_known_or_lack_parameters_are_rejected() -> None:
    feeds = [normal(1, 1, 3, 3), normal(1, 1, 1, 1)]
    assert "activation 'Sine' is not one of Relu" in refused("FusedConv", feeds, activation="Sine")
    assert "needs 2 parameters, but 0 are given" in refused("FusedConv", feeds, activation="Clip")


def test_layer_normalization_of_old_opsets() -> None:
    compare("LayerNormalization", [normal(2, 5, 24), normal(24), normal(24)], domain="", epsilon=1e-3)


@pytest.mark.parametrize("shape", [(2, 5, 24), (3, 17)])
def test_simplified_layer_normalization_equals_onnx_runtime(shape: tuple[int, ...]) -> None:
    feeds = [normal(*shape), normal(shape[-1])]
    compare("SimplifiedLayerNormalization", feeds, domain="", symbolic=True, epsilon=1e-4)
    compare("SimplifiedLayerNormalization", feeds, ("y", "inverse"), domain="", axis=-1)


@pytest.mark.parametrize("outputs", [("y",), ("y", "", "", "sum")])
def test_skip_layer_normalization_equals_onnx_runtime(outputs: Sequence[str]) -> None:
    x, skip, scale, shift, bias = normal(2, 5, 24), normal(2, 5, 24), normal(24), normal(24), normal(24)
    op_type = "SkipLayerNormalization"
    compare(op_type, [x, skip, scale], outputs, symbolic=True)
    compare(op_type, [x, skip, scale, shift], outputs, epsilon=1e-2)
    compare(op_type, [x, skip, scale, shift, bias], outputs, symbolic=True)
    compare(op_type, [x, skip, scale, None, bias], outputs)
    compare(op_type, [x, skip[0], scale, shift], outputs)
    compare(op_type, [x, skip[:1], scale, shift], outputs)
    compare(op_type, [x, skip, scale, shift], ("y", "mean", "deviation", "sum"), epsilon=1e-2)


@pytest.mark.parametrize("outputs", [("y",), ("y", "", "", "sum")])
def test_skip_simplified_layer_normalization_equals_onnx_runtime(outputs: Sequence[str]) -> None:
    x, skip, scale, bias = normal(2, 5, 24), normal(2, 5, 24), normal(24), normal(24)
    op_type = "SkipSimplifiedLayerNormalization"
    compare(op_type, [x, skip, scale], outputs, symbolic=True, epsilon=1e-5)
    compare(op_type, [x, skip, scale, bias], outputs)
    compare(op_type, [x[0], skip[0], scale], outputs)
    compare(op_type, [x, skip, scale], ("y", "", "deviation"), epsilon=1e-2)


def test_an_output_that_is_not_computed_may_have_a_name_that_nothing_reads() -> None:
    feeds = [normal(2, 5, 24), normal(2, 5, 24), normal(24)]
    outputs = ("y", "mean", "deviation", "sum")
    model = one_node(
        "SkipSimplifiedLayerNormalization", feeds, {}, outputs, DOMAIN, symbolic=False, constants=()
    )
    with pytest.raises(ModelError, match="does not compute its output 1"):
        gw.compile(model, options=REFERENCE)
    (mean,) = (each for each in model.graph.output if each.name == "mean")
    model.graph.output.remove(mean)
    y, _, total = gw.compile(model, options=REFERENCE)(*feeds)
    expected = feeds[0] + feeds[1]
    assert np.allclose(total, expected)
    root = np.sqrt(np.square(expected).mean(-1, keepdims=True) + 1e-12)
    assert np.allclose(y, expected / root * feeds[2], atol=1e-5)


def test_embed_layer_normalization_equals_onnx_runtime() -> None:
    ids = rng.integers(0, 11, (2, 5)).astype(np.int32)
    segments = rng.integers(0, 2, (2, 5)).astype(np.int32)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    places = np.array([[4, 3, 2, 1, 0], [0, 1, 2, 3, 4]], np.int32)
    tables: list[Array | None] = [normal(11, 16), normal(8, 16), normal(2, 16), normal(16), normal(16)]
    three, op_type = ("y", "index", "sum"), "EmbedLayerNormalization"
    compare(op_type, [ids, segments, *tables], ("y", "index"), constants=(2, 3, 4, 5, 6))
    compare(op_type, [ids, segments, *tables, mask], three)
    compare(op_type, [ids, None, tables[0], tables[1], None, *tables[3:], mask], three)
    compare(op_type, [ids, segments, *tables, mask, places], three, epsilon=1e-3)
    compare(op_type, [ids, segments, *tables, None, places[:1]], ("y", "", "sum"))


def halves(feeds: Feed) -> list[Array | None]:
    """The arrays with floats as f16."""
    return [f if f is None or f.dtype != np.float32 else f.astype(np.float16) for f in feeds]


@pytest.mark.parametrize(
    ("op_type", "feeds", "attributes"),
    [
        ("BiasGelu", [normal(2, 3, 16), normal(16)], {}),
        ("FastGelu", [normal(2, 3, 16)], {}),
        ("QuickGelu", [normal(2, 3, 16)], {}),
        ("FusedMatMul", [normal(3, 4), normal(4, 5)], {"alpha": 0.5}),
        ("SkipLayerNormalization", [normal(2, 5, 16), normal(2, 5, 16), normal(16), normal(16)], {}),
        ("SkipSimplifiedLayerNormalization", [normal(2, 5, 16), normal(2, 5, 16), normal(16)], {}),
        ("RotaryEmbedding", [normal(2, 5, 24), np.array([1]), *tables(12, 4)], {}),
        ("Attention", [normal(2, 5, 12), normal(12, 24), normal(24), flags(2, 5)], {"num_heads": 2}),
        ("MultiHeadAttention", [normal(2, 5, 12) for _ in range(3)], {"num_heads": 2}),
        ("GroupQueryAttention", grouped(5, None, [4, 4], 5, 16), {**GROUPS, "constants": (TOTAL,)}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_ops_compute_in_f16(op_type: str, feeds: Feed, attributes: dict[str, Any]) -> None:
    compare(op_type, halves(feeds), tolerance=1e-2, **attributes)


BLOCK = """
<ir_version: 8, opset_import: ["" : 16]>
block (float[batch, length, 32] x, float[batch, 3, 9, 9] image) => (float[batch, length, 32] y, float c)
<int64[4] split = {0, 0, 4, 8}, int64[3] merge = {0, 0, 32}, float root = {2.828427}, float half = {0.5},
 float one = {1.0}, float sqrt2 = {1.41421356}, float epsilon = {1e-5}, float two = {2.0}>
{
 q0 = MatMul(x, wq) q1 = Reshape(q0, split) q = Transpose <perm = [0, 2, 1, 3]> (q1)
 k0 = MatMul(x, wk) k1 = Reshape(k0, split) k = Transpose <perm = [0, 2, 3, 1]> (k1)
 v0 = MatMul(x, wv) v1 = Reshape(v0, split) v = Transpose <perm = [0, 2, 1, 3]> (v1)
 s0 = MatMul(q, k) s1 = Div(s0, root) s = Softmax <axis = -1> (s1)
 o0 = MatMul(s, v) o1 = Transpose <perm = [0, 2, 1, 3]> (o0) o2 = Reshape(o1, merge) o = MatMul(o2, wo)
 t = Add(x, o) m = ReduceMean <axes = [-1]> (t) d = Sub(t, m) p = Pow(d, two)
 a = ReduceMean <axes = [-1]> (p) b = Add(a, epsilon) e = Sqrt(b) n0 = Div(d, e)
 n1 = Mul(n0, scale) n = Add(n1, shift)
 h0 = MatMul(n, wh) h = Add(h0, bias) g0 = Div(h, sqrt2) g1 = Erf(g0) g2 = Add(g1, one)
 g3 = Mul(h, g2) g = Mul(g3, half) y0 = MatMul(g, wy) y = Add(n, y0)
 i0 = Conv <pads = [1, 1, 1, 1]> (image, kernel) i1 = LeakyRelu <alpha = 0.1> (i0)
 c = ReduceSum <keepdims = 0> (i1)
}
"""
WEIGHTS = {
    **{name: (32, 32) for name in ("wq", "wk", "wv", "wo")}, "scale": (32,), "shift": (32,),
    "wh": (32, 64), "bias": (64,), "wy": (64, 32), "kernel": (4, 3, 3, 3),
}  # fmt: skip


def test_a_model_that_onnx_runtime_optimized_has_the_same_results(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(BLOCK)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(normal(*shape) / 4, name) for name, shape in WEIGHTS.items()
    )
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    optimized = onnx.load(options.optimized_model_filepath)
    found = {node.op_type for node in optimized.graph.node if node.domain == DOMAIN}
    assert found == {"FusedMatMul", "SkipLayerNormalization", "BiasGelu", "FusedConv"}
    feeds = {"x": normal(2, 5, 32), "image": normal(2, 3, 9, 9)}
    results = gw.compile(optimized, options=COMPILED).run(feeds).values()
    for a, e in zip(results, session.run(None, feeds), strict=True):
        np.testing.assert_allclose(a, e, rtol=2e-5, atol=2e-5)

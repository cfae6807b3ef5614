"""Ops of ONNX Runtime's domain, compared with ONNX Runtime: one node each, on the reference device and
compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import graphwright as gw
from graphwright.config import Options
from graphwright.errors import FeedError, ModelError

Array = np.ndarray[Any, Any]
Feed = Sequence[Array | None]
DOMAIN = "com.microsoft"
COMPILED = Options(threads=1)
REFERENCE = replace(COMPILED, device="reference")
rng = np.random.default_rng(7)


def normal(*shape: int, dtype: Any = np.float32) -> Array:
    return rng.standard_normal(shape).astype(dtype)


def one_node(
    op_type: str,
    feeds: Feed,
    attributes: dict[str, Any],
    outputs: Sequence[str],
    domain: str,
    symbolic: bool,
    constants: Sequence[int],
) -> onnx.ModelProto:
    """A model of the node; ``symbolic`` leaves the first two sizes of every input of three axes open."""
    names = ["" if feed is None else f"x{k}" for k, feed in enumerate(feeds)]
    node = helper.make_node(op_type, names, list(outputs), domain=domain, **attributes)
    inputs, initializers = [], []
    for k, feed in enumerate(feeds):
        if feed is None:
            continue
        if k in constants:
            initializers.append(onnx.numpy_helper.from_array(feed, names[k]))
            continue
        shape: list[Any] = list(feed.shape)
        if symbolic and feed.ndim == 3:
            shape[:2] = ["batch", "length"]
        kind = helper.np_dtype_to_tensor_dtype(feed.dtype)
        inputs.append(helper.make_tensor_value_info(names[k], kind, shape))
    results = [onnx.ValueInfoProto(name=name) for name in outputs if name]
    graph = helper.make_graph([node], "one", inputs, results, initializers)
    opsets = [helper.make_opsetid("", 16), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def by_runtime(model: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return [np.asarray(result) for result in session.run(None, feeds)]


def paired(
    op_type: str,
    feeds: Feed,
    outputs: Sequence[str] = ("y",),
    *,
    domain: str = DOMAIN,
    symbolic: bool = False,
    constants: Sequence[int] = (),
    **attributes: Any,
) -> list[tuple[list[Array], list[Array]]]:
    """The results of the reference device and of the compiled node, each paired with that of ONNX Runtime."""
    model = one_node(op_type, feeds, attributes, outputs, domain, symbolic, constants)
    given = {f"x{k}": a for k, a in enumerate(feeds) if a is not None and k not in constants}
    expected = by_runtime(model, given)
    return [
        (list(gw.compile(model, options=options).run(given).values()), expected)
        for options in (REFERENCE, COMPILED)
    ]


def compare(
    op_type: str,
    feeds: Feed,
    outputs: Sequence[str] = ("y",),
    *,
    tolerance: float = 2e-5,
    **settings: Any,
) -> None:
    """Assert that both devices give what ONNX Runtime does; ``settings`` are those of :func:`paired`."""
    for found, expected in paired(op_type, feeds, outputs, **settings):
        for a, e in zip(found, expected, strict=True):
            assert a.dtype == e.dtype
            assert a.shape == e.shape
            np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance)


def refused(op_type: str, feeds: Feed, outputs: Sequence[str] = ("y",), **attributes: Any) -> str:
    """The message with which the node is refused."""
    with pytest.raises(ModelError) as caught:
        gw.compile(one_node(op_type, feeds, attributes, outputs, DOMAIN, False, ()), options=REFERENCE)
    return str(caught.value)


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
    model = one_node("FusedMatMul", operands, {"transA": 1}, ("y",), DOMAIN, False, ())
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
    model = one_node("SkipSimplifiedLayerNormalization", feeds, {}, outputs, DOMAIN, False, ())
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


def tables(rows: int, half: int) -> tuple[Array, Array]:
    """Cosines and sines of angles."""
    angles = rng.uniform(-3, 3, (rows, half))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("first", [True, False])
def test_rotary_embedding_equals_onnx_runtime(interleaved: int, first: bool) -> None:
    positions = np.array([3]) if first else rng.integers(0, 12, (2, 5))
    caches = tables(12, 4)
    compare("RotaryEmbedding", [normal(2, 5, 24), positions, *caches], symbolic=True, interleaved=interleaved)
    compare("RotaryEmbedding", [normal(2, 3, 5, 8), positions, *caches], interleaved=interleaved)
    partial = {"num_heads": 3, "rotary_embedding_dim": 8, "interleaved": interleaved}
    compare("RotaryEmbedding", [normal(2, 5, 36), positions, *caches], **partial)
    compare("RotaryEmbedding", [normal(2, 3, 5, 12), positions, *caches], **partial)


def test_rotary_embeddings_with_tables_of_a_dynamic_size() -> None:
    """The size of a head is that of the tables."""
    feeds = [normal(2, 5, 24), rng.integers(0, 9, (2, 5)), normal(9, 4), normal(9, 4)]
    model = one_node("RotaryEmbedding", feeds, {}, ("y",), DOMAIN, False, ())
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            dim.dim_param = f"{value.name}_{axis}"
    given = {f"x{k}": feed for k, feed in enumerate(feeds)}
    for options in (REFERENCE, COMPILED):
        (found,) = gw.compile(model, options=options).run(given).values()
        np.testing.assert_allclose(found, by_runtime(model, given)[0], rtol=1e-5, atol=1e-6)


def flags(*shape: int) -> Array:
    """Zeros and ones, with a one in front."""
    found = rng.integers(0, 2, shape).astype(np.int32)
    found[..., 0] = 1
    return found


ENDS, ENDS_AND_STARTS = np.array([3, 5], np.int32), np.array([4, 5, 1, 2], np.int32)


@pytest.mark.parametrize(
    "mask", [None, flags(2, 5), flags(2, 5, 5), ENDS, ENDS_AND_STARTS], ids=["-", "2", "3", "1", "1+1"]
)
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention_equals_onnx_runtime(mask: Array | None, unidirectional: int) -> None:
    x, weights, bias = normal(2, 5, 12), normal(12, 24) / 4, normal(24)
    given: dict[str, Any] = {"num_heads": 2, "unidirectional": unidirectional, "constants": (1, 2)}
    compare("Attention", [x, weights, bias, mask], **given)
    more = [x, weights, bias, mask, None, normal(1, 2, 5, 5)]  # padding that sees padding rounds at -10000
    compare("Attention", more, ("y", "present"), tolerance=1e-3, **given)
    wider = normal(12, 28) / 4
    sizes = {"qkv_hidden_sizes": [8, 8, 12]}
    compare("Attention", [x, wider, normal(28), mask], mask_filter_value=-50.0, scale=0.3, **given, **sizes)


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention_after_a_cache(unidirectional: int) -> None:
    x, weights, past = normal(2, 3, 12), normal(12, 24) / 4, normal(2, 2, 2, 4, 4)
    given: dict[str, Any] = {"num_heads": 2, "unidirectional": unidirectional}
    for mask in (None, flags(2, 7)):
        compare("Attention", [x, weights, normal(24), mask, past], ("y", "present"), symbolic=True, **given)


def test_attention_of_symbolic_sizes() -> None:
    compare("Attention", [normal(3, 7, 12), normal(12, 24), normal(24)], symbolic=True, num_heads=2)


def test_a_mask_of_lengths_has_one_for_each_sequence_of_a_symbolic_batch() -> None:
    feeds = [normal(2, 5, 12), normal(12, 24), normal(24)]
    compare("Attention", [*feeds, ENDS], symbolic=True, num_heads=2)
    model = one_node("Attention", [*feeds, ENDS_AND_STARTS], {"num_heads": 2}, ("y",), DOMAIN, True, ())
    with pytest.raises(FeedError, match="axis 0 of 'x0' must be 4, but is 2"):
        gw.compile(model, options=REFERENCE)(*feeds, ENDS_AND_STARTS)


@pytest.mark.parametrize("mask", [None, flags(2, 7), flags(2, 5, 7), ENDS], ids=["-", "2", "3", "1"])
def test_multi_head_attention_equals_onnx_runtime(mask: Array | None) -> None:
    q, k, v, bias = normal(2, 5, 12), normal(2, 7, 12), normal(2, 7, 18), normal(42)
    compare("MultiHeadAttention", [q, k, v, bias, mask], num_heads=3)
    compare("MultiHeadAttention", [q, k, v, None, mask, normal(2, 1, 5, 7)], num_heads=3, scale=0.2)


def test_multi_head_attention_of_symbolic_sizes() -> None:
    compare("MultiHeadAttention", [normal(2, 5, 12) for _ in range(3)], symbolic=True, num_heads=3)


@pytest.mark.parametrize("keys", [5, 7])
@pytest.mark.parametrize(
    "given", [{}, {"scale": 0.2}, {"unidirectional": 1}, {"mask_filter_value": -5.0}], ids=str
)
def test_scores_of_multi_head_attention(keys: int, given: dict[str, Any]) -> None:
    """As many keys as queries are appended to a cache."""
    cached = keys == 5
    q, k, v, bias = normal(2, 5, 12), normal(2, keys, 12), normal(2, keys, 12), normal(36)
    past = normal(2, 3, 2, 4) if cached else None
    added = normal(2, 3, 5, 7)
    mask = np.array([7, 3], np.int32) if "mask_filter_value" in given else None
    feeds = [q, k, v, bias, mask, added, past, past]
    outputs = ("y", *(("key", "value") if cached else ("", "")), "scores")
    model = one_node("MultiHeadAttention", feeds, {"num_heads": 3, **given}, outputs, DOMAIN, cached, ())
    model.graph.output[-1].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    named = {f"x{k}": feed for k, feed in enumerate(feeds) if feed is not None}
    actual = gw.compile(model, options=COMPILED).run(named).values()
    for a, e in zip(actual, by_runtime(model, named), strict=True):
        np.testing.assert_allclose(a, e, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_multi_head_attention_after_a_cache(unidirectional: int) -> None:
    q, k, v, past = normal(2, 5, 12), normal(2, 5, 12), normal(2, 5, 12), normal(2, 3, 4, 4)
    for mask in (None, flags(2, 9)):
        feeds = [q, k, v, None, mask, None, past, past + 1]
        given: dict[str, Any] = {"num_heads": 3, "unidirectional": unidirectional}
        compare("MultiHeadAttention", feeds, ("y", "key", "value"), **given)


def test_multi_head_attention_of_packed_operands() -> None:
    """ONNX Runtime supports packed operands only on GPUs; the expected result is that of unpacked
    operands.
    """
    q, k, v = (normal(2, 5, 3, 4) for _ in range(3))
    apart = [x.reshape(2, 5, 12) for x in (q, k, v)]
    names = {"x0": apart[0], "x1": apart[1], "x2": apart[2]}
    (expected,) = by_runtime(
        one_node("MultiHeadAttention", apart, {"num_heads": 3}, ("y",), DOMAIN, False, ()), names
    )
    for feeds in ([np.stack([q, k, v], 3)], [apart[0], np.stack([k, v], 3)]):
        model = one_node("MultiHeadAttention", feeds, {"num_heads": 3}, ("y",), DOMAIN, False, ())
        (found,) = gw.compile(model, options=COMPILED)(*feeds)
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def test_multi_head_attention_of_keys_of_another_pass() -> None:
    feeds = [normal(2, 5, 12), normal(2, 3, 7, 4), normal(2, 3, 7, 4), normal(36)]
    compare("MultiHeadAttention", feeds, num_heads=3)


def test_unsupported_forms_of_attention_are_named() -> None:
    x, weights = normal(2, 5, 12), normal(12, 24)
    assert "do_rotary is not supported" in refused("Attention", [x, weights], num_heads=2, do_rotary=1)
    mask = np.ones((2, 1, 5, 5), np.int32)
    assert "a mask of 4 axes" in refused("Attention", [x, weights, None, mask], num_heads=2)
    assert "but input 0 is not packed" in refused("MultiHeadAttention", [x], num_heads=2)
    assert "but input 1 is not packed" in refused("MultiHeadAttention", [x, x], num_heads=2)
    shared = [x, x, x, *[None] * 5, np.array([3], np.int32)]
    assert "updated in place" in refused("MultiHeadAttention", shared, num_heads=2)


TOTAL = 6
"""The input of GroupQueryAttention that says how large its caches become: known before a run, or not."""


def grouped(
    rows: int, past: int | None, lengths: Sequence[int], total: int, features: int = 8, batch: int = 2
) -> list[Array | None]:
    """The first seven inputs for 4 heads of queries and 2 of keys."""
    caches = [None, None] if past is None else [normal(batch, 2, past, features) for _ in range(2)]
    projections = [normal(batch, rows, heads * features) for heads in (4, 2, 2)]
    return [*projections, *caches, np.array(lengths, np.int32), np.array(total, np.int32)]


GROUPS = {"num_heads": 4, "kv_num_heads": 2}
VARIANTS: list[dict[str, Any]] = [
    {},
    {"local_window_size": 3},
    {"softcap": 2.0, "scale": 0.4},
    {"smooth_softmax": 1},
    {"do_rotary": 1},
    {"do_rotary": 1, "rotary_interleaved": 1},
]


def with_angles(feeds: list[Array | None], attributes: dict[str, Any]) -> list[Array | None]:
    return [*feeds, *tables(32, 8)] if attributes.get("do_rotary") else feeds


@pytest.mark.parametrize("attributes", VARIANTS, ids=str)
def test_grouped_attention_equals_onnx_runtime(attributes: dict[str, Any]) -> None:
    three = ("y", "key", "value")
    given: dict[str, Any] = {**GROUPS, **attributes, "constants": (TOTAL,)}
    for symbolic in (False, True):
        prompt = with_angles(grouped(5, None, [4, 4], 5, 16), attributes)
        compare("GroupQueryAttention", prompt, three, symbolic=symbolic, **given)
        step = with_angles(grouped(1, 6, [6, 6], 7, 16), attributes)
        compare("GroupQueryAttention", step, three, symbolic=symbolic, **given)
    more = with_angles(grouped(3, 6, [8], 9, 16, batch=1), attributes)
    compare("GroupQueryAttention", more, three, **given)


def test_grouped_attention_of_one_packed_operand() -> None:
    q, k, v, *rest = grouped(5, None, [4, 4], 5, 16)
    packed = [np.concatenate([q, k, v], -1), None, None, *rest]
    attributes = {"do_rotary": 1}
    feeds = with_angles(packed, attributes)
    compare("GroupQueryAttention", feeds, ("y", "key", "value"), constants=(TOTAL,), **GROUPS, **attributes)


@pytest.mark.parametrize("total", [7, 9])
def test_grouped_attention_of_caches_of_unequal_fill(total: int) -> None:
    """The second sequence uses only some rows of its cache."""
    feeds = grouped(1, 9 if total == 7 else 8, [3, total - 1], total, 16)
    attributes: dict[str, Any] = {**GROUPS, "do_rotary": 1}
    feeds = with_angles(feeds, attributes)
    results = paired("GroupQueryAttention", feeds, ("y", "key", "value"), constants=(TOTAL,), **attributes)
    for (y, *caches), (y_expected, *expected) in results:
        np.testing.assert_allclose(y, y_expected, rtol=2e-5, atol=2e-5)
        for a, e in zip(caches, expected, strict=True):
            assert a.shape == e.shape
            for row, length in ((0, 4), (1, total)):
                np.testing.assert_allclose(a[row, :, :length], e[row, :, :length], rtol=2e-5, atol=2e-5)


def test_grouped_attention_of_prompts_of_unequal_length() -> None:
    feeds = with_angles(grouped(5, None, [2, 4], 5, 16), {"do_rotary": 1})
    results = paired("GroupQueryAttention", feeds, ("y",), constants=(TOTAL,), do_rotary=1, **GROUPS)
    for (y,), (expected,) in results:
        for row, length in ((0, 3), (1, 5)):
            np.testing.assert_allclose(y[row, :length], expected[row, :length], rtol=2e-5, atol=2e-5)


def test_grouped_attention_with_bias_sinks_and_positions() -> None:
    op_type, three = "GroupQueryAttention", ("y", "key", "value")  # it needs them all to read its cache
    given: dict[str, Any] = {**GROUPS, "constants": (TOTAL,)}
    for rows, past, lengths, total in ((5, None, [4, 4], 5), (1, 6, [6, 6], 7)):
        feeds = grouped(rows, past, lengths, total, 16)
        bias, sinks = normal(2, 4, rows, total), normal(4)
        compare(op_type, [*feeds, None, None, None, bias], three, **given)
        compare(op_type, [*feeds, None, None, None, bias[:1, :1], sinks], three, softcap=1.5, **given)
        places = np.array([range(total - rows, total)] * 2)
        compare(op_type, [*feeds, *tables(32, 8), places], three, do_rotary=1, **given)


def test_grouped_attention_that_looks_ahead() -> None:
    feeds = grouped(5, None, [4, 4], 5, 16)
    compare("GroupQueryAttention", feeds, constants=(TOTAL,), causal=0, **GROUPS)


@pytest.mark.parametrize(
    "epsilons", [{"qk_norm_epsilon": 1e-3}, {"q_norm_epsilon": 1e-3, "k_norm_epsilon": 1e-3}], ids=str
)
def test_grouped_attention_with_normalized_queries_and_keys(epsilons: dict[str, float]) -> None:
    """ONNX Runtime supports this only on GPUs; the expected result is that of operands that were normalized
    before.
    """
    feeds = grouped(5, None, [4, 4], 5, 16)
    weights = normal(16), normal(16)

    def normalized(x: Array, weight: Array) -> Array:
        wide = x.reshape(*x.shape[:2], -1, 16).astype(np.float64)
        scale = np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-3)
        return (wide / scale * weight).astype(np.float32).reshape(x.shape)

    plain = [normalized(feeds[0], weights[0]), normalized(feeds[1], weights[1]), *feeds[2:]]
    results = paired("GroupQueryAttention", plain, ("y",), constants=(TOTAL,), **GROUPS)
    normed = [*feeds, *[None] * 7, *weights]
    model = one_node("GroupQueryAttention", normed, {**GROUPS, **epsilons}, ("y",), DOMAIN, False, (TOTAL,))
    found = gw.compile(model, options=COMPILED)(
        *(f for k, f in enumerate(normed) if f is not None and k != 6)
    )
    np.testing.assert_allclose(found[0], results[0][1][0], rtol=2e-5, atol=2e-5)


def test_grouped_attention_whose_cache_is_sized_by_an_input() -> None:
    for feeds in (grouped(5, None, [4, 4], 5), grouped(1, 6, [6, 6], 7), grouped(3, 6, [8], 9, batch=1)):
        compare("GroupQueryAttention", feeds, ("y", "key", "value"), **GROUPS)


def test_unsupported_forms_of_grouped_attention_are_named() -> None:
    op_type, feeds = "GroupQueryAttention", grouped(1, 6, [6, 6], 7)
    kinds = {"k_quant_type": "PER_TOKEN", "v_quant_type": "PER_TOKEN"}
    scaled = [*feeds, *[None] * 5, normal(1), normal(1)]
    assert "PER_TOKEN with 8 bits is not supported" in refused(op_type, scaled, **kinds, **GROUPS)
    window = refused(op_type, feeds, sliding_window_cache=1, **GROUPS)
    assert "sliding_window_cache needs local_window_size" in window
    padded = [*feeds, *[None] * 9, np.array([1, 1], np.int32)]
    assert "query_seqlens is not supported" in refused(op_type, padded, **GROUPS)


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


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 4])
def test_the_last_row_of_causal_attention_sees_keys_of_another_length(rows: int, masked: bool) -> None:
    """A decoder that appends keys to its cache in the graph asks for one row."""
    q, k, v = (normal(2, length, 8) for length in (rows, 6, 6))
    feeds = [q, k, v, *([None, np.array([6, 3], np.int32)] if masked else [])]
    compare("MultiHeadAttention", feeds, num_heads=2, unidirectional=1)

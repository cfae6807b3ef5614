"""Ops that ONNX Runtime had before ONNX, that only it has, or that ONNX withdrew, compared with ONNX
Runtime.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import graphwright as gw

from .contrib import COMPILED, DOMAIN, REFERENCE, Array, by_runtime, compare, normal, refused

rng = np.random.default_rng(23)
X = normal(2, 3, 5)
IMAGE = normal(2, 3, 6, 7)


def whole(*values: Any, dtype: Any = np.int64) -> Array:
    return np.array(values, dtype)


@pytest.mark.parametrize(
    ("op_type", "feeds", "outputs", "attributes"),
    [
        ("Trilu", [X, np.array(-1)], "y", {"upper": 0}),
        ("Trilu", [X], "y", {}),
        ("Range", [np.float32(0), np.float32(4), np.float32(1.5)], "y", {}),
        ("Range", [np.array(2), np.array(7)], "y", {}),
        ("ExpandDims", [X, np.array(-2, np.int32)], "y", {}),
        ("GatherND", [X, whole([0, 1], [1, -1])], "y", {}),
        ("Pad", [X, whole(0, 1, 0, 1, 0, 2), np.array([2], np.float32)], "y", {"mode": "constant"}),
        ("Pad", [X, whole(0, 1, 0, 1, 0, 2)], "y", {"mode": "reflect"}),
        ("Unique", [np.array([3, 1, 3, 2, 1], np.float32)], "ynk", {}),
        ("GridSample", [normal(1, 2, 4, 4), normal(1, 3, 3, 2)], "y", {"padding_mode": "border"}),
        ("CDist", [normal(5, 3), normal(4, 3)], "y", {"metric": "sqeuclidean"}),
        ("CDist", [normal(5, 3), normal(4, 3)], "y", {"metric": "euclidean"}),
        *(("Inverse", [normal(2, n, n) + 3 * np.eye(n, dtype=np.float32)], "y", {}) for n in (1, 3, 4, 9)),
        ("Inverse", [np.eye(5, dtype=np.float32)[[3, 1, 0, 4, 2]]], "y", {}),
    ],
)
def test_ops_that_exporters_to_older_opsets_write(
    op_type: str, feeds: list[Any], outputs: str, attributes: dict[str, Any]
) -> None:
    compare(op_type, [np.asarray(feed) for feed in feeds], tuple(outputs), **attributes)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(3, 4), (1, 2), (2, 1)])
@pytest.mark.parametrize("constants", [(), (3,), (1, 2, 3)])
def test_crops_of_images(mode: str, size: tuple[int, int], constants: tuple[int, ...]) -> None:
    boxes = rng.uniform(-0.3, 1.3, (5, 4)).astype(np.float32)
    boxes[0] = (0, 0, 1, 1)
    feeds = [IMAGE, boxes, whole(0, 1, 1, 0, 1, dtype=np.int32), whole(*size, dtype=np.int32)]
    compare("CropAndResize", feeds, constants=constants, mode=mode, extrapolation_value=-3.0)
    compare("CropAndResize", [IMAGE[:, :, :1], *feeds[1:]], constants=constants, mode=mode)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(
    "attributes", [{"size": 2}, {"size": 3, "step": 2, "dim": 1}, {"size": 1, "dim": -3}]
)
def test_windows_along_an_axis(attributes: dict[str, int], symbolic: bool) -> None:
    compare("UnfoldTensor", [X], symbolic=symbolic, **attributes)
    compare("UnfoldTensor", [whole(*range(30)).reshape(2, 3, 5)], symbolic=symbolic, **attributes)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("length", [1, 2, 9])
def test_repeated_tokens_are_blocked(size: int, length: int) -> None:
    compare("NGramRepeatBlock", [rng.integers(0, 3, (4, length)), normal(4, 6)], ngram_size=size)


def test_products_of_integers_of_16_bits() -> None:
    a, b = (rng.integers(-(2**15), 2**15, (2, *shape)).astype(np.int16) for shape in ((3, 4), (4, 5)))
    compare("MatMulInteger16", [a, b])


@pytest.mark.parametrize("constants", [(1,), (1, 2)])
@pytest.mark.parametrize("attributes", [{}, {"strides": [2, 2], "output_padding": [1, 0]}])
def test_transposed_convolutions_with_pads_from_an_operand(
    attributes: dict[str, Any], constants: tuple[int, ...]
) -> None:
    feeds = [IMAGE, normal(3, 2, 3, 3), whole(0, 1, 2, 1), normal(2)]
    compare("ConvTransposeWithDynamicPads", feeds, constants=constants, tolerance=5e-5, **attributes)


def test_sample_op_returns_its_input() -> None:
    compare("SampleOp", [X])


def test_a_matrix_without_an_inverse_leaves_the_others() -> None:
    matrices = np.array([[[1, 2], [2, 4]], [[2, 0], [0, 4]]], np.float32)
    node = helper.make_node("Inverse", ["x"], ["y"], domain=DOMAIN)
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", "M", "M"]) for n in "xy")
    graph = helper.make_graph([node], "one", [x], [y])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    for options in (REFERENCE, COMPILED):
        first, second = gw.compile(model, options=options).run({"x": matrices})["y"]
        assert not np.isfinite(first).any()
        np.testing.assert_array_equal(second, [[0.5, 0], [0, 0.25]])


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("indices", [np.array(2), whole(1, -1), whole([0, 3], [7, 2], dtype=np.int32)])
def test_rows_of_a_table_in_blocks(bits: int, zeros: bool, indices: Array) -> None:
    rows, width, block = 8, 48, 16
    codes = rng.integers(0, 256, (rows, width * bits // 8)).astype(np.uint8)
    scales = rng.uniform(0.1, 1, (rows, width // block)).astype(np.float32)
    middles = rng.integers(0, 256, (rows, -(-3 * bits // 8))).astype(np.uint8) if zeros else None
    feeds = [codes, indices, scales, *([] if middles is None else [middles])]
    compare(
        "GatherBlockQuantized", feeds, constants=(0, 2, 3), bits=bits, block_size=block,
        gather_axis=0, quantize_axis=1,
    )  # fmt: skip


@pytest.mark.parametrize(("shape", "block"), [((6, 2), 16), ((6, 1), 0), ((1, 1), 0)])
def test_rows_of_a_table_of_small_floats(shape: tuple[int, int], block: int) -> None:
    """One scale may be that of a block, of a row, or of the table."""
    table = rng.standard_normal((6, 32)).astype(ml_dtypes.float8_e4m3fn)
    scales = rng.uniform(0.1, 1, shape).astype(np.float32)
    feeds = [table, whole(0, 3, -1), scales]
    compare("GatherBlockQuantized", feeds, constants=(0, 2), block_size=block, quantize_axis=1)


@pytest.mark.parametrize(("rows", "along"), [(1, 0), (0, 0), (0, 1)])
def test_rows_of_a_table_of_four_bits(rows: int, along: int) -> None:
    """The i4 codes are quantized along the axis from which rows are gathered, or along another one."""
    shape, block = [32, 32], 16
    blocks = [size // block if axis == along else size for axis, size in enumerate(shape)]
    codes, zeros = (
        helper.make_tensor(n, TensorProto.INT4, dims, rng.integers(-8, 8, dims).ravel().tolist())
        for n, dims in (("codes", shape), ("zeros", blocks))
    )
    scales = onnx.numpy_helper.from_array(rng.uniform(0.1, 1, blocks).astype(np.float32), "scales")
    node = helper.make_node(
        "GatherBlockQuantized", ["codes", "places", "scales", "zeros"], ["y"], domain=DOMAIN,
        block_size=block, gather_axis=rows, quantize_axis=along,
    )  # fmt: skip
    places = helper.make_tensor_value_info("places", TensorProto.INT64, ["n"])
    graph = helper.make_graph(
        [node], "one", [places], [onnx.ValueInfoProto(name="y")], [codes, scales, zeros]
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    feeds = {"places": whole(3, 0, 31)}
    for options in (REFERENCE, COMPILED):
        (found,) = gw.compile(model, options=options).run(feeds).values()
        np.testing.assert_allclose(found, by_runtime(model, feeds)[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("Affine", {"alpha": 2.0, "beta": -1.0}),
        ("Affine", {}),
        ("Scale", {"scale": 3.0}),
        ("ScaledTanh", {"alpha": 2.0, "beta": 0.5}),
        ("ParametricSoftplus", {"alpha": 2.0, "beta": 0.5}),
        ("ImageScaler", {"scale": 0.5, "bias": [1.0, 2.0, 3.0]}),
        ("Crop", {"border": [1, 2, 1, 0]}),
        ("Crop", {"border": [1, 2, 1, 0], "scale": [2, 3]}),
        ("ThresholdedRelu", {"alpha": 0.3}),
        ("MeanVarianceNormalization", {}),
        ("MeanVarianceNormalization", {"across_channels": 1}),
        ("MeanVarianceNormalization", {"normalize_variance": 0}),
    ],
)
@pytest.mark.parametrize("opset", [1, 7])
def test_experimental_ops_of_the_first_opsets(op_type: str, attributes: dict[str, Any], opset: int) -> None:
    in_an_old_model(op_type, [IMAGE], opset, attributes)


def test_slices_by_operands_before_opset_10() -> None:
    for bounds in ([whole(1, 0), whole(2, -1)], [whole(1), whole(4), whole(2)]):
        in_an_old_model("DynamicSlice", [IMAGE, *bounds], 9, {})


def in_an_old_model(op_type: str, feeds: list[Array], opset: int, attributes: dict[str, Any]) -> None:
    names = [f"x{k}" for k in range(len(feeds))]
    kinds = (helper.np_dtype_to_tensor_dtype(feed.dtype) for feed in feeds)
    inputs = [
        helper.make_tensor_value_info(n, kind, feed.shape)
        for n, kind, feed in zip(names, kinds, feeds, strict=True)
    ]
    node = helper.make_node(op_type, names, ["y"], **attributes)
    graph = helper.make_graph([node], "one", inputs, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3)
    given = dict(zip(names, feeds, strict=True))
    for options in (REFERENCE, COMPILED):
        (found,) = gw.compile(model, options=options).run(given).values()
        np.testing.assert_allclose(found, by_runtime(model, given)[0], rtol=2e-5, atol=2e-5)


def test_unsupported_attributes_are_rejected() -> None:
    assert "metric 'cosine' is not one of" in refused("CDist", [normal(2, 3), normal(2, 3)], metric="cosine")
    table = [np.zeros((8, 16), np.uint8), whole(1), np.ones((1, 16), np.float32)]
    message = refused("GatherBlockQuantized", table, gather_axis=1, quantize_axis=0, block_size=16)
    assert "quantize_axis is 0; with packed 4-bit codes it must be the last axis" in message


def gate(*shape: int) -> Array:
    """Logarithms of factors below 1."""
    return -np.abs(normal(*shape))


@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize("past", [False, True])
def test_causal_convolutions_with_a_state(activation: str, past: bool) -> None:
    feeds = [normal(2, 3, 5), normal(3, 1, 4), normal(3), *([normal(2, 3, 3)] if past else [])]
    compare("CausalConvWithState", feeds, ("y", "state"), activation=activation, ndim=1)


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_linear_attention_agrees_with_onnxruntime(rule: str) -> None:
    batch, length, heads, kept, width = 2, 5, 4, 2, 4
    q, k, v = (normal(batch, length, n * width) / 2 for n in (heads, kept, kept))
    decay = gate(batch, length, kept) if "gated" in rule else None
    rate = np.exp(gate(batch, length, kept)) if "delta" in rule else None
    feeds = [q, k, v, normal(batch, kept, width, width), decay, rate]
    compare(
        "LinearAttention", feeds, ("y", "state"), tolerance=1e-4, update_rule=rule,
        q_num_heads=heads, kv_num_heads=kept,
    )  # fmt: skip


@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize(("queries", "keys", "heads"), [(4, 2, 2), (2, 2, 4), (2, 2, 2), (4, 1, 1)])
def test_linear_attention_of_any_number_of_tokens(queries: int, keys: int, heads: int, past: bool) -> None:
    """More heads than queries, each query for several heads, are ONNX Runtime's own."""
    for batch, length, per_key in ((1, 1, False), (2, 6, True)):
        q, k, v = (normal(batch, length, n) / 2 for n in (queries * 4, keys * 4, heads * 3))
        state = normal(batch, heads, 4, 3) if past else None
        decay = gate(batch, length, heads * 4 if per_key else heads)
        rate = np.exp(gate(batch, length, 1 if per_key else heads))
        compare(
            "LinearAttention", [q, k, v, state, decay, rate], ("y", "state"), tolerance=1e-4, symbolic=True,
            q_num_heads=queries, kv_num_heads=heads, scale=0.5,
        )  # fmt: skip


def test_sizes_of_linear_attention_are_checked() -> None:
    feeds, heads = [normal(2, 3, 8) for _ in range(3)], {"q_num_heads": 2, "kv_num_heads": 2}

    def message(**attributes: Any) -> str:
        return refused(
            "LinearAttention", feeds, ("y", "state"), **{**heads, "update_rule": "linear", **attributes}
        )

    assert "update_rule 'other' is not one of linear, gated" in message(update_rule="other")
    assert "needs input 4, 'decay'" in message(update_rule="gated")
    assert "state_window is not supported" in message(state_window=2)
    assert "not multiples of each other" in message(q_num_heads=2, kv_num_heads=3)
    assert "not a multiple of 16, 16 heads" in message(q_num_heads=16, kv_num_heads=16)
    feeds[1] = normal(2, 3, 6)
    assert "6 features of keys are not 2 heads of 4" in message()
    feeds[1] = normal(3, 8)
    assert "it must have 3 axes" in message()


def test_ops_that_became_standard_accept_the_default_of_each_attribute() -> None:
    """Exporters of language models write them out."""
    feeds = [normal(2, 3, 5), normal(3, 1, 4)]
    defaults = {"ndim": 1, "dilation": 1, "channels_last": 0, "state_window": 0, "state_update_capacity": 0}
    cuda = {"state_channels_last": -1, "state_length": 0, "input_channel_offset": 0, "input_channels": 0}
    compare("CausalConvWithState", feeds, ("y", "state"), **defaults, **cuda)
    packed = [normal(2, 3, 8) / 2 for _ in range(3)]
    compare(
        "LinearAttention", packed, ("y", "state"), tolerance=1e-4, update_rule="linear", state_window=0,
        chunk_size=64, q_num_heads=2, kv_num_heads=2,
    )  # fmt: skip

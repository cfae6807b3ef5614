"""ONNX Runtime's quantized ops against ONNX Runtime: one node each, on the reference device and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphwright as gw

from .contrib import DOMAIN, Array, by_runtime, one_node, paired, refused

rng = np.random.default_rng(11)
SCALE, ZERO = np.float32(0.03), np.uint8(120)


def codes(*shape: int, dtype: Any = np.uint8) -> Array:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


def weights(*shape: int) -> Array:
    """7 bits: without VNNI, ONNX Runtime sums pairs of products of bytes in 16 bits, which saturate."""
    return rng.integers(-64, 64, shape).astype(np.int8)


def scalar(value: float, dtype: Any = np.float32) -> Array:
    return np.array(value, dtype)


def by_step(op_type: str, feeds: list[Array | None], **attributes: Any) -> None:
    """Results within one step: ONNX Runtime rounds products of scales in places of its own."""
    for ours, theirs in paired(op_type, feeds, **attributes):
        for found, wanted in zip(ours, theirs, strict=True):
            assert found.dtype == wanted.dtype and found.shape == wanted.shape
            apart = np.abs(found.astype(np.int64) - wanted.astype(np.int64))
            assert apart.max(initial=0) <= 1 and np.mean(apart > 0) < 0.02


def close(op_type: str, feeds: list[Array | None], atol: float = 1e-4, **attributes: Any) -> None:
    for ours, theirs in paired(op_type, feeds, **attributes):
        for found, wanted in zip(ours, theirs, strict=True):
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=atol)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
def test_binary_ops_are_within_one_step_of_onnx_runtime(op_type: str, dtype: Any) -> None:
    zero = scalar(3, dtype)
    for b in (codes(4, 5, dtype=dtype), codes(5, dtype=dtype), codes(1, dtype=dtype)):
        feeds = [codes(4, 5, dtype=dtype), scalar(0.02), zero, b, scalar(0.05), zero, scalar(0.0713), zero]
        by_step(op_type, feeds)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(
    ("op_type", "attributes", "scale"),
    [
        ("QLinearSigmoid", {}, 1 / 256),
        ("QLinearLeakyRelu", {"alpha": 0.2}, 0.03),
        ("QLinearSoftmax", {"axis": 1, "opset": 13}, 1 / 256),
        ("QLinearSoftmax", {"axis": 1, "opset": 11}, 1 / 256),
    ],
)
def test_unary_ops_are_within_one_step_of_onnx_runtime(
    op_type: str, attributes: dict[str, Any], scale: float, dtype: Any
) -> None:
    zero = scalar(np.iinfo(dtype).min, dtype) if scale < 0.01 else scalar(1, dtype)
    feeds = [codes(2, 3, 4, dtype=dtype), scalar(0.02), scalar(2, dtype), scalar(scale), zero]
    constants = (1, 2, 3, 4)
    by_step(op_type, feeds, constants=constants, **attributes)


@pytest.mark.parametrize("last", [0, 1])
def test_pooling_is_within_one_step_of_onnx_runtime(last: int) -> None:
    x = codes(2, 6, 5, 3) if last else codes(2, 3, 6, 5)
    feeds = [x, SCALE, ZERO, scalar(0.0213), scalar(100, np.uint8)]
    feeds = [np.asarray(feed) for feed in feeds]
    by_step("QLinearGlobalAveragePool", feeds, channels_last=last)
    pads = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "count_include_pad": 1}
    by_step("QLinearAveragePool", feeds, channels_last=last, **pads)


def test_concatenations_are_within_one_step_of_onnx_runtime() -> None:
    parts = [codes(2, 3), scalar(0.02), scalar(7, np.uint8), codes(2, 1), scalar(0.05), scalar(9, np.uint8)]
    by_step("QLinearConcat", [scalar(0.04), scalar(5, np.uint8), *parts], axis=1)


def test_selections_are_within_one_step_of_onnx_runtime() -> None:
    condition = rng.integers(0, 2, (4, 5)).astype(bool)
    branches = [codes(4, 5), scalar(0.02), scalar(7, np.uint8), codes(5), scalar(0.05), scalar(9, np.uint8)]
    by_step("QLinearWhere", [condition, *branches, scalar(0.04), scalar(5, np.uint8)])


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("columns", [(), (6,)])
def test_gemm_is_within_one_step_of_onnx_runtime(transposed: int, columns: tuple[int, ...]) -> None:
    b = weights(6, 4) if transposed else weights(4, 6)
    b_scale = rng.uniform(0.01, 0.03, columns).astype(np.float32)
    c = rng.integers(-500, 500, 6).astype(np.int32)
    feeds = [codes(3, 4), scalar(0.02), scalar(9, np.uint8), b, b_scale, np.zeros(columns, np.int8), c]
    close("QGemm", feeds, transB=transposed, constants=(1, 2, 4, 5))
    by_step("QGemm", [*feeds, scalar(0.5), scalar(128, np.uint8)], transB=transposed, constants=(1, 2, 4, 5))


def test_products_of_dynamically_quantized_floats() -> None:
    a, b = rng.standard_normal((3, 8)).astype(np.float32), weights(8, 5)
    bias = rng.standard_normal(5).astype(np.float32)
    close("DynamicQuantizeMatMul", [a, b, scalar(0.02), scalar(3, np.int8), bias])
    scales = rng.uniform(0.01, 0.03, 5).astype(np.float32)
    close("DynamicQuantizeMatMul", [a, b, scales, None, bias])
    feeds = [codes(3, 8), b, scalar(0.1), scalar(0.02), scalar(7, np.uint8), scalar(-2, np.int8), bias]
    close("MatMulIntegerToFloat", feeds)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("k", "block"), [(64, 32), (80, 32), (48, 16)])
@pytest.mark.parametrize("zeros", ["none", "packed", "plain"])
def test_products_with_packed_weights_equal_onnx_runtime(bits: int, k: int, block: int, zeros: str) -> None:
    if bits == 8 and zeros == "plain":
        pytest.skip("ONNX Runtime does not take them")
    n, blocks = 6, -(-k // block)
    a = rng.standard_normal((2, 3, k)).astype(np.float32)
    packed = codes(n, blocks, block * bits // 8)
    scales = rng.uniform(0.01, 0.1, (n * blocks)).astype(np.float32)
    zero = {
        "none": None,
        "packed": codes(n * -(-blocks * bits // 8)),
        "plain": rng.uniform(0, 1 << bits, n * blocks).astype(np.float32),
    }[zeros]
    feeds = [a, packed, scales, *([] if zero is None else [zero])]
    close("MatMulNBits", feeds, 1e-3, constants=(1, 2, 3), K=k, N=n, bits=bits, block_size=block)


@pytest.mark.parametrize("rows", [1, 7])
def test_level_4_rounds_rows_to_bytes(rows: int) -> None:
    """Like ONNX Runtime, whose results differ in ties only; strict numerics keep all bits."""
    k, n, block = 160, 40, 32
    a = rng.standard_normal((rows, k)).astype(np.float32)
    packed, scales = codes(n, k // block, block // 2), np.full(n * k // block, 0.125, np.float32)
    attributes = {"K": k, "N": n, "bits": 4, "block_size": block, "accuracy_level": 4}
    model = one_node(
        "MatMulNBits", [a, packed, scales], attributes, ("y",), DOMAIN, symbolic=False, constants=(1, 2)
    )
    low, high = packed & 15, packed >> 4
    weights = (np.stack([low, high], -1).reshape(n, k).astype(np.float64) - 8) / 8
    largest = np.abs(a).reshape(rows, k // block, block).max(-1)
    bound = np.repeat(largest, block, 1) @ np.abs(weights).T / 254
    wanted = a @ weights.T

    (rounded,) = gw.compile(model)(a)
    (strict,) = gw.compile(model, options={"numerics": "strict"})(a)
    (by_peer,) = by_runtime(model, {"x0": a})
    np.testing.assert_allclose(strict, wanted, atol=1e-4)
    assert (np.abs(rounded - wanted) < bound + 1e-4).all()
    assert np.abs(rounded - wanted).max() > 1e-3
    assert np.abs(rounded - by_peer).max() < np.abs(rounded - wanted).max() / 2


def test_weights_that_are_packed_for_a_gpu_are_rejected() -> None:
    feeds = [rng.standard_normal((2, 32)).astype(np.float32), codes(6, 1, 16), np.ones(6, np.float32)]
    message = refused("MatMulNBits", feeds, K=32, N=6, bits=4, block_size=32, weight_prepacked=1)
    assert "packed for a GPU (weight_prepacked)" in message


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("columns", [False, True])
def test_lstm_with_quantized_weights_equals_onnx_runtime(direction: str, columns: bool) -> None:
    """ONNX Runtime also quantizes inputs and states, which requires the tolerance."""
    time, batch, inputs, hidden = 5, 2, 7, 4
    directions = 2 if direction == "bidirectional" else 1
    shape = (directions, 4 * hidden) if columns else (directions,)
    x = rng.standard_normal((time, batch, inputs)).astype(np.float32)
    w, r = (weights(directions, rows, 4 * hidden) for rows in (inputs, hidden))
    bias = rng.standard_normal((directions, 8 * hidden)).astype(np.float32)
    scale, zero = np.full(shape, 0.005, np.float32), np.zeros(shape, np.int8)
    feeds = [x, w, r, bias, None, None, None, None, scale, zero, scale, zero]
    close(
        "DynamicQuantizeLSTM", feeds, 0.03, outputs=("y", "y_h", "y_c"), constants=(1, 2, 3, 8, 9, 10, 11),
        hidden_size=hidden, direction=direction,
    )  # fmt: skip


@pytest.mark.parametrize("columns", [False, True])
def test_attention_of_quantized_rows_equals_onnx_runtime(columns: bool) -> None:
    batch, rows, width, heads = 2, 4, 12, 3
    x, w = codes(batch, rows, width), weights(width, 3 * width)
    w_scale = rng.uniform(0.004, 0.006, (3 * width,) if columns else ()).astype(np.float32)
    bias, mask = rng.standard_normal(3 * width).astype(np.float32), np.array([4, 2], np.int32)
    w_zero = np.zeros(w_scale.shape, np.int8)
    feeds = [x, w, bias, scalar(0.02), w_scale, mask, scalar(128, np.uint8), w_zero]
    close("QAttention", feeds, 1e-3, constants=(1, 2, 3, 4, 6, 7), num_heads=heads)
    past = rng.standard_normal((2, batch, heads, 5, width // heads)).astype(np.float32)
    close(
        "QAttention", [*feeds[:5], None, *feeds[6:], past], 1e-3, outputs=("y", "present"),
        constants=(1, 2, 3, 4, 6, 7), num_heads=heads, unidirectional=1,
    )  # fmt: skip


@pytest.mark.parametrize("last", [0, 1])
def test_convolutions_are_within_one_step_of_onnx_runtime(last: int) -> None:
    """ONNX Runtime writes this op into models that it optimizes."""
    x = codes(2, 6, 5, 3) if last else codes(2, 3, 6, 5)
    scales = rng.uniform(0.01, 0.02, 4).astype(np.float32)
    feeds = [
        x, SCALE, ZERO, weights(4, 3, 3, 3), scales, np.zeros(4, np.int8), scalar(0.07), ZERO,
        rng.integers(-99, 99, 4).astype(np.int32),
    ]  # fmt: skip
    constants = (1, 2, 3, 4, 5, 6, 7, 8)
    window = {"strides": [2, 1], "pads": [1, 0, 1, 1]}
    by_step("QLinearConv", feeds, constants=constants, channels_last=last, **window)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_maximum_with_channels_last(dtype: Any) -> None:
    window = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1], "dilations": [1, 2]}
    by_step("NhwcMaxPool", [codes(2, 5, 6, 3, dtype=dtype)], ceil_mode=1, **window)


@pytest.mark.parametrize("segments", [False, True])
def test_embeddings_equal_onnx_runtime(segments: bool) -> None:
    ids, mask = rng.integers(0, 9, (2, 5)).astype(np.int32), rng.integers(0, 2, (2, 5)).astype(np.int32)
    kinds = rng.integers(0, 2, (2, 5)).astype(np.int32)
    given: list[Array | None] = [codes(9, 16), codes(8, 16), codes(2, 16), codes(16), codes(16)]
    scales: list[Array | None] = [np.array(x, np.float32) for x in (0.1, 0.2, 0.3, 0.1, 0.2)]
    zeros: list[Array | None] = [np.array(x, np.uint8) for x in (3, 250, 7, 100, 128)]
    for parameters in (given, scales, zeros):
        if not segments:
            parameters[2] = None
    feeds = [ids, kinds if segments else None, *given, mask, *scales, *zeros]
    close("QEmbedLayerNormalization", feeds, outputs=("y", "index"))

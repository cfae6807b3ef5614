"""MoE and QMoE, compared with NumPy and, where it has the kernel, with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import graphwright as gw

from .contrib import COMPILED, REFERENCE, Array, by_runtime, normal, one_node, refused

BATCH, LENGTH, EXPERTS, HIDDEN, INNER, K = 2, 3, 4, 16, 32, 2
TOKENS = BATCH * LENGTH
WEIGHTS = range(2, 14)
rng = np.random.default_rng(11)


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "relu2": lambda x: np.maximum(x, 0) ** 2,
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x * sigmoid(x),
    "identity": lambda x: x,
}


def swiglu(gate: Array, linear: Array, alpha: float, beta: float, limit: float) -> Array:
    gate, linear = np.minimum(gate, limit), np.clip(linear, -limit, limit)
    return np.asarray(gate * sigmoid(alpha * gate) * (linear + beta))


def routed(logits: Array, normalize: bool, weights: Array | None = None) -> tuple[Array, Array]:
    """The experts of each token, and their weights."""
    chosen = np.argsort(-logits, -1, kind="stable")[:, :K]
    shares = np.take_along_axis(softmax(logits) if weights is None else weights, chosen, 1)
    return chosen, shares / shares.sum(1, keepdims=True) if normalize else shares


def mixed(x: Array, routes: tuple[Array, Array], network: Any) -> Array:
    """The sum of the experts' outputs, token by token."""
    rows, y = x.reshape(-1, HIDDEN), np.zeros((TOKENS, HIDDEN), np.float32)
    for token, (experts, shares) in enumerate(zip(*routes, strict=True)):
        for expert, share in zip(experts, shares, strict=True):
            y[token] += share * network(expert, rows[token])
    return y.reshape(x.shape)


def check(
    op_type: str,
    feeds: Sequence[Array | None],
    expected: Array,
    *,
    tolerance: float = 1e-4,
    constants: Sequence[int] = WEIGHTS,
    **attributes: Any,
) -> None:
    """Assert that the node gives ``expected`` on both devices."""
    model = one_node(op_type, feeds, attributes, ("y",), "com.microsoft", bool(constants), constants)
    given = {f"x{k}": feed for k, feed in enumerate(feeds) if feed is not None and k not in constants}
    for options in (REFERENCE, COMPILED):
        (found,) = gw.compile(model, options=options).run(given).values()
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def runtime(op_type: str, feeds: Sequence[Array | None], **attributes: Any) -> Array:
    model = one_node(op_type, feeds, attributes, ("y",), "com.microsoft", symbolic=True, constants=WEIGHTS)
    given = {f"x{k}": feed for k, feed in enumerate(feeds) if feed is not None and k not in WEIGHTS}
    return by_runtime(model, given)[0]


def parts(layers: int, width: int = INNER) -> list[Array]:
    """x, logits, and weights and bias of 2 or 3 layers, the first with ``width`` features."""
    shapes = [(width, HIDDEN), (HIDDEN, INNER), (INNER, HIDDEN)][:layers]
    weights = [a for n, k in shapes for a in (normal(EXPERTS, n, k) / 4, normal(EXPERTS, n))]
    return [normal(BATCH, LENGTH, HIDDEN), normal(TOKENS, EXPERTS), *weights]


@pytest.mark.parametrize("normalize", [0, 1])
@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "identity"])
def test_one_layer_before_the_activation(activation: str, normalize: int) -> None:
    feeds = parts(2)
    x, logits, w1, b1, w2, b2 = feeds
    given = {"k": K, "activation_type": activation, "normalize_routing_weights": normalize}
    act = ACTIVATIONS[activation]
    expected = mixed(
        x, routed(logits, bool(normalize)), lambda e, row: act(row @ w1[e].T + b1[e]) @ w2[e].T + b2[e]
    )
    np.testing.assert_allclose(runtime("MoE", feeds, **given), expected, rtol=1e-4, atol=1e-4)
    check("MoE", feeds, expected, **given)


@pytest.mark.parametrize("activation", ["silu", "relu2"])
def test_layer_3_multiplies_the_activation(activation: str) -> None:
    feeds = parts(3)
    x, logits, w1, b1, w2, b2, w3, b3 = feeds
    act = ACTIVATIONS[activation]

    def network(e: int, row: Array) -> Array:
        hidden = act(row @ w1[e].T + b1[e]) * (row @ w3[e].T + b3[e])
        return np.asarray(hidden @ w2[e].T + b2[e])

    check("MoE", feeds, mixed(x, routed(logits, normalize=False), network), k=K, activation_type=activation)


@pytest.mark.parametrize("fusion", [0, 1, 2])
def test_swiglu_equals_its_formula_for_each_place_of_layer_3(fusion: int) -> None:
    """Layer 3 is separate, in every second feature of layer 1, or in its second half."""
    feeds = parts(2, 2 * INNER) if fusion else parts(3)
    x, logits, w1, b1, w2, b2, *third = feeds
    alpha, beta, limit = 1.7, 1.0, 0.9

    def network(e: int, row: Array) -> Array:
        first = row @ w1[e].T + b1[e]
        if fusion == 1:
            gate, linear = first[0::2], first[1::2]
        elif fusion == 2:
            gate, linear = first[:INNER], first[INNER:]
        else:
            gate, linear = first, row @ third[0][e].T + third[1][e]
        return np.asarray(swiglu(gate, linear, alpha, beta, limit) @ w2[e].T + b2[e])

    expected = mixed(x, routed(logits, normalize=True), network)
    given = {
        "k": K, "activation_type": "swiglu", "swiglu_fusion": fusion, "normalize_routing_weights": 1,
        "activation_alpha": alpha, "activation_beta": beta, "swiglu_limit": limit,
    }  # fmt: skip
    if fusion == 1:  # ONNX Runtime has no kernel for the others
        np.testing.assert_allclose(runtime("MoE", feeds, **given), expected, rtol=1e-4, atol=1e-4)
    check("MoE", feeds, expected, **given)
    check("MoE", feeds, expected, **given, constants=())


def test_the_limit_after_the_activation_and_geglu() -> None:
    feeds = parts(2, 2 * INNER)
    x, logits, w1, b1, w2, b2 = feeds

    def limited(e: int, row: Array) -> Array:
        first = row @ w1[e].T + b1[e]
        gate, linear = np.minimum(first[0::2] * sigmoid(first[0::2]), 0.5), np.clip(first[1::2], -0.5, 0.5)
        return np.asarray(gate * linear @ w2[e].T + b2[e])

    def geglu(e: int, row: Array) -> Array:
        first = row @ w1[e].T + b1[e]
        return np.asarray(ACTIVATIONS["gelu"](first[:INNER]) * first[INNER:] @ w2[e].T + b2[e])

    routes = routed(logits, normalize=False)
    check(
        "MoE", feeds, mixed(x, routes, limited), k=K, activation_type="swiglu", swiglu_fusion=1,
        swiglu_limit=0.5, swiglu_limit_after_activation=1,
    )  # fmt: skip
    check("MoE", feeds, mixed(x, routes, geglu), k=K, activation_type="geglu", swiglu_fusion=2)


def sparse_mixer(logits: Array) -> tuple[Array, Array]:
    """Figure 2 of SparseMixer, at inference, with a jitter of 0.01."""
    chosen, shares, remaining = [], [], logits.copy()
    for _ in range(2):
        best = remaining.argmax(1)[:, None]
        top = np.take_along_axis(remaining, best, 1)
        far = (top - logits) / np.maximum(np.abs(logits), top) > 0.02
        shares.append(np.take_along_axis(softmax(np.where(far, -np.inf, remaining)), best, 1))
        chosen.append(best)
        np.put_along_axis(remaining, best, -np.inf, 1)
    return np.concatenate(chosen, 1), np.concatenate(shares, 1)


def test_sparse_mixer_equals_its_formula() -> None:
    feeds = parts(2)
    x, _, w1, b1, w2, b2 = feeds
    feeds[1] = logits = (1 + 0.03 * normal(TOKENS, EXPERTS)).astype(np.float32)
    routes = sparse_mixer(logits)
    assert routes[1].min() < 1  # some experts share
    expected = mixed(x, routes, lambda e, row: np.maximum(row @ w1[e].T + b1[e], 0) @ w2[e].T + b2[e])
    check("MoE", feeds, expected, k=2, use_sparse_mixer=1)


def test_f16_is_computed_in_f32() -> None:
    feeds = [a.astype(np.float16) for a in parts(2)]
    x, logits, w1, b1, w2, b2 = (a.astype(np.float32) for a in feeds)
    expected = mixed(
        x,
        routed(logits, normalize=True),
        lambda e, row: np.maximum(row @ w1[e].T + b1[e], 0) @ w2[e].T + b2[e],
    )
    given = {"k": K, "normalize_routing_weights": 1}
    check("MoE", feeds, expected.astype(np.float16), tolerance=2e-3, **given)


def packed(codes: Array, bits: int) -> Array:
    """Codes along the last axis as bytes, the first in the low bits."""
    count = 8 // bits
    padded = np.zeros((*codes.shape[:-1], -(-codes.shape[-1] // count) * count), np.uint8)
    padded[..., : codes.shape[-1]] = codes
    return np.asarray(sum(padded[..., k::count] << np.uint8(bits * k) for k in range(count)), np.uint8)


def quantized(bits: int, block: int, *shape: int, has_zeros: bool) -> tuple[list[Array | None], Array]:
    """Packed codes, scales and packed zero points of weights [experts, N, K], and the weights."""
    codes = rng.integers(0, 2**bits, (EXPERTS, *shape)).astype(np.uint8)
    size = (*codes.shape[:2], shape[1] // block) if block else codes.shape[:2]
    scales = (rng.random(size) * 0.5 / 2**bits).astype(np.float32)
    zeros = rng.integers(0, 2**bits, size).astype(np.uint8) if has_zeros else np.full(size, 2 ** (bits - 1))
    wide = [np.repeat(a, block, 2) if block else a[..., None] for a in (scales, zeros.astype(np.float32))]
    points = packed(zeros, bits) if has_zeros else None
    return [packed(codes, bits), scales, points], (codes - wide[1]) * wide[0]


@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize(("bits", "block"), [(4, 0), (4, 16), (8, 0), (8, 16), (2, 16)])
def test_quantized_weights_equal_the_formula_on_dequantized_ones(
    bits: int, block: int, has_zeros: bool
) -> None:
    (codes1, scales1, zeros1), w1 = quantized(bits, block, 2 * INNER, HIDDEN, has_zeros=has_zeros)
    (codes2, scales2, zeros2), w2 = quantized(bits, block, HIDDEN, INNER, has_zeros=has_zeros)
    x, logits, _, b1, _, b2 = parts(2, 2 * INNER)
    feeds = [x, logits, codes1, scales1, b1, codes2, scales2, b2, None, None, None, zeros1, zeros2]

    def network(e: int, row: Array) -> Array:
        first = row @ w1[e].T + b1[e]
        return np.asarray(swiglu(first[0::2], first[1::2], 1.0, 0.0, np.inf) @ w2[e].T + b2[e])

    given: dict[str, Any] = {
        "k": K, "activation_type": "swiglu", "swiglu_fusion": 1, "normalize_routing_weights": 1,
        "expert_weight_bits": bits, **({"block_size": block} if block else {}),
    }  # fmt: skip
    expected = mixed(x, routed(logits, normalize=True), network)
    if (bits, block) != (8, 16):  # there, ONNX Runtime quantizes the activations
        np.testing.assert_allclose(runtime("QMoE", feeds, **given), expected, rtol=1e-4, atol=1e-4)
    check("QMoE", feeds, expected, **given)


def test_weights_of_the_router_and_mixed_widths() -> None:
    """Other numbers than the logits weigh the experts; layers 1 and 3 have 4 bits, and layer 2 has 8."""
    (codes1, scales1, _), w1 = quantized(4, 0, INNER, HIDDEN, has_zeros=False)
    (codes2, scales2, _), w2 = quantized(8, 0, HIDDEN, INNER, has_zeros=False)
    (codes3, scales3, _), w3 = quantized(4, 0, INNER, HIDDEN, has_zeros=False)
    x, logits = parts(2)[:2]
    weights = rng.random((TOKENS, EXPERTS)).astype(np.float32)
    expected = mixed(
        x,
        routed(logits, normalize=True, weights=weights),
        lambda e, row: (ACTIVATIONS["silu"](row @ w1[e].T) * (row @ w3[e].T)) @ w2[e].T,
    )
    feeds = [x, logits, codes1, scales1, None, codes2, scales2, None, codes3, scales3, None]
    given = {"activation_type": "silu", "normalize_routing_weights": 1, "k": K}
    check("QMoE", [*feeds, None, None, None, weights], expected, fc2_expert_weight_bits=8, **given)


def test_a_width_that_is_not_a_multiple_of_a_block() -> None:
    """With one scale for each row, K may have any number of bytes: here 3 blocks of 4 elements."""
    codes1 = rng.integers(0, 256, (EXPERTS, INNER, 12)).astype(np.uint8)
    codes2 = rng.integers(0, 256, (EXPERTS, 12, INNER)).astype(np.uint8)
    scales1, scales2 = (rng.random((EXPERTS, n)).astype(np.float32) / 256 for n in (INNER, 12))
    feeds = [normal(5, 12), normal(5, EXPERTS), codes1, scales1, None, codes2, scales2]
    given = {"expert_weight_bits": 8, "normalize_routing_weights": 1}
    check("QMoE", feeds, runtime("QMoE", feeds, **given), **given)


def test_unsupported_attributes_are_rejected() -> None:
    def node(**attributes: Any) -> str:
        codes, scales = np.zeros((EXPERTS, INNER, 8), np.uint8), np.ones((EXPERTS, INNER), np.float32)
        back, back_scales = np.zeros((EXPERTS, HIDDEN, 16), np.uint8), np.ones((EXPERTS, HIDDEN), np.float32)
        feeds = [normal(5, HIDDEN), normal(5, EXPERTS), codes, scales, None, back, back_scales]
        return refused("QMoE", feeds, **attributes)

    assert "quant_type 'fp4' is not supported" in node(quant_type="fp4")
    assert "weights are packed for a GPU" in node(weights_prepacked=1)
    assert "the codes are not constant (input 2)" in node()
    dense = parts(2)
    assert "activation 'tanh' is not one of relu" in refused("MoE", dense, activation_type="tanh")
    assert "k is 1, but use_sparse_mixer needs k=2" in refused("MoE", dense, use_sparse_mixer=1)
    assert "needs layer 3, or swiglu_fusion 1 or 2" in refused("MoE", dense, activation_type="swiglu")

"""Ops of ONNX Runtime's domain in language models, compared with ONNX Runtime, or with NumPy where it has no
kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphwright as gw

from .contrib import DOMAIN, REFERENCE, by_runtime, compare, normal, one_node, refused

rng = np.random.default_rng(3)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("activation", ["silu", "swish", "sigmoid"])
def test_gated_norm_equals_onnx_runtime(activation: str, dtype: Any) -> None:
    """Two heads of 8 features."""
    feeds = [normal(2, 3, 16, dtype=dtype), normal(8, dtype=dtype), normal(2, 3, 16, dtype=dtype)]
    tolerance = 2e-5 if dtype == np.float32 else 3e-3
    compare("GatedRMSNorm", feeds, activation=activation, symbolic=True, tolerance=tolerance, epsilon=0.01)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_gates_equal_onnx_runtime(dtype: Any) -> None:
    tolerance = 2e-5 if dtype == np.float32 else 3e-3
    x, y, gate = (normal(2, 3, n, dtype=dtype) for n in (8, 8, 1))
    compare("GatedAdd", [x, y, gate], symbolic=True, tolerance=tolerance)
    compare("ScaledSiLU", [x], alpha=0.7, tolerance=tolerance)
    compare("ScaledSiLU", [x, np.array(0.4, np.float32)], alpha=0.7, tolerance=tolerance)
    feeds = [normal(2, 3, 4, dtype=dtype), normal(4), normal(4), normal(2, 3, 4, dtype=dtype)]
    compare("LinearAttentionGate", feeds, ("decay", "beta"), symbolic=True, tolerance=tolerance)
    compare("LinearAttentionGate", feeds[:3], ("decay",), tolerance=tolerance)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(("limit", "beta"), [(0.0, 0.0), (0.6, 1.0)])
def test_swiglu_equals_its_formula(parts: int, limit: float, beta: float) -> None:
    gate, linear = normal(2, 3, 5), normal(2, 3, 5)
    feeds = [gate, linear] if parts == 2 else [np.concatenate([gate, linear], -1)]
    given = {"limit": limit, "activation_beta": beta, "activation_alpha": 1.7}
    model = one_node("SwiGLU", feeds, given, ("y",), DOMAIN, symbolic=False, constants=())
    (found,) = gw.compile(model, options=REFERENCE).run({f"x{k}": a for k, a in enumerate(feeds)}).values()
    bound = limit or np.inf
    g, x = np.minimum(gate, bound), np.clip(linear, -bound, bound)
    np.testing.assert_allclose(found, g / (1 + np.exp(-1.7 * g)) * (x + beta), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("section", [(2, 1, 1), (4, 0, 0), (0, 2, 2), (1, 1, 2)])
def test_multimodal_rotary_embedding_equals_onnx_runtime(
    section: tuple[int, ...], layout: int, interleaved: int
) -> None:
    given = {"mrope_section": section, "mrope_layout": layout, "interleaved": interleaved}
    positions, tables = rng.integers(0, 10, (3, 2, 5)), [normal(10, 4), normal(10, 4)]
    compare("MRotaryEmbedding", [normal(2, 3, 5, 8), positions, *tables], **given)
    whole, rotary = [normal(2, 5, 24), positions, *tables], [normal(2, 5, 36), positions, *tables]
    compare("MRotaryEmbedding", whole, num_heads=3, rotary_embedding_dim=8, **given)
    compare("MRotaryEmbedding", rotary, num_heads=3, rotary_embedding_dim=8, **given)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize(("n", "k", "block"), [(8, 32, 16), (5, 33, 16), (3, 20, 128)])
def test_4_bit_weights_of_bitsandbytes(n: int, k: int, block: int, kind: int) -> None:
    codes = rng.integers(0, 256, (n * k + 1) // 2).astype(np.uint8)
    packed = [codes, normal(-(-n * k // block))]
    given = {"quant_type": kind, "N": n, "K": k, "block_size": block}
    compare(
        "MatMulBnb4", [normal(2, 3, k), *packed], constants=(1, 2), symbolic=True, tolerance=1e-4, **given
    )
    identity = np.eye(k, dtype=np.float32)
    model = one_node(
        "MatMulBnb4", [identity, *packed], given, ("y",), DOMAIN, symbolic=False, constants=(1, 2)
    )
    w = by_runtime(model, {"x0": identity})[0].T
    x, given = normal(2, n), {**given, "transB": 0}  # for which ONNX Runtime reads other memory
    backward = one_node("MatMulBnb4", [x, *packed], given, ("y",), DOMAIN, symbolic=False, constants=(1, 2))
    (found,) = gw.compile(backward, options=REFERENCE).run({"x0": x}).values()
    np.testing.assert_allclose(found, x @ w, rtol=1e-4, atol=1e-4)


def test_unsupported_attributes_are_rejected() -> None:
    x, tables = normal(2, 3, 5, 8), [normal(10, 4), normal(10, 4)]
    message = refused(
        "MRotaryEmbedding", [x, np.zeros((3, 2, 5), np.int64), *tables], mrope_section=[1, 1, 1]
    )
    assert "mrope_section is [1, 1, 1]; it must have 3 elements, whose sum is 4" in message
    assert "'tanh' is not one of" in refused("GatedRMSNorm", [x, normal(8), x], activation="tanh")
    assert "gate_weight is not supported" in refused("GatedAdd", [x, x, x, normal(8, 1)])
    codes, given = np.zeros(8, np.uint8), {"quant_type": 1, "N": 4, "K": 16, "block_size": 16}
    assert "the weights are not constant" in refused("MatMulBnb4", [normal(1, 16), codes, normal(4)], **given)

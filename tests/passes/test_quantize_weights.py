"""The option ``weights``: codes of 8 and 4 bits in place of a product's weights, and how far that is off."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, helper

import graphwright as gw
from graphwright.ops.quantized.matmul_nbits import MatMulNBits
from graphwright.passes.quantize_weights import FORMS, quantize
from tests.onnx_models import model_proto

from .test_weight_only_quantization import compiled

LEVELS = {"int8": 127, "int4": 8}
"""Steps between 0 and the largest magnitude of a block."""


def model_of(w: np.ndarray[Any, Any], *, gemm: bool) -> ModelProto:
    k = w.shape[1] if gemm else w.shape[0]
    nodes = [
        helper.make_node("Gemm" if gemm else "MatMul", ["x", "w"], ["y"], **({"transB": 1} if gemm else {}))
    ]
    return model_proto(nodes, {"x": ["rows", k]}, {"y": None}, {"w": w}, opset=21)


@settings(max_examples=10, deadline=None)
@given(
    st.sampled_from(sorted(FORMS)),
    st.sampled_from([16, 17, 64, 131, 300]),
    st.sampled_from([1, 5, 48, 50]),
    st.sampled_from([0, 1, 7, 20]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_a_weight_is_off_by_at_most_a_step(
    weights: str, k: int, n: int, rows: int, gemm: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((n, k) if gemm else (k, n)).astype(np.float32)
    x = rng.standard_normal((rows, k)).astype(np.float32)
    model = gw.compile(model_of(w, gemm=gemm), options={"weights": weights, "threads": 1})
    (y,) = model(x)
    w = w.T if gemm else w
    step = np.abs(w).max(0) / LEVELS[weights]
    assert y.shape == (rows, n)
    bound = np.abs(x).astype(np.float64).sum(1, keepdims=True) * step
    assert (np.abs(y - x.astype(np.float64) @ w) <= bound * 1.0001 + 1e-5).all()


@pytest.mark.parametrize(("weights", "least", "most"), [("int8", 0.004, 0.008), ("int4", 0.06, 0.1)])
def test_error_of_normal_weights(weights: str, least: float, most: float) -> None:
    """The relative RMS error of the product is a step over sqrt(12), for the largest of 128 or 64 normal
    numbers.
    """
    rng = np.random.default_rng(5)
    w, x = (
        rng.standard_normal((512, 96)).astype(np.float32),
        rng.standard_normal((40, 512)).astype(np.float32),
    )
    own, count = compiled(model_of(w, gemm=False), MatMulNBits, weights=weights)
    wanted = x.astype(np.float64) @ w
    error = np.sqrt(np.mean((own(x)[0] - wanted) ** 2) / np.mean(wanted**2))
    assert count == 1
    assert least < error < most


@pytest.mark.parametrize("weights", sorted(FORMS))
def test_zeros_and_the_ends_of_the_range_are_exact(weights: str) -> None:
    op = FORMS[weights]
    w = np.zeros((3, op.block), np.float32)
    w[1, 0], w[2, 1] = -2.0, 4.0
    codes, scales = quantize(w, op)
    again = (codes.astype(np.float32) - op.middle) * np.repeat(scales, op.block, 1)
    assert np.array_equal(again, w)


def test_weights_that_are_not_finite_and_short_columns_stay() -> None:
    for w in (np.full((32, 4), np.inf, np.float32), np.ones((15, 4), np.float32)):
        _, count = compiled(model_of(w, gemm=False), MatMulNBits, weights="int4")
        assert count == 0


def test_an_unknown_value_names_the_legal_ones() -> None:
    with pytest.raises(gw.OptionError, match="must be one of default, int8, int4"):
        gw.CompileOptions(weights="int3")


def test_module_keeps_its_meaning_in_the_package(tmp_path: Any) -> None:
    """A file stores the codes; a loaded model gives the same bits."""
    rng = np.random.default_rng(1)
    w, x = rng.standard_normal((256, 64)).astype(np.float32), rng.standard_normal((2, 256)).astype(np.float32)
    own = gw.compile(model_of(w, gemm=False), options={"weights": "int4", "threads": 1})
    own.save(tmp_path / "m.om")
    assert np.array_equal(gw.load(tmp_path / "m.om")(x)[0], own(x)[0])
    assert (tmp_path / "m.om").stat().st_size < w.nbytes

"""The option ``precision``: products in bf16, against NumPy with operands rounded by ml_dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright as gw
from graphwright import _native
from graphwright.ops.core.matmul import MatMul

from .test_quantize_weights import model_of
from .test_weight_only_quantization import compiled

BF16 = ml_dtypes.bfloat16
in_bf16 = pytest.mark.skipif(not _native.has_bf16(), reason="products stay f32 without AVX512-BF16")


@in_bf16
@settings(max_examples=8, deadline=None)
@given(
    st.sampled_from([0, 1, 2, 37, 300]),
    st.sampled_from([1, 5, 48, 50]),
    st.sampled_from([0, 1, 7, 20]),
    st.booleans(),
)
def test_products_are_those_of_rounded_operands(k: int, n: int, rows: int, gemm: bool) -> None:
    rng = np.random.default_rng(k * 1009 + n)
    w = rng.standard_normal((n, k) if gemm else (k, n)).astype(np.float32)
    x = rng.standard_normal((rows, k)).astype(np.float32)
    (y,) = gw.compile(model_of(w, gemm=gemm), options={"precision": "bf16", "threads": 1})(x)
    expected = x.astype(BF16).astype(np.float64) @ (w.T if gemm else w).astype(BF16).astype(np.float64)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5 * max(1, k) ** 0.5)


@in_bf16
def test_the_weights_of_the_package_take_half_the_memory(tmp_path: Any) -> None:
    w = np.random.default_rng(1).standard_normal((256, 192)).astype(np.float32)
    own, count = compiled(model_of(w, gemm=False), MatMul, precision="bf16")
    own.save(tmp_path / "m.om")
    assert count == 1
    assert w.nbytes / 2 < (tmp_path / "m.om").stat().st_size < w.nbytes
    x = np.ones((3, 256), np.float32)
    assert np.array_equal(gw.load(tmp_path / "m.om")(x)[0], own(x)[0])


@in_bf16
@pytest.mark.parametrize("is_fast", [False, True])
def test_convolutions_use_bf16_only_if_it_is_fast(is_fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native, "has_fast_bf16", lambda: is_fast)
    rng = np.random.default_rng(2)
    w, x = rng.standard_normal((32, 16, 1, 1)), rng.standard_normal((1, 16, 5, 7))
    b = gw.GraphBuilder()
    image = b.input("x", "f32", (1, 16, 5, 7))
    b.output("y", b.conv(image, w.astype(np.float32)))
    (y,) = b.compile(options={"precision": "bf16", "threads": 1})(x.astype(np.float32))
    kept = BF16 if is_fast else np.float32
    weights, pixels = (array.astype(kept).astype(np.float64) for array in (w[..., 0, 0], x))
    expected = np.einsum("oi,nihw->nohw", weights, pixels)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-4)


def test_an_unknown_value_names_the_legal_ones() -> None:
    with pytest.raises(gw.OptionError, match="must be one of default, bf16"):
        gw.CompileOptions(precision="fp8")

"""The vector functions against NumPy in double precision: the stated error, and the special values."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from graphwright.kernels.library.isa import Isa
from graphwright.kernels.toolchain import compile_shared
from graphwright.kernels.vmath import MAX_ULP, vmath
from tests.kernels.generated import load, toolchain
from tests.kernels.library.harness import RUNNABLE

Array = np.ndarray[Any, Any]


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


EXACT: dict[str, Callable[[Array], Array]] = {
    "sigmoid": _sigmoid,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    **{name: getattr(np, name) for name in ("exp", "expm1", "log", "log1p", "tanh", "sin", "cos")},
}
LANES = [(isa, lanes) for isa in RUNNABLE for lanes in (isa.lanes, isa.lanes // 2)]


@cache
def library(isa: Isa, lanes: int) -> ctypes.CDLL:
    text = vmath(isa, MAX_ULP, lanes)
    for name in MAX_ULP:
        text += f"""
GW_EXPORT void run_{name}(const float *x, float *y, int64_t n) {{
    for (int64_t i = 0; i < n; i += {lanes})
        *(f32x{lanes}_any *)(y + i) = {name}_f32x{lanes}(*(const f32x{lanes}_any *)(x + i));
}}
"""
    return load(compile_shared(text, isa, toolchain()))


def run(name: str, isa: Isa, lanes: int, x: Array) -> Array:
    padded = np.concatenate([x, np.ones(-len(x) % lanes, np.float32)])
    y = np.empty_like(padded)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (padded, y)]
    library(isa, lanes)[f"run_{name}"](*pointers, ctypes.c_int64(len(padded)))
    return y[: len(x)]


@cache
def inputs() -> Array:
    """Random bit patterns of every exponent, and dense samples where the functions change."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 200_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    dense = [rng.uniform(-a, a, 60_000) for a in (0.6, 1, 5, 20, 110)]
    small = np.exp(rng.uniform(-20, 2, 60_000)) * rng.choice((-1, 1), 60_000)
    return np.concatenate([bits, *(d.astype(np.float32) for d in (*dense, small))])


@pytest.mark.parametrize("name", MAX_ULP)
@pytest.mark.parametrize(("isa", "lanes"), LANES, ids=lambda v: getattr(v, "name", str(v)))
def test_error_stays_within_the_stated_bound(name: str, isa: Isa, lanes: int) -> None:
    x = inputs()
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype(np.float64))
        rounded = exact.astype(np.float32)
        got = run(name, isa, lanes, x)
        error = np.abs(got.astype(np.float64) - exact) / np.spacing(np.abs(rounded)).astype(np.float64)
    finite = np.isfinite(rounded) & np.isfinite(x)
    worst = int(np.argmax(np.where(finite, error, 0)))
    assert error[worst] <= MAX_ULP[name], (x[worst], got[worst], exact[worst])
    np.testing.assert_array_equal(np.isnan(got), np.isnan(rounded))
    np.testing.assert_array_equal(got[np.isinf(rounded)], rounded[np.isinf(rounded)])


@pytest.mark.parametrize("name", MAX_ULP)
@pytest.mark.parametrize(("isa", "lanes"), LANES, ids=lambda v: getattr(v, "name", str(v)))
def test_special_values_follow_numpy(name: str, isa: Isa, lanes: int) -> None:
    tiny = np.float32(1e-45)
    largest = np.finfo(np.float32).max
    x = np.array(
        [
            np.nan,
            np.inf,
            -np.inf,
            0.0,
            -0.0,
            tiny,
            -tiny,
            1e-39,
            -1e-39,
            1,
            -1,
            largest,
            -largest,
            88.8,
            -104.5,
        ],
        np.float32,
    )
    with np.errstate(all="ignore"):
        expected = EXACT[name](x.astype(np.float64)).astype(np.float32)
    got = run(name, isa, lanes, x)
    np.testing.assert_allclose(got, expected, rtol=3e-7, atol=0)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(expected)[known])

"""The vector functions against NumPy in double precision: the stated error, and the special values."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from graphwright.ir.types import F64
from graphwright.targets.cpu.c.prelude import Prelude
from graphwright.targets.cpu.isa import Isa
from graphwright.targets.cpu.toolchain import compile_shared
from graphwright.targets.cpu.vmath import MAX_ULP, MAX_ULP_F64, vmath
from tests.kernels.library.harness import RUNNABLE
from tests.targets.cpu.generated import load, toolchain

Array = np.ndarray[Any, Any]


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


EXACT: dict[str, Callable[[Array], Array]] = {
    "sigmoid": _sigmoid,
    "exp_nonpositive": np.exp,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    **{name: getattr(np, name) for name in ("exp", "expm1", "log", "log1p", "tanh", "sin", "cos", "tan")},
    **{name: getattr(np, name) for name in ("sinh", "cosh")},
    **{name: getattr(np, "arc" + name[1:]) for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
}
UNARY = [name for name in MAX_ULP if name != "pow"]
LANES = [(isa, lanes) for isa in RUNNABLE for lanes in (isa.lanes, isa.lanes // 2)]


@cache
def library(isa: Isa, lanes: int) -> ctypes.CDLL:
    text = vmath(isa, MAX_ULP, lanes)
    text += f"""
GW_EXPORT void run_pow(const float *x, const float *y, float *z, int64_t n) {{
    for (int64_t i = 0; i < n; i += {lanes})
        *(f32x{lanes}_any *)(z + i) =
            pow_f32x{lanes}(*(const f32x{lanes}_any *)(x + i), *(const f32x{lanes}_any *)(y + i));
}}
"""
    for name in UNARY:
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


def domain(name: str, x: Array) -> Array:
    """``x``, restricted to the domain of ``name``: signs are changed for a function of nonpositive
    numbers.
    """
    return -np.abs(x) if name == "exp_nonpositive" else x


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize(("isa", "lanes"), LANES, ids=lambda v: getattr(v, "name", str(v)))
def test_error_stays_within_the_stated_bound(name: str, isa: Isa, lanes: int) -> None:
    x = domain(name, inputs())
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


@pytest.mark.parametrize("name", UNARY)
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
    x = domain(name, x)
    with np.errstate(all="ignore"):
        expected = EXACT[name](x.astype(np.float64)).astype(np.float32)
    got = run(name, isa, lanes, x)
    np.testing.assert_allclose(got, expected, rtol=3e-7, atol=0)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(expected)[known])


def power(isa: Isa, lanes: int, x: Array, y: Array) -> Array:
    padding = np.ones(-len(x) % lanes, np.float32)
    operands = [np.concatenate([a, padding]) for a in (x, y)]
    z = np.empty_like(operands[0])
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*operands, z)]
    library(isa, lanes).run_pow(*pointers, ctypes.c_int64(len(z)))
    return z[: len(x)]


def powers() -> list[tuple[Array, Array]]:
    """Any bits; results over the whole range; bases near 1; negative bases; results that are subnormal."""
    rng = np.random.default_rng(0)
    n = 60_000
    bits = rng.integers(0, 2**32, (2, n), dtype=np.uint64).astype(np.uint32).view(np.float32)
    wide = np.exp(rng.uniform(-80, 80, n)), rng.uniform(-4, 4, n)
    near = 1 + rng.uniform(-1e-3, 1e-3, n), rng.uniform(-60_000, 60_000, n)
    negative = -rng.uniform(0, 10, n), rng.integers(-30, 30, n)
    small = np.exp(rng.uniform(-10, 0, n)), rng.uniform(8, 40, n)
    pairs = (bits, wide, near, negative, small)
    return [(x.astype(np.float32), y.astype(np.float32)) for x, y in pairs]


@pytest.mark.parametrize(("isa", "lanes"), LANES, ids=lambda v: getattr(v, "name", str(v)))
def test_power_stays_within_the_stated_bound(isa: Isa, lanes: int) -> None:
    for x, y in powers():
        with np.errstate(all="ignore"):
            exact = np.power(x.astype(np.float64), y.astype(np.float64))
            rounded = exact.astype(np.float32)
            got = power(isa, lanes, x, y)
            error = np.abs(got.astype(np.float64) - exact) / np.spacing(np.abs(rounded)).astype(np.float64)
        finite = np.isfinite(rounded)
        assert np.max(error[finite]) <= MAX_ULP["pow"]
        np.testing.assert_array_equal(np.isnan(got), np.isnan(rounded))
        np.testing.assert_array_equal(got[np.isinf(rounded)], rounded[np.isinf(rounded)])


@pytest.mark.parametrize(("isa", "lanes"), LANES, ids=lambda v: getattr(v, "name", str(v)))
def test_special_powers_follow_numpy(isa: Isa, lanes: int) -> None:
    infinity, nan, odd, even = np.inf, np.nan, 2.0**24 - 1, 2.0**24 + 2
    values = [0.0, 1.0, infinity, 0.5, 2.0, 3.0, 7.0, 1e-45, 1e-39, 3e38, odd, even, 2.5, 1 / 3]
    special = np.array([nan, *values, *(-v for v in values)], np.float32)
    x, y = (np.ascontiguousarray(a.ravel()) for a in np.meshgrid(special, special))
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)
    got = power(isa, lanes, x, y)
    np.testing.assert_array_max_ulp(got, expected, 1)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(got), ~known)
    np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(expected)[known])


@cache
def double_library(isa: Isa) -> ctypes.CDLL:
    prelude, lanes = Prelude(isa), isa.lanes // 2
    runs = []
    for name in MAX_ULP_F64:
        function = prelude.function(name, F64, lanes)
        runs.append(f"""
GW_EXPORT void run_{name}(const double *x, double *y, int64_t n) {{
    for (int64_t i = 0; i < n; i += {lanes})
        *(f64x{lanes}_any *)(y + i) = {function}(*(const f64x{lanes}_any *)(x + i));
}}
""")
    return load(compile_shared(prelude.text() + "".join(runs), isa, toolchain()))


def run_double(name: str, isa: Isa, x: Array) -> Array:
    padded = np.concatenate([x, np.ones(-len(x) % 8)])
    y = np.empty_like(padded)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (padded, y)]
    double_library(isa)[f"run_{name}"](*pointers, ctypes.c_int64(len(padded)))
    return y[: len(x)]


def double_inputs() -> Array:
    """Random bit patterns of every exponent, dense samples, and what is special."""
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2**64, 100_000, dtype=np.uint64).view(np.float64)
    dense = [rng.uniform(-a, a, 50_000) for a in (1, 40, 720)]
    near_one = 1 + rng.uniform(-0.4, 0.5, 50_000)
    edges = [709.78, 709.79, -745.1, -745.2, -708.5, np.inf, -np.inf, np.nan, 0.0, -0.0, 5e-324, 1e-310, 1.0]
    return np.concatenate([bits, *dense, near_one, np.array(edges)])


@pytest.mark.parametrize("name", MAX_ULP_F64)
@pytest.mark.parametrize("isa", RUNNABLE, ids=lambda isa: isa.name)
def test_doubles_stay_within_the_stated_bound(name: str, isa: Isa) -> None:
    x = double_inputs()
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype(np.longdouble))
        rounded = exact.astype(np.float64)
        got = run_double(name, isa, x)
        error = np.abs(got.astype(np.longdouble) - exact) / np.spacing(np.abs(rounded))
    finite = np.isfinite(rounded)
    worst = int(np.argmax(np.where(finite, error, 0)))
    assert error[worst] <= MAX_ULP_F64[name], (x[worst], got[worst], exact[worst])
    np.testing.assert_array_equal(got[~finite], rounded[~finite])

"""Vector division and remainders against NumPy: random bits, small numbers, what overflows, and zero."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import pytest

from graphwright.ir.types import F32, I8, I16, I32, I64, U8, U16, U32, DType
from graphwright.targets.cpu.c.dtypes import C_TYPES
from graphwright.targets.cpu.c.prelude import Prelude
from graphwright.targets.cpu.isa import Isa
from graphwright.targets.cpu.toolchain import compile_shared
from tests.kernels.library.harness import RUNNABLE
from tests.targets.cpu.generated import load, toolchain

Array = np.ndarray[Any, Any]
INTEGERS = (I8, U8, I16, U16, I32, U32, I64)
CASES = [*((function, dtype) for dtype in INTEGERS for function in ("div", "rem", "mod")), ("rem", F32)]
each_case = pytest.mark.parametrize("function, dtype", CASES, ids=[f"{f}_{d}" for f, d in CASES])
each_isa = pytest.mark.parametrize("isa", RUNNABLE, ids=lambda isa: isa.name)


def _lanes(isa: Isa, dtype: DType) -> int:
    return isa.vector_bytes // max(dtype.bytes, 4)


@cache
def library(isa: Isa) -> ctypes.CDLL:
    prelude, runs = Prelude(isa), []
    for function, dtype in CASES:
        lanes, element = _lanes(isa, dtype), C_TYPES[dtype.name]
        name, vector = prelude.function(function, dtype, lanes), prelude.vector(dtype, lanes)
        runs.append(f"""
GW_EXPORT void run_{function}_{dtype}(const {element} *a, const {element} *b, {element} *y, int64_t n) {{
    for (int64_t i = 0; i < n; i += {lanes})
        *({vector}_any *)(y + i) = {name}(*(const {vector}_any *)(a + i), *(const {vector}_any *)(b + i));
}}
""")
    return load(compile_shared(prelude.text() + "".join(runs), isa, toolchain()))


def run(isa: Isa, function: str, dtype: DType, a: Array, b: Array) -> Array:
    padding = np.ones(-len(a) % _lanes(isa, dtype), dtype.numpy)
    operands = [np.concatenate([x, padding]) for x in (a, b)]
    y = np.empty_like(operands[0])
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (*operands, y)]
    library(isa)[f"run_{function}_{dtype}"](*pointers, ctypes.c_int64(len(y)))
    return y[: len(a)]


def pairs(dtype: DType) -> tuple[Array, Array]:
    rng, n = np.random.default_rng(0), 20_000
    kind = np.dtype(dtype.numpy)
    if dtype == F32:
        bits = rng.integers(0, 2**32, (2, n), dtype=np.uint64).astype(np.uint32).view(np.float32)
        near = rng.standard_normal((2, n)).astype(np.float32)
        whole = rng.integers(-1000, 1000, (2, n)).astype(np.float32) * np.float32(0.1)
        edges = np.array([0, -0.0, 1, -1, 3, np.inf, -np.inf, np.nan, 1e-45, 3e38, 0.1, 0.7], np.float32)
        parts = (bits, near, whole)
    else:
        info = np.iinfo(kind)
        bits = rng.integers(info.min, info.max, (2, n), dtype=kind, endpoint=True)
        small = rng.integers(max(info.min, -50), 50, (2, n)).astype(kind)
        mixed = np.stack([bits[0], small[1]])
        edges = np.array([0, 1, 2, 3, 7, info.min, info.min + 1, info.max, info.max - 1], kind)
        edges = np.concatenate([edges, *([np.array([-1, -2, -7], kind)] if dtype.kind == "int" else [])])
        wide = [2**51 - 1, 2**51, 2**51 + 1, 2**52, 2**53 + 1]
        edges = np.concatenate([edges, np.array(wide, kind)]) if dtype == I64 else edges
        parts = (bits, small, mixed)
    grid = [x.ravel() for x in np.meshgrid(edges, edges)]
    return tuple(np.concatenate([*(p[k] for p in parts), grid[k]]) for k in range(2))


def expected(function: str, a: Array, b: Array) -> Array:
    """Python's integers, which do not overflow, cut to the width."""
    if a.dtype.kind == "f":
        with np.errstate(all="ignore"):
            return np.fmod(a, b)
    bits, made = 8 * a.itemsize, []
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        quotient = 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        rest = 0 if y == 0 else x - quotient * y
        rest += y if function == "mod" and rest and (rest < 0) != (y < 0) else 0
        made.append((quotient if function == "div" else rest) % (1 << bits))
    return np.array(made, f"u{a.itemsize}").view(a.dtype)


@each_isa
@each_case
def test_follows_numpy(isa: Isa, function: str, dtype: DType) -> None:
    a, b = pairs(dtype)
    got, wanted = run(isa, function, dtype, a, b), expected(function, a, b)
    np.testing.assert_array_equal(got, wanted)
    if dtype == F32:
        known = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(wanted)[known])

"""Max pooling of bytes against windows cut by NumPy, one output at a time."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.kernels.pool import byte_pool, pool
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import AnyArray, chunkings, each_isa, guard
from tests.kernels.library.harness import call, load
from tests.kernels.library.pooling import PROBLEMS

SYMBOLS = {np.uint8: byte_pool.UNSIGNED, np.int8: byte_pool.SIGNED}


def expected(x: AnyArray, case: dict[str, Any]) -> AnyArray:
    """The maximum of each window; the least value of the type if no element is inside."""
    y = np.full((*x.shape[:2], *case["out"]), np.iinfo(x.dtype).min, x.dtype)
    for position in product(*(range(n) for n in case["out"])):
        for tap in product(*(range(k) for k in case["kernel"])):
            at = [
                p * s - b + t * d
                for p, s, b, t, d in zip(
                    position, case["strides"], case["before"], tap, case["dilations"], strict=True
                )
            ]
            if all(0 <= a < n for a, n in zip(at, x.shape[2:], strict=True)):
                index = (..., *position)
                y[index] = np.maximum(y[index], x[(slice(None), slice(None), *at)])
    return y


def run(isa: Isa, x: AnyArray, case: dict[str, Any]) -> list[AnyArray]:
    """The results under every chunking."""
    y = guard(np.zeros((*x.shape[:2], *case["out"]), x.dtype))
    spec = pool.Pool(
        *(SYMBOLS[x.dtype.type], x.shape[0], x.shape[1], x.shape[2:], tuple(case["out"])),
        *(tuple(case[name]) for name in ("kernel", "strides", "before", "after", "dilations")),
        *(x.strides[:4], y.strides[:4]),
    )
    results, kernel = [], load(byte_pool, isa)[spec.symbol]
    for chunks in chunkings(int(spec.grid)):
        y[...] = 77
        assert call(kernel, [x, y], spec.args, spec.grid, spec.scratch_bytes(isa), chunks=chunks) == 0
        results.append(y.copy())
    return results


@each_isa
@pytest.mark.parametrize("dtype", list(SYMBOLS))
@settings(max_examples=60, deadline=None)
@given(problem=PROBLEMS, seed=st.integers(0, 99), at_end=st.booleans())
def test_each_window_has_its_maximum(
    isa: Isa, dtype: type, problem: tuple[tuple[int, ...], dict[str, Any]], seed: int, at_end: bool
) -> None:
    shape, case = problem
    limits = np.iinfo(dtype)
    x = np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(dtype)
    for result in run(isa, guard(x, at_end=at_end), case):
        np.testing.assert_array_equal(result, expected(x, case))

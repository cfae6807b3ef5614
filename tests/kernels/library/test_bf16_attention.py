"""Attention in bf16 against NumPy in f64: exponentials are rounded, each is off by at most 2**-9."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphwright.kernels.attention import attention
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.attention_calls import ORDERS, attend
from tests.kernels.library.cases import each_isa, guard
from tests.kernels.library.harness import call, load

IN_BF16: Any = {"symbol": attention.BF16_SYMBOL, "own": (1, 1)}


def rounded(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape).astype(ml_dtypes.bfloat16).astype(np.float32)


def check(isa: Isa, sizes: Any, operands: Any = None, **more: Any) -> None:
    """``scale`` is a power of two, so that scaled queries need no rounding."""
    batch, heads, kv_heads, queries, keys, depth, width = sizes
    rng = np.random.default_rng(keys * 1009 + depth)
    shapes = ((batch, heads, queries, depth), (batch, kv_heads, keys, depth), (batch, kv_heads, keys, width))
    operands = operands or tuple(rounded(rng, *shape) for shape in shapes)
    found, wanted = attend(
        isa, sizes, operands=operands, scale=0.25, symbol=attention.BF16_SYMBOL, own=(1, 1), **more
    )
    largest = np.abs(operands[2]).max(initial=1.0)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2**-8 * largest)


@each_isa
@given(
    batch=st.integers(0, 2),
    heads=st.sampled_from([(1, 1), (3, 3), (4, 2), (6, 1)]),
    queries=st.sampled_from([0, 1, 2, 13, 50]),
    keys=st.sampled_from([0, 1, 7, 33, 300]),
    depth=st.sampled_from([0, 1, 15, 64, 70]),
    width=st.sampled_from([0, 1, 16, 37]),
    order=st.sampled_from(sorted(ORDERS)),
    side=st.sampled_from(["start", "end"]),
    causal=st.booleans(),
)
@example(1, (1, 1), 13, 33, 550, 300, "heads inside", "end", False)
@settings(deadline=None, max_examples=40)
def test_any_sizes_match_float64(
    isa: Isa, batch: int, heads: tuple[int, int], queries: int, keys: int, depth: int, width: int, order: str,
    side: str, causal: bool,
) -> None:  # fmt: skip
    sizes, offset = (batch, *heads, queries, keys, depth, width), max(keys - queries, 0)
    check(isa, sizes, order=order, side=side, causal=causal, offset=offset)


@each_isa
@pytest.mark.parametrize("softcap", [0.0, 2.5])
def test_masked_scores_match_float64(isa: Isa, softcap: float) -> None:
    mask = np.random.default_rng(1).standard_normal((2, 1, 33, 70)).astype(np.float32)
    mask[mask > 1] = -np.inf
    check(isa, (2, 4, 2, 33, 70, 20, 24), mask=mask, softcap=softcap)


@each_isa
def test_each_product_takes_its_own_operands(isa: Isa) -> None:
    """Scores are so far apart that each query selects one value."""
    n = 48
    q = np.zeros((1, 1, n, n), np.float32)
    q[0, 0, np.arange(n), np.roll(np.arange(n), 5)] = 1024
    k = np.eye(n, dtype=np.float32)[None, None]
    v = rounded(np.random.default_rng(2), 1, 1, n, 21)
    found, _ = attend(
        isa, (1, 1, 1, n, n, n, 21), operands=(q, k, v), symbol=attention.BF16_SYMBOL, own=(1, 1)
    )
    np.testing.assert_array_equal(found[0, 0], v[0, 0, np.roll(np.arange(n), 5)])


@each_isa
@pytest.mark.parametrize(("keys", "depth", "width"), [(33, 64, 64), (300, 15, 37), (1, 1, 1)])
def test_keys_and_values_of_bf16(isa: Isa, keys: int, depth: int, width: int) -> None:
    """The result has the same bits as with f32 operands of the same values."""
    rng, heads, queries = np.random.default_rng(keys), 3, 13
    q = rounded(rng, 1, heads, queries, depth)
    k, v = rounded(rng, 1, heads, keys, depth), rounded(rng, 1, heads, keys, width)
    results = []
    for single in (1, 0):
        y = np.zeros((1, heads, queries, width), np.float32)
        strides = [(x[0].size, x[0, 0].size, x.shape[3], 1) for x in (q, k, v, y)]
        made = attention.Attention(1, heads, heads, queries, keys, depth, width, *strides, scale=0.25)
        kept = [x if single else x.astype(ml_dtypes.bfloat16) for x in (k, v)]
        operands = [q, *map(guard, kept), None, y]
        kernel = load(attention, isa)[attention.BF16_SYMBOL]
        args = (*made.args, single, single)
        assert call(kernel, operands, args, made.grid(isa), made.scratch_bytes(isa)) == 0
        results.append(y)
    np.testing.assert_array_equal(*results)

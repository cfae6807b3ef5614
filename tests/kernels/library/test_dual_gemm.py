"""Dual GEMM against float64 NumPy: sizes, chunks, bits of single products, guard pages, NaN, Inf; in bf16."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphwright.ir.symbols import evaluate, symbol
from graphwright.kernels.gemm import bf16_gemm, dual_gemm, gemm, problem
from graphwright.targets.cpu.isa import ISAS, Isa
from tests.kernels.library.cases import AnyArray, chunkings, each_isa, guard
from tests.kernels.library.harness import call, guarded, hook, load
from tests.kernels.library.packing import gemm_panels
from tests.kernels.library.product import Product
from tests.kernels.library.test_bf16_gemm import BF16, in_panels

SIZES = st.one_of(st.integers(0, 20), st.sampled_from([31, 32, 33, 47, 48, 64, 97, 193]))
DEPTHS = st.one_of(st.integers(0, 20), st.sampled_from([31, 64, 768, 769, 1031, 2100]))
Chunks = list[tuple[int, int]]


class Products:
    """``a @ b`` and ``a @ second``, with operands next to unreadable pages; in bf16 if ``b`` is."""

    def __init__(self, isa: Isa, a: Any, b: Any, second: Any) -> None:
        self.sizes = dual_gemm.DualArgs(a.shape[0], b.shape[1], a.shape[1])
        in_bf16 = b.dtype == BF16
        width = problem.panel_columns(isa)
        panels = (in_panels(each, isa) if in_bf16 else gemm_panels(each, width) for each in (b, second))
        self.operands = [guard(each) for each in (a, *panels)]
        self.args = (*self.sizes, int(a.dtype == np.float32)) if in_bf16 else self.sizes
        kernels = bf16_gemm if in_bf16 else gemm
        self.kernel, self.grid = load(kernels, isa)[kernels.DUAL], dual_gemm.grid(isa, self.sizes)
        scratch_bytes = (bf16_gemm if in_bf16 else problem).scratch_bytes
        self.scratch = scratch_bytes(isa, dual_gemm.panels(isa, self.sizes), packed=True)

    def error(self, name: str, results: list[AnyArray], chunks: Chunks | None = None) -> int:
        """The code that the kernel returns with the hook ``name``."""
        return call(
            self.kernel, self.operands, self.args, self.grid, self.scratch,
            chunks=chunks, hook=hook(name), hook_operands=results, hook_args=[self.sizes.m, self.sizes.n],
        )  # fmt: skip

    def run(self, chunks: Chunks | None = None) -> list[AnyArray]:
        """Returns both products, after checking that each element was stored once."""
        m, n = self.sizes.m, self.sizes.n
        *made, count = (
            guarded(m * n, side, fill) for side, fill in [("end", np.nan), ("start", np.nan), ("end", 0)]
        )
        assert self.error("part", [*made, count], chunks) == 0
        assert np.all(count == 1)
        return [each.reshape(m, n).copy() for each in made]


def normal(rng: np.random.Generator, *shape: int) -> AnyArray:
    return rng.standard_normal(shape).astype(np.float32)


def factors(m: int, n: int, k: int) -> tuple[AnyArray, AnyArray, AnyArray]:
    rng = np.random.default_rng(m * 1000003 + n * 1009 + k)
    return normal(rng, m, k), normal(rng, k, n), normal(rng, k, n)


@each_isa
@settings(max_examples=50, deadline=None)
@given(m=SIZES, n=SIZES, k=DEPTHS, way=st.integers(0, 2))
@example(1, 1000, 769, 0)
@example(300, 70, 1600, 2)
@example(0, 5, 3, 0)
@example(5, 7, 0, 1)
def test_matches_float64(isa: Isa, m: int, n: int, k: int, way: int) -> None:
    a, b, second = factors(m, n, k)
    products = Products(isa, a, b, second)
    found = products.run(chunkings(products.grid)[way])
    for result, weights in zip(found, (b, second), strict=True):
        wanted = a.astype(np.float64) @ weights.astype(np.float64)
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=8e-6 * (k + 4) ** 0.5)


@each_isa
@pytest.mark.parametrize(
    "m, n, k", [(1, 300, 900), (7, 100, 3000), (16, 33, 50), (40, 70, 20), (333, 65, 1000)]
)
def test_any_chunks_give_the_bits_of_single_products(isa: Isa, m: int, n: int, k: int) -> None:
    a, b, second = factors(m, n, k)
    products = Products(isa, a, b, second)
    single = [Product(isa, a[None, None], each[None, None], packed=True).run() for each in (b, second)]
    for chunks in chunkings(products.grid):
        for result, alone in zip(products.run(chunks), single, strict=True):
            np.testing.assert_array_equal(result, alone[0, 0])


@each_isa
@settings(max_examples=30, deadline=None)
@given(m=SIZES, n=SIZES, k=DEPTHS, single=st.booleans())
@example(200, 70, 1601, False)
@example(16, 97, 1601, True)
def test_bf16_matches_float64(isa: Isa, m: int, n: int, k: int, single: bool) -> None:
    a, b, second = factors(m, n, k)
    b, second = b.astype(BF16), second.astype(BF16)
    found = Products(isa, a if single else a.astype(BF16), b, second).run()
    for result, weights in zip(found, (b, second), strict=True):
        wanted = a.astype(BF16).astype(np.float64) @ weights.astype(np.float64)
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=8e-6 * (k + 4) ** 0.5)


@each_isa
def test_error_of_the_hook_is_returned(isa: Isa) -> None:
    products = Products(isa, *factors(3, 3, 3))
    assert products.error("fail", []) == 7


@each_isa
def test_nan_and_inf_follow_numpy(isa: Isa) -> None:
    a, b, second = factors(15, 37, 70)
    a[3, 5], a[7, 6], b[20, 11], second[6, 9] = np.nan, np.inf, -np.inf, 0
    for result, weights in zip(Products(isa, a, b, second).run(), (b, second), strict=True):
        with np.errstate(invalid="ignore"):
            wanted = a.astype(np.float64) @ weights.astype(np.float64)
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-4)


def test_sizes_may_be_symbols() -> None:
    dynamic_sizes, known = dual_gemm.DualArgs(symbol("M"), 70, 900), dual_gemm.DualArgs(100, 70, 900)
    for isa in ISAS.values():
        assert evaluate(dual_gemm.grid(isa, dynamic_sizes), {"M": 100}) == dual_gemm.grid(isa, known)
        for of in (dual_gemm.panels, lambda _, args: dual_gemm.product(args)):
            dynamic, static = of(isa, dynamic_sizes), of(isa, known)
            assert [evaluate(each, {"M": 100}) for each in dynamic] == list(static)

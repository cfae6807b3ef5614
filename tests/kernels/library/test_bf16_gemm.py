"""Products of bf16 against float64 of rounded operands: sizes, strides, both dtypes, with and without the
instruction.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphwright.kernels.gemm import bf16_gemm, problem
from graphwright.kernels.library.bits import single_bits
from graphwright.layout.transform import packed_shape
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import chunkings, each_isa, guard
from tests.kernels.library.harness import Array, call, call_hooked, load

BF16 = np.dtype(ml_dtypes.bfloat16)
SIZES = st.one_of(st.integers(0, 20), st.sampled_from([31, 47, 48, 49, 97, 131]))
DEPTHS = st.one_of(st.integers(0, 20), st.sampled_from([63, 64, 65, 127, 512, 1537, 1600]))


def in_panels(b: Any, isa: Isa) -> Any:
    """Panels of pairs of ``b[K, N]``."""
    (k, n), width = b.shape, problem.panel_columns(isa)
    padded = np.zeros((-(-k // 2) * 2, -(-n // width) * width), BF16)
    padded[:k, :n] = b
    made = padded.reshape(-(-k // 2), 2, -(-n // width), width).transpose(2, 0, 3, 1)
    assert made.shape == packed_shape((k, n), bf16_gemm.panels(2, isa))
    return np.ascontiguousarray(made)


def rows_apart(x: Any, gap: int) -> tuple[Any, int]:
    """``x`` with this many elements between its rows, at the end of a page."""
    wide = np.full((x.shape[0], x.shape[1] + gap), np.nan, x.dtype)
    wide[:, : x.shape[1]] = x
    return guard(wide.reshape(-1)[: max(0, wide.size - gap)]), wide.shape[1]


class Product:
    """``act(scale * a @ b + bias)``, ready to run; ``form``: packed, rows of b, or columns of b."""

    def __init__(
        self, isa: Isa, a: Any, b: Any, bias: Any = None, *, form: str = "packed", act: int = 0,
        scale: float = 1.0, gap: int = 0, transposed: bool = False,
    ) -> None:  # fmt: skip
        (m, k), n = a.shape, b.shape[1]
        self.packed, self.isa = form == "packed", isa
        own, a_m = rows_apart(a.T if transposed else a, gap)
        a_places = (1, a_m) if transposed else (a_m, 1)
        if self.packed:
            own_b, b_places = guard(in_panels(b, isa)), (0, 0)
        else:
            own_b, ld = rows_apart(b.T if form == "columns" else b, gap)
            b_places = (1, ld) if form == "columns" else (ld, 1)
        self.c = np.zeros((m, n), np.float32)
        singles = (int(a.dtype == np.float32), int(not self.packed and b.dtype == np.float32))
        self.gemm = problem.GemmArgs(
            1, 1, m, n, k, 0, 0, *a_places, 0, 0, *b_places, 0, int(bias is not None), 0, 0, n, 1,
            0, 0, 0, 0, act, single_bits(-0.5), single_bits(0.75), single_bits(scale),
        )  # fmt: skip
        self.args = (*self.gemm, *singles)
        self.operands = [own, own_b, bias, None, self.c]
        product = scale * (a.astype(BF16).astype(np.float64) @ b.astype(BF16).astype(np.float64))
        product = product if bias is None else product + bias
        self.expected = (product, np.maximum(product, 0), np.clip(product, -0.5, 0.75))[act]

    def run(self, name: str = "", chunks: Any = None) -> Array:
        self.c[...] = np.nan
        grid = problem.grid(self.isa, self.gemm)
        scratch = bf16_gemm.scratch_bytes(self.isa, self.gemm, packed=self.packed)
        kernel = load(bf16_gemm, self.isa)[name or (bf16_gemm.PACKED if self.packed else bf16_gemm.UNPACKED)]
        assert call(kernel, self.operands, self.args, grid, scratch, chunks=chunks) == 0
        return self.c.copy()

    def check(self, tolerance: float = 1e-5) -> None:
        for name in (bf16_gemm.PACKED, bf16_gemm.VECTORS, bf16_gemm.WIDE) if self.packed else ("",):
            near(self.run(name), self.expected, tolerance)


def near(actual: Any, expected: Any, tolerance: float) -> None:
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=2 * tolerance)


def normal(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def scaled(b: Any) -> Any:
    """Numbers scaled so that sums are of the order of 1."""
    return b / np.float32(max(1, b.shape[0]) ** 0.5)


@each_isa
@settings(max_examples=50, deadline=None)
@given(
    m=SIZES, n=SIZES, k=DEPTHS, form=st.sampled_from(["packed", "rows", "columns"]), act=st.integers(0, 2),
    singles=st.tuples(st.booleans(), st.booleans()), biased=st.booleans(), gap=st.integers(0, 3),
    transposed=st.booleans(),
)  # fmt: skip
@example(200, 70, 1600, "packed", 1, (False, False), True, 0, False)
@example(9, 193, 1537, "packed", 0, (True, False), True, 1, False)
@example(16, 97, 70, "packed", 2, (False, False), False, 2, False)
@example(200, 97, 1600, "rows", 0, (True, True), True, 0, False)
@example(200, 97, 65, "columns", 0, (False, True), True, 1, True)
def test_matches_float64(
    isa: Isa, m: int, n: int, k: int, form: str, act: int, singles: tuple[bool, bool], biased: bool, gap: int,
    transposed: bool,
) -> None:  # fmt: skip
    rng = np.random.default_rng(m * 1000003 + n * 1009 + k)
    a, b = normal(rng, m, k), scaled(normal(rng, k, n))
    a, b = (x if single else x.astype(BF16) for x, single in zip((a, b), singles, strict=True))
    bias = normal(rng, n) if biased else None
    Product(isa, a, b, bias, form=form, act=act, gap=gap, transposed=transposed).check()


@each_isa
@pytest.mark.parametrize("single", [False, True])
def test_a_factor_is_multiplied_in_f32_before_it_is_rounded(isa: Isa, single: bool) -> None:
    rng = np.random.default_rng(3)
    a = normal(rng, 21, 33).astype(np.float32 if single else BF16)
    Product(isa, a, scaled(normal(rng, 33, 50)), scale=0.25).check()


@each_isa
@pytest.mark.parametrize(("m", "n", "k"), [(205, 300, 100), (1, 700, 64), (13, 97, 5), (16, 97, 3200)])
def test_any_chunking_gives_the_same_bits(isa: Isa, m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(2)
    product = Product(isa, normal(rng, m, k).astype(BF16), scaled(normal(rng, k, n)))
    whole = product.run()
    for chunks in chunkings(problem.grid(isa, product.gemm)):
        np.testing.assert_array_equal(product.run(chunks=chunks), whole)


@each_isa
@pytest.mark.parametrize("m", [3, 40])
def test_the_hook_receives_the_tiles(isa: Isa, m: int) -> None:
    rng = np.random.default_rng(4)
    product = Product(isa, normal(rng, m, 70), scaled(normal(rng, 70, 100)), normal(rng, 100))
    grid = problem.grid(isa, product.gemm)
    scratch = bf16_gemm.scratch_bytes(isa, product.gemm, packed=True)
    kernel, operands = load(bf16_gemm, isa)[bf16_gemm.PACKED], [*product.operands[:-1], None]
    made = call_hooked(kernel, operands, product.args, grid, scratch, (1, m, 100))
    near(made[0], 3 * product.expected + 1, 3e-5)


@each_isa
def test_infinities_and_nan_stay_in_their_cells(isa: Isa) -> None:
    rng = np.random.default_rng(6)
    a, b = normal(rng, 20, 31), scaled(normal(rng, 31, 60))
    a[3, 30], a[5, 0], b[2, 7] = np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        Product(isa, a, b).check()
        Product(isa, a.astype(BF16), b).check()


@each_isa
def test_rounding_is_to_the_nearest_with_halves_to_even(isa: Isa) -> None:
    """Each bf16 value times 1 is the bf16 value that ml_dtypes rounds to."""
    bits = np.arange(0x3F80_0000, 0x3F80_0000 + 997 * 4096, 997, dtype=np.uint32)
    values = np.concatenate([bits.view(np.float32), -bits.view(np.float32), [3.4e38, -3.4e38]])
    a = values.astype(np.float32)[:, None]
    product = Product(isa, a, np.ones((1, 1), np.float32))
    for name in (bf16_gemm.PACKED, bf16_gemm.VECTORS, bf16_gemm.WIDE):
        np.testing.assert_array_equal(product.run(name), a.astype(BF16).astype(np.float32))

"""GEMM against float64 NumPy: sizes, strides, packing, epilogues, hook, chunks, guard pages, NaN and Inf."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphwright.ir.symbols import evaluate, symbol
from graphwright.kernels.gemm import problem
from graphwright.records import replace
from graphwright.targets.cpu.isa import ISAS, Isa
from tests.kernels.library.cases import each_isa
from tests.kernels.library.harness import strided
from tests.kernels.library.packing import gemm_panels
from tests.kernels.library.product import CLIP, LAYOUTS, Product

SIZES = st.one_of(st.integers(0, 20), st.sampled_from([31, 32, 33, 47, 64, 97, 101, 193]))
DEPTHS = st.one_of(st.integers(0, 20), st.sampled_from([31, 64, 511, 512, 513, 1031]))
either_b = pytest.mark.parametrize("packed", [False, True], ids=["strided_b", "packed_b"])


def reference(
    a: Any, b: Any, bias: Any = None, act: int = 0, residual: Any = None, scale: float = 1.0
) -> Any:
    c = scale * (a.astype(np.float64) @ b.astype(np.float64))
    c = c if bias is None else c + bias
    c = c if residual is None else c + residual
    return (c, np.maximum(c, 0), np.clip(c, *CLIP))[act]


def normal(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def assert_near(actual: Any, expected: Any, k: int) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=2e-6 * (k + 4) ** 0.5 * 4)


@each_isa
@either_b
@settings(max_examples=60, deadline=None)
@given(
    m=SIZES, n=SIZES, k=DEPTHS, batch=st.sampled_from([(1, 1), (1, 2), (3, 2)]),
    bias_kind=st.sampled_from(["none", "n", "m", "mn", "one"]), act=st.integers(0, 2),
    layout=st.sampled_from(list(LAYOUTS)), side=st.sampled_from(["start", "end"]), shared=st.booleans(),
)  # fmt: skip
@example(1, 1000, 513, (1, 1), "n", 0, "dense", "end", False)
@example(200, 70, 520, (1, 1), "n", 1, "dense", "end", False)
@example(0, 5, 3, (1, 1), "none", 0, "dense", "end", False)
@example(5, 7, 0, (1, 1), "m", 0, "dense", "end", False)
def test_matches_float64(
    isa: Isa, packed: bool, m: int, n: int, k: int, batch: Any, bias_kind: str, act: int, layout: str,
    side: str, shared: bool,
) -> None:  # fmt: skip
    rng = np.random.default_rng(m * 1000003 + n * 1009 + k)
    a = normal(rng, *batch, m, k)
    b = normal(rng, *((1, 1) if shared else batch), k, n)
    shape = {"none": None, "n": (1, n), "m": (m, 1), "mn": (m, n), "one": (1, 1)}[bias_kind]
    bias = None if shape is None else normal(rng, *shape)
    product = Product(isa, a, b, bias, packed=packed, act=act, layout=layout, side=side)
    assert_near(product.run(), reference(a, b, bias, act), k)


@each_isa
@either_b
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("m, n, k", [(1, 130, 40), (9, 100, 300), (50, 70, 800)])
def test_epilogue_in_the_store(isa: Isa, packed: bool, layout: str, m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(5)
    a, b, residual = normal(rng, 2, 3, m, k), normal(rng, 2, 3, k, n), normal(rng, 2, 3, m, n)
    for bias, act in ((None, 0), (normal(rng, 1, n), 2), (normal(rng, 1, n), 1)):
        product = Product(isa, a, b, bias, residual, packed=packed, act=act, scale=0.375, layout=layout)
        assert_near(product.run(), reference(a, b, bias, act, residual, 0.375), k)


@each_isa
@either_b
@pytest.mark.parametrize("stride", [1020, 1021, 1024, 1027, 1028, 1536, 2048, 4096])
def test_rows_that_meet_in_one_set_of_the_cache(isa: Isa, packed: bool, stride: int) -> None:
    rng = np.random.default_rng(stride)
    a, b = normal(rng, 1, 1, 23, 75), normal(rng, 1, 1, 75, 61)
    product = Product(isa, a, b, packed=packed)
    product.operands[0] = strided(a, range(4), stride - 75, "end")[0]
    product.args = replace(product.args, a_m=stride)
    assert_near(product.run(), reference(a, b), 75)


@each_isa
@settings(max_examples=40, deadline=None)
@given(m=st.integers(1, 17), n=st.integers(1, 300), k=st.sampled_from([1, 63, 128, 300, 770, 2049, 4100]))
def test_few_rows_times_packed_columns(isa: Isa, m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(m * 1009 + n)
    a, b, bias = normal(rng, 1, 1, m, k), normal(rng, 1, 1, k, n), normal(rng, 1, n)
    product = Product(isa, a, b, bias, packed=True)
    whole = product.run_in_any_chunks()
    assert_near(whole, reference(a, b, bias), k)


@each_isa
@settings(max_examples=60, deadline=None)
@given(
    cells=st.one_of(st.integers(1, 40), st.sampled_from([145, 1023, 1025, 2100])),
    k=st.sampled_from([1, 7, 8, 15, 16, 17, 31, 32, 33, 64, 67, 301]),
    column=st.booleans(), layout=st.sampled_from(["dense", "transposed", "columns", "heads"]),
    act=st.integers(0, 2), side=st.sampled_from(["start", "end"]), more=st.booleans(),
)  # fmt: skip
def test_a_row_or_a_column_times_a_matrix(
    isa: Isa, cells: int, k: int, column: bool, layout: str, act: int, side: str, more: bool
) -> None:
    rng = np.random.default_rng(cells * 1009 + k)
    m, n = (cells, 1) if column else (1, cells)
    a, b = normal(rng, 1, 2, m, k), normal(rng, 1, 2, k, n)
    bias, residual = (normal(rng, m, n), normal(rng, 1, 2, m, n)) if more else (None, None)
    scale = 0.375 if more else 1.0
    product = Product(isa, a, b, bias, residual, act=act, layout=layout, side=side, scale=scale)
    whole = product.run_in_any_chunks()
    assert_near(whole, reference(a, b, bias, act, residual, scale), k)
    assert_near(product.run_hooked(), 3 * reference(a, b, bias, act, residual, scale) + 1, 9 * k)


@each_isa
@either_b
@settings(max_examples=40, deadline=None)
@given(
    m=st.sampled_from([17, 20, 145, 300]), k=st.integers(1, 9), act=st.integers(0, 2), more=st.booleans(),
    n=st.one_of(st.integers(2, 20), st.sampled_from([47, 48, 49, 96, 200, 1100])),
    layout=st.sampled_from(list(LAYOUTS)), side=st.sampled_from(["start", "end"]),
)  # fmt: skip
def test_a_short_inner_axis(
    isa: Isa, packed: bool, m: int, n: int, k: int, act: int, more: bool, layout: str, side: str
) -> None:
    rng = np.random.default_rng(m * 1009 + n)
    a, b = normal(rng, 1, 2, m, k), normal(rng, 1, 1 if packed else 2, k, n)
    bias, residual = (normal(rng, 1, n), normal(rng, 1, 2, m, n)) if more else (None, None)
    scale = 0.375 if more else 1.0
    product = Product(
        isa, a, b, bias, residual, packed=packed, act=act, layout=layout, side=side, scale=scale
    )
    whole = product.run_in_any_chunks()
    assert_near(whole, reference(a, b, bias, act, residual, scale), k)
    assert_near(product.run_hooked(), 3 * reference(a, b, bias, act, residual, scale) + 1, 9 * k)


GRIDS = [
    (205, 300, 1100), (1, 700, 64), (97, 1030, 5), (13, 1700, 900), (101, 40, 70), (293, 1, 64),
    (311, 90, 900),
]  # fmt: skip


@each_isa
@either_b
@pytest.mark.parametrize("m, n, k", GRIDS)
def test_any_chunking_gives_the_same_bits(isa: Isa, packed: bool, m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(1)
    product = Product(isa, normal(rng, 2, 1, m, k), normal(rng, 2, 1, k, n), normal(rng, 1, n), packed=packed)
    whole = product.run_in_any_chunks()
    assert not np.isnan(whole).any()


UNITS = [
    (1, 16, 80, 1),  # few rows read B once
    (1, 100, 80, 6),  # parts of two tiles of rows
    (1, 128, 512, 12),  # six pairs of panels
    (1, 1000, 80, 8),
    (3, 100, 80, 9),
    (8, 100, 80, 8),
    (1, 1024, 4096, 8 * 43),  # blocks of 128 rows
    (1, 100, 0, 0),
]


@pytest.mark.parametrize("batch, m, n, units", UNITS)
def test_few_blocks_are_cut_by_rows(batch: int, m: int, n: int, units: int) -> None:
    args = problem.GemmArgs(batch, 1, m, n, *[0] * (len(problem.GemmArgs.names()) - 4))
    assert problem.grid(ISAS["v4"], args) == units


@each_isa
@either_b
@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (5, 200, 30), (30, 45, 600), (13, 64, 0)])
def test_hook_gets_every_element_once(isa: Isa, packed: bool, m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(2)
    a, b, bias = normal(rng, 2, 3, m, k), normal(rng, 2, 3, k, n), normal(rng, m, 1)
    stored = Product(isa, a, b, bias, packed=packed, act=1).run_hooked()
    assert_near(stored, 3 * reference(a, b, bias, 1) + 1, 9 * k)


@each_isa
def test_error_of_the_hook_is_returned(isa: Isa) -> None:
    product = Product(isa, np.ones((1, 1, 3, 3)), np.ones((1, 1, 3, 3)))
    assert product.error_of_hook() == 7


@each_isa
@either_b
def test_nan_and_inf_follow_numpy(isa: Isa, packed: bool) -> None:
    rng = np.random.default_rng(3)
    a, b = normal(rng, 1, 1, 15, 70), normal(rng, 1, 1, 70, 37)
    a[0, 0, 3, 5], a[0, 0, 7, 6], a[0, 0, 8, 1] = np.nan, np.inf, -np.inf
    b[0, 0, 6, 9], b[0, 0, 20, 11] = 0, -np.inf
    for act in (0, 1, 2):
        with np.errstate(invalid="ignore"):
            expected = reference(a, b, None, act)
        assert_near(Product(isa, a, b, packed=packed, act=act).run(), expected, 70)


@pytest.mark.parametrize("n", [1, 31, 32, 33])
def test_panels_hold_columns_and_zeros(n: int) -> None:
    b = normal(np.random.default_rng(4), 2, 5, n)
    panels = gemm_panels(b, 32)
    assert panels.shape == (2, -(-n // 32), 5, 32)
    assert panels[1, -1, 3, (n - 1) % 32] == b[1, 3, n - 1]
    assert not panels[:, -1, :, (n - 1) % 32 + 1 :].any()


def test_sizes_may_be_symbols() -> None:
    m, n = symbol("M"), symbol("N")
    args = problem.GemmArgs(
        1, 1, m, n, 700, 0, 0, 700, 1, 0, 0, 0, 0, 0, 1, 0, 0, n, 1, 0, 0, 0, 0, 0, 0, 0, 0
    )
    known = replace(args, m=100, n=1000, c_m=1000)
    values = {"M": 100, "N": 1000}
    for isa in ISAS.values():
        for packed in (False, True):
            symbolic = evaluate(problem.scratch_bytes(isa, args, packed=packed), values)
            assert symbolic == problem.scratch_bytes(isa, known, packed=packed)
        assert evaluate(problem.grid(isa, args), values) == problem.grid(isa, known)
        assert evaluate(problem.work_ns(isa, args), values) == problem.work_ns(isa, known)

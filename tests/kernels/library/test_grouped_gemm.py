"""Grouped GEMM against float64 NumPy: sizes, groups, chunks, guard pages, NaN, Inf; in bf16, and of codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphwright.ir.symbols import evaluate, symbol
from graphwright.kernels.gemm import bf16_gemm, gemm, grouped_gemm, nbits, nbits_bytes, nbits_gemm, problem
from graphwright.kernels.gemm.grouped_gemm import GroupedArgs
from graphwright.layout.transform import pack, packed_shape
from graphwright.targets.cpu.isa import ISAS, Isa
from tests.kernels.library.cases import AnyArray, chunkings, each_isa, guard
from tests.kernels.library.harness import call, guarded, load
from tests.kernels.library.nbits_product import Product
from tests.kernels.library.packing import gemm_panels
from tests.kernels.library.test_bf16_gemm import BF16, in_panels

COLUMNS = st.one_of(st.integers(0, 20), st.sampled_from([31, 32, 33, 47, 48, 64, 97, 193, 901]))
DEPTHS = st.one_of(st.integers(0, 20), st.sampled_from([31, 64, 768, 769, 1031]))
ROWS = st.lists(st.sampled_from([0, 0, 1, 1, 2, 5, 16, 17, 40, 150]), max_size=5)
Chunks = list[tuple[int, int]]


class Groups:
    """The product of groups of rows, with operands next to unreadable pages; in bf16 if ``b`` is."""

    def __init__(self, isa: Isa, a: Any, b: Any, ends: Any, *, packed: bool) -> None:
        self.sizes = GroupedArgs(len(b), len(a), b.shape[2], b.shape[1], ends.itemsize)
        in_bf16, single = b.dtype == BF16, a.dtype == np.float32
        if packed:
            width = problem.panel_columns(isa)
            b = np.stack([in_panels(m, isa) for m in b]) if in_bf16 and len(b) else b
            b = b if in_bf16 else gemm_panels(b, width)
        self.operands = [guard(each) for each in (a, b, ends)]
        self.args = (
            (*self.sizes, int(single), int(not packed and b.dtype == np.float32)) if in_bf16 else self.sizes
        )
        kernels, sizes = (bf16_gemm, bf16_gemm) if in_bf16 else (gemm, problem)
        self.kernel = load(kernels, isa)[kernels.GROUPED_PACKED if packed else kernels.GROUPED]
        self.grid = grouped_gemm.grid(isa, self.sizes)
        self.scratch = sizes.scratch_bytes(isa, grouped_gemm.product(self.sizes), packed=packed)

    def run(self, chunks: Chunks | None = None) -> AnyArray:
        """The product, of which each element was stored."""
        m, n = self.sizes.m, self.sizes.n
        made = guarded(m * n, "end", np.nan)
        assert (
            call(self.kernel, [*self.operands, made], self.args, self.grid, self.scratch, chunks=chunks) == 0
        )
        return made.reshape(m, n).copy()


def operands(
    rows: list[int], rest: int, k: int, n: int, bytes: int = 4
) -> tuple[AnyArray, AnyArray, AnyArray]:
    rng = np.random.default_rng(sum(rows) * 1009 + k * 31 + n)
    a = rng.standard_normal((sum(rows) + rest, k)).astype(np.float32)
    b = rng.standard_normal((len(rows), k, n)).astype(np.float32)
    return a, b, np.cumsum(rows).astype(f"i{bytes}")


def expected(a: AnyArray, b: AnyArray, ends: AnyArray) -> AnyArray:
    """Row by row: the group of a row is the number of ends up to it."""
    wanted = np.zeros((len(a), b.shape[2]))
    for row, group in enumerate(np.searchsorted(ends, np.arange(len(a)), side="right")):
        if group < len(b):
            wanted[row] = a[row].astype(np.float64) @ b[group].astype(np.float64)
    return wanted


@each_isa
@settings(max_examples=60, deadline=None)
@given(rows=ROWS, rest=st.integers(0, 3), k=DEPTHS, n=COLUMNS, packed=st.booleans(), way=st.integers(0, 2))
@example([150, 0, 3], 1, 1600, 70, True, 1)
@example([150, 0, 3], 1, 1600, 70, False, 2)
@example([1, 1, 0, 1], 0, 64, 901, False, 0)
@example([], 2, 5, 3, True, 0)
def test_matches_float64(
    isa: Isa, rows: list[int], rest: int, k: int, n: int, packed: bool, way: int
) -> None:
    a, b, ends = operands(rows, rest, k, n)
    groups = Groups(isa, a, b, ends, packed=packed)
    found = groups.run(chunkings(groups.grid)[way])
    np.testing.assert_allclose(found, expected(a, b, ends), rtol=1e-5, atol=8e-6 * (k + 4) ** 0.5)


@each_isa
@settings(max_examples=40, deadline=None)
@given(rows=ROWS, k=DEPTHS, n=COLUMNS, packed=st.booleans(), single=st.booleans())
@example([16, 40, 1], 769, 97, True, False)
@example([16, 40, 1], 768, 97, False, True)
def test_bf16_matches_float64(isa: Isa, rows: list[int], k: int, n: int, packed: bool, single: bool) -> None:
    a, b, ends = operands(rows, 1, k, n)
    b = b.astype(BF16)
    found = Groups(isa, a if single else a.astype(BF16), b, ends, packed=packed).run()
    wanted = expected(a.astype(BF16), b, ends)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=8e-6 * (k + 4) ** 0.5)


@each_isa
@settings(max_examples=40, deadline=None)
@given(
    rows=ROWS, k=DEPTHS, n=COLUMNS.filter(bool), bits=st.sampled_from(nbits.WIDTHS),
    block=st.sampled_from([16, 64]), zeros=st.sampled_from(["none", "bytes", "floats"]),
    way=st.integers(0, 2),
)  # fmt: skip
@example([3, 0, 40, 1], 769, 901, 4, 16, "bytes", 1)
@example([150, 2], 100, 97, 8, 64, "floats", 2)
def test_codes_match_float64(
    isa: Isa, rows: list[int], k: int, n: int, bits: int, block: int, zeros: str, way: int
) -> None:
    rng, blocks, count = np.random.default_rng(n * 1009 + k), -(-k // block), len(rows)
    codes = rng.integers(0, 256, (count, n, blocks * (block * bits // 8)), dtype=np.uint8)
    scales = rng.uniform(0.5, 1.5, (count, n, blocks)).astype(np.float32)
    points = {
        "none": np.full((count, n, blocks), 1 << (bits - 1)),
        "bytes": rng.integers(0, 1 << bits, (count, n, blocks)).astype(np.uint8),
        "floats": rng.uniform(0, 1 << bits, (count, n, blocks)).astype(np.float32),
    }[zeros]
    given = zip(codes, scales, points, strict=True)
    matrices = [Product.weights(*each, bits, block, k).T for each in given]
    weights = np.array(matrices).reshape(count, k, n)
    a, _, ends = operands(rows, 1, k, 0)

    sizes = GroupedArgs(count, len(a), n, k, ends.itemsize)
    own = nbits_gemm.CodesArgs(bits, block, int(zeros == "floats"), 0)
    layout, words = nbits.panels(problem.panel_columns(isa), 3), codes.view("<u4")
    if bits == 8:
        held = np.empty(packed_shape(codes.shape, layout), np.uint8)
        nbits_bytes.pack(held.reshape(-1), words, layout)
    else:
        held = pack(words, layout)
    of_zeros = None if zeros == "none" else guard(pack(points, layout))
    result = guarded(len(a) * n, "end", np.nan)
    grid = grouped_gemm.grid(isa, sizes)
    error = call(
        load(gemm, isa)[nbits_gemm.GROUPED],
        [guard(a), guard(held), guard(ends), result, guard(pack(scales, layout)), of_zeros],
        (*sizes, *own), grid, nbits_gemm.scratch_bytes(isa, grouped_gemm.product(sizes), own),
        chunks=chunkings(grid)[way],
    )  # fmt: skip
    assert error == 0
    bound = 2e-6 * (expected(np.abs(a), np.abs(weights), ends) + 8)
    assert (np.abs(result.reshape(len(a), n) - expected(a, weights, ends)) <= bound).all()


@each_isa
@pytest.mark.parametrize("packed", [True, False])
def test_any_chunks_give_the_same_bits(isa: Isa, packed: bool) -> None:
    groups = Groups(isa, *operands([3, 0, 170, 20, 1], 4, 800, 300, 8), packed=packed)
    first, *others = (groups.run(chunks) for chunks in chunkings(groups.grid))
    for other in others:
        np.testing.assert_array_equal(first, other)


@each_isa
def test_groups_that_end_early_are_empty(isa: Isa) -> None:
    a, b, _ = operands([2, 2, 3], 0, 5, 7)
    found = Groups(isa, a, b, np.array([4, 2, 6], np.int32), packed=True).run()
    wanted = np.concatenate([a[:4] @ b[0], a[4:6] @ b[2], np.zeros((1, 7), np.float32)])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@each_isa
@pytest.mark.parametrize("ends", [[-5, 2**31 - 1, 3], [7, -(2**31), 2**30]])
def test_ends_out_of_range_do_not_leave_the_operands(isa: Isa, ends: list[int]) -> None:
    a, b, _ = operands([2, 2, 3], 0, 5, 7)
    found = Groups(isa, a, b, np.array(ends, np.int32), packed=False).run()
    np.testing.assert_allclose(found, a @ b[1 if ends[0] < 0 else 0], rtol=1e-5, atol=1e-5)


@each_isa
def test_nan_stays_in_its_group(isa: Isa) -> None:
    a, b, ends = operands([15, 20], 0, 70, 37)
    a[3, 5], b[1, 20, 11] = np.nan, np.inf
    found = Groups(isa, a, b, ends, packed=True).run()
    np.testing.assert_allclose(found, expected(a, b, ends), rtol=1e-5, atol=1e-4)
    assert np.isnan(found[3]).all() and not np.isnan(found[4:15]).any()


def test_sizes_may_be_symbols() -> None:
    dynamic, static = GroupedArgs(8, symbol("M"), 700, 64, 4), GroupedArgs(8, 37, 700, 64, 4)
    for isa in ISAS.values():
        assert evaluate(grouped_gemm.grid(isa, dynamic), {"M": 37}) == grouped_gemm.grid(isa, static)
        found = grouped_gemm.similar_product(dynamic, packed=True)
        wanted = grouped_gemm.similar_product(static, packed=True)
        assert [evaluate(each, {"M": 37}) for each in found] == list(wanted)

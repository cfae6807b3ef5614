"""The k first of each row against a stable sort by NumPy, in guarded memory, under any chunking."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.kernels.search import top_k
from graphwright.kernels.search.top_k import Kind, TopK
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import AnyArray, chunkings, each_isa, guard
from tests.kernels.library.harness import call, load

KINDS = {
    np.uint8: Kind.UNSIGNED,
    np.bool_: Kind.UNSIGNED,
    np.uint64: Kind.UNSIGNED,
    np.int8: Kind.SIGNED,
    np.uint32: Kind.UNSIGNED,
    np.int16: Kind.SIGNED,
    np.int32: Kind.SIGNED,
    np.int64: Kind.SIGNED,
    np.float16: Kind.FLOAT,
    np.float32: Kind.FLOAT,
    np.float64: Kind.FLOAT,
}


def ranked(x: AnyArray, largest: bool) -> AnyArray:
    """Positions along axis 1, best first, of equals the first first; NaN is larger than all numbers."""
    if not largest:
        return np.argsort(x, axis=1, kind="stable")
    backwards = np.argsort(x[:, ::-1], axis=1, kind="stable")[:, ::-1]
    return x.shape[1] - 1 - backwards


@each_isa
@given(
    dtype=st.sampled_from(list(KINDS)),
    shape=st.tuples(st.sampled_from([0, 1, 3, 37]), st.sampled_from([1, 2, 7, 40]), st.integers(1, 20)),
    largest=st.booleans(),
    data=st.data(),
)
@settings(deadline=None, max_examples=60)
def test_order_is_that_of_a_stable_sort(
    isa: Isa, dtype: type, shape: tuple[int, int, int], largest: bool, data: st.DataObject
) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    x = rng.integers(0, 6, shape).astype(dtype)
    if KINDS[dtype] is not Kind.UNSIGNED:
        x = np.where(rng.random(shape) < 0.5, -x, x).astype(dtype)
    if KINDS[dtype] is Kind.FLOAT:
        specials = rng.choice([np.nan, np.inf, -np.inf, -0.0], shape).astype(dtype)
        x = np.where(rng.random(shape) < 0.2, specials, x)
    k = data.draw(st.integers(0, shape[1]), label="k")
    source = guard(x, at_end=True)
    made = TopK(KINDS[dtype], source.itemsize, largest, *shape, k)
    order = ranked(x, largest)[:, :k]
    for chunks in chunkings(made.grid):
        values = guard(np.zeros((shape[0], k, shape[2]), dtype), at_end=True)
        indices = guard(np.zeros((shape[0], k, shape[2]), np.int64), at_end=True)
        kernel = load(top_k, isa).gw_top_k
        operands = [source, values, indices]
        assert call(kernel, operands, made.args, made.grid, made.scratch_bytes(isa), chunks=chunks) == 0
        np.testing.assert_array_equal(indices, order)
        np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))


@each_isa
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint32, np.int64, np.float16])
@pytest.mark.parametrize("order", ["random", "up", "down", "equal", "few"])
@pytest.mark.parametrize(
    ("count", "k"), [(3001, 1), (3001, 16), (3001, 50), (3001, 300), (3001, 3001), (700, 257)]
)
def test_long_rows_are_cut_in_their_order(isa: Isa, dtype: type, order: str, count: int, k: int) -> None:
    rng = np.random.default_rng(count + k)
    row = (rng.standard_normal(count) * 1000).astype(dtype)
    many = {"random": row, "up": np.sort(row), "down": np.sort(row)[::-1], "equal": row[:1].repeat(count)}
    x = many.get(order, row % np.array(5, dtype)).reshape(1, count, 1)
    for largest in (True, False):
        made = TopK(KINDS[dtype], x.itemsize, largest, 1, count, 1, k)
        values, indices = guard(np.zeros((1, k, 1), dtype)), guard(np.zeros((1, k, 1), np.int64))
        operands = [guard(np.ascontiguousarray(x), at_end=True), values, indices]
        kernel = load(top_k, isa).gw_top_k
        assert call(kernel, operands, made.args, made.grid, made.scratch_bytes(isa)) == 0
        np.testing.assert_array_equal(indices, ranked(x, largest)[:, :k])


@each_isa
def test_bf16_has_a_code_of_its_own(isa: Isa) -> None:
    bits = np.array([[[0x3F80], [0xBF80], [0x7FC0], [0x4000], [0xFF80]]], np.uint16)  # 1, -1, NaN, 2, -inf
    values, indices = np.zeros((1, 5, 1), np.uint16), np.zeros((1, 5, 1), np.int64)
    made = TopK(Kind.FLOAT, 3, largest=True, outer=1, count=5, inner=1, k=5)
    kernel = load(top_k, isa).gw_top_k
    assert call(kernel, [bits, values, indices], made.args, made.grid, made.scratch_bytes(isa)) == 0
    assert indices.ravel().tolist() == [2, 3, 0, 1, 4]

"""Lookups of bytes against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.kernels.movement import byte_table
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import chunkings, each_isa, guard
from tests.kernels.library.harness import call, load

COUNTS = st.one_of(st.integers(0, 200), st.sampled_from([16383, 16384, 16385, 40001]))


@each_isa
@pytest.mark.parametrize("symbol", [byte_table.SYMBOL, byte_table.WITHOUT_VBMI])
@settings(deadline=None, max_examples=25)
@given(count=COUNTS, seed=st.integers(0, 1 << 30), at_end=st.booleans())
def test_each_byte_is_looked_up(isa: Isa, symbol: str, count: int, seed: int, at_end: bool) -> None:
    rng = np.random.default_rng(seed)
    table = guard(rng.integers(0, 256, 256).astype(np.uint8), at_end=at_end)
    x = guard(rng.integers(0, 256, count).astype(np.uint8), at_end=at_end)
    y = guard(np.zeros(count, np.uint8), at_end=at_end)
    kernel, grid = load(byte_table, isa)[symbol], byte_table.ByteTableCall(count).grid
    for chunks in chunkings(grid):
        y[...] = 0
        assert call(kernel, [x, table, y], (count,), grid, 0, chunks=chunks) == 0
        np.testing.assert_array_equal(y, np.array([int(table[i]) for i in x.tolist()], np.uint8))

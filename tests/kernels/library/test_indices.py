"""The check of indices: accepts indices within the range, and finds one outside it at any position."""

from __future__ import annotations

import numpy as np
import pytest

from graphwright.kernels.movement import indices
from graphwright.kernels.movement.gather import INDEX_OUT_OF_RANGE
from graphwright.kernels.movement.indices import CheckIndices
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import chunkings, each_isa, guard
from tests.kernels.library.harness import call, load

SIZES = (5, 1, 70_000)


@each_isa
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("rows", [0, 1, 3, 20_011])
def test_all_in_range(isa: Isa, dtype: type, rows: int) -> None:
    rng = np.random.default_rng(0)
    table = np.stack([rng.integers(-n, n, rows) for n in SIZES], -1).astype(dtype)
    made = CheckIndices(table.itemsize, rows, SIZES)
    operands = [guard(table, at_end=True), None]
    for chunks in chunkings(made.grid):
        assert (
            call(load(indices, isa).gw_check_indices, operands, made.args, made.grid, 0, chunks=chunks) == 0
        )


@each_isa
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("row", [0, 8_191, 8_192, 20_010])
@pytest.mark.parametrize(
    ("column", "value"), [(0, 5), (0, -6), (1, 1), (2, 70_000), (2, -70_001), (2, 2**31 - 1)]
)
def test_a_single_index_out_of_range_is_found(
    isa: Isa, dtype: type, row: int, column: int, value: int
) -> None:
    table = np.zeros((20_011, len(SIZES)), dtype)
    table[row, column] = value
    made = CheckIndices(table.itemsize, len(table), SIZES)
    kernel = load(indices, isa).gw_check_indices
    assert call(kernel, [table, None], made.args, made.grid, 0) == INDEX_OUT_OF_RANGE


@each_isa
def test_an_empty_axis_has_no_index(isa: Isa) -> None:
    made = CheckIndices(8, 1, (0,))
    kernel = load(indices, isa).gw_check_indices
    assert call(kernel, [np.zeros(1, np.int64), None], made.args, made.grid, 0) == INDEX_OUT_OF_RANGE

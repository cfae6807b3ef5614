"""Rounding errors of long sums over outer axes: they are added in blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import graphwright as gw
from graphwright.ir.build import new_main_graph
from graphwright.ir.graph import Module
from graphwright.ir.symbols import Dim, symbol
from graphwright.ir.types import F32, tensor
from graphwright.ops.core.reductions import ReduceMean, ReduceSumSquare

LENGTH = 1 << 17


@pytest.mark.parametrize(
    "dims, sizes, axes",
    [
        ((LENGTH, 5), (LENGTH, 5), (0,)),  # few columns: several sums per lane
        ((LENGTH, 40), (LENGTH, 40), (0,)),
        ((LENGTH + 61, 40), (LENGTH + 61, 40), (0,)),
        ((symbol("N"), 5), (LENGTH + 13, 5), (0,)),
        ((symbol("N"), 40), (LENGTH + 1, 40), (0,)),
        ((symbol("N"), symbol("M")), (LENGTH, 1), (0,)),
        ((LENGTH, 2, 2, 5), (LENGTH, 2, 2, 5), (0, 2)),
        ((2, 2, LENGTH, 5), (2, 2, LENGTH, 5), (0, 2)),
        ((2, 2, symbol("N"), 40), (2, 2, LENGTH + 7, 40), (0, 2)),
    ],
)
def test_errors_of_long_sums_are_small(
    dims: Sequence[Dim], sizes: Sequence[int], axes: Sequence[int]
) -> None:
    module = Module()
    b, (x,) = new_main_graph(module, [("x", tensor(F32, *dims))])
    module.main.set_outputs(
        [b(ReduceMean(tuple(axes), keepdims=False), x), b(ReduceSumSquare(tuple(axes), keepdims=False), x)]
    )
    data = (np.random.default_rng(0).random(sizes) * 0.1 + 0.3).astype(np.float32)
    mean, squares = gw.compile(module)(data)
    exact = data.astype(np.float64)
    np.testing.assert_allclose(mean, exact.mean(tuple(axes)), rtol=5e-6)
    np.testing.assert_allclose(squares, (exact * exact).sum(tuple(axes)), rtol=5e-6)

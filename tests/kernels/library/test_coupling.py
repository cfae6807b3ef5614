"""Probabilities of classes from those of pairs, in guarded memory, under any chunking."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.kernels.library.bits import double_bits
from graphwright.kernels.ml import coupling
from graphwright.ops.ml.pairwise_coupling import MAX_ITERATIONS, TOLERANCE
from graphwright.targets.cpu.isa import Isa
from tests.kernels.library.cases import AnyArray, chunkings, each_isa, guard
from tests.kernels.library.harness import call, load


def run(isa: Isa, x: AnyArray, classes: int, chunks: Any = None) -> AnyArray:
    source = guard(np.ascontiguousarray(x, np.float32), at_end=True)
    y = guard(np.zeros((len(x), classes), np.float32), at_end=True)
    args = coupling.CouplingCall(len(x), classes, MAX_ITERATIONS, double_bits(TOLERANCE))
    kernel = load(coupling, isa).gw_pairwise_coupling_f32
    scratch = args.scratch_bytes(isa)
    assert call(kernel, [source, y], args, args.grid, scratch, chunks=chunks) == 0
    return y


def least(row: AnyArray, classes: int) -> AnyArray:
    """The p of sum 1 at which p Q p is least, by its system of linear equations."""
    system = np.zeros((classes + 1, classes + 1))
    for first, (i, j) in zip(row.astype(np.float64), combinations(range(classes), 2), strict=True):
        system[i, i] += (1 - first) ** 2
        system[j, j] += first**2
        system[i, j] = system[j, i] = -first * (1 - first)
    system[-1, :-1] = system[:-1, -1] = 1
    return np.linalg.solve(system, np.eye(classes + 1)[-1])[:-1]


@each_isa
@given(rows=st.sampled_from([0, 1, 7, 16, 33]), classes=st.integers(2, 7), seed=st.integers(0, 9))
@settings(deadline=None, max_examples=40)
def test_probabilities_are_near_the_minimum(isa: Isa, rows: int, classes: int, seed: int) -> None:
    x = np.random.default_rng(seed).uniform(0.1, 0.9, (rows, classes * (classes - 1) // 2)).astype(np.float32)
    grid = coupling.CouplingCall(rows, classes, 0, 0).grid
    made = [run(isa, x, classes, chunks) for chunks in chunkings(grid)]
    for other in made[1:]:
        np.testing.assert_array_equal(other, made[0])
    for row, result in zip(x, made[0], strict=True):
        np.testing.assert_allclose(result.sum(), 1, rtol=1e-5)
        np.testing.assert_allclose(result, least(row, classes), atol=0.02)  # LIBSVM's method stops this early


@each_isa
def test_equal_pairs_are_equal_classes_and_nan_ends_its_row_alone(isa: Isa) -> None:
    x = np.array([[0.5, 0.5, 0.5], [np.nan, 0.5, 0.5], [0.9, 0.9, 0.5]], np.float32)
    made = run(isa, x, 3)
    np.testing.assert_allclose(made[0], 1 / 3, rtol=1e-6)
    np.testing.assert_allclose(made[2], least(x[2], 3), atol=0.01)

"""Walks of trees against walks in Python, in guarded memory, under any chunking."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.kernels.ml import trees
from graphwright.kernels.ml.trees import Fold, Trees
from graphwright.targets.cpu.isa import ISAS, Isa
from tests.kernels.library.cases import AnyArray, chunkings, each_isa, guard
from tests.kernels.library.harness import call, load

LEAF = -1
NODE = 16
Node = tuple[float, int, bool, int]
"""Split, feature, whether NaN is at most the split, and the place of the first of two next nodes."""


def grow(rng: np.random.Generator, count: int, depth: int, features: int) -> tuple[list[Node], list[int]]:
    """Nodes of random trees whose roots come first, and the depth of each tree."""
    nodes: list[Node] = [(np.inf, 0, True, LEAF)] * count
    depths = [0] * count
    level = [(k, k) for k in range(count)]
    for step in range(depth):
        following = []
        for tree, place in level:
            if rng.random() < 0.2:
                continue
            split = float(rng.choice([-1.0, 0.0, 0.5]))
            nodes[place] = (split, int(rng.integers(features)), bool(rng.integers(2)), len(nodes))
            following += [(tree, len(nodes)), (tree, len(nodes) + 1)]
            nodes += [(np.inf, 0, True, LEAF)] * 2
            depths[tree] = step + 1
        level = following
    return nodes, depths


def packed(nodes: list[Node], dtype: Any) -> AnyArray:
    """Nodes as the kernel has them."""
    size = np.dtype(dtype).itemsize
    table = np.zeros((len(nodes), NODE), np.uint8)
    splits = np.array([split for split, *_ in nodes], dtype)
    table[:, :size] = splits.view(np.uint8).reshape(-1, size)
    features = [f * size - (nan << 31) for _, f, nan, _ in nodes]
    places = [NODE * (k if to == LEAF else to) for k, (*_, to) in enumerate(nodes)]
    table[:, 8:] = np.array([features, places], np.int32).T.copy().view(np.uint8)
    return table


def leaf_of(nodes: list[Node], root: int, row: AnyArray) -> int:
    """The leaf that a traversal reaches."""
    place = root
    while nodes[place][3] != LEAF:
        split, feature, nan, to = nodes[place]
        value = row[feature]
        place = to if (nan if np.isnan(value) else value <= split) else to + 1
    return place


def folded(votes: list[float], fold: Fold, count: int) -> float:
    if not votes:
        return 0.0
    made = {Fold.MIN: min, Fold.MAX: max}.get(fold, sum)(votes)
    return made / count if fold is Fold.AVERAGE else made


@each_isa
@given(
    dtype=st.sampled_from([np.float32, np.float64]),
    fold=st.sampled_from(list(Fold)),
    rows=st.sampled_from([0, 1, 7, 8, 9, 65, 130]),
    count=st.sampled_from([1, 3, 8, 10]),
    depth=st.integers(0, 13),
    size=st.integers(1, 3),
    nans=st.booleans(),
    seed=st.integers(0, 9),
)
@settings(deadline=None, max_examples=40)
def test_traversals_equal_those_in_python(
    isa: Isa, dtype: Any, fold: Fold, rows: int, count: int, depth: int, size: int, nans: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    nodes, depths = grow(rng, count, min(depth, 6) if count > 3 else depth, 4)
    x = rng.choice([-1.0, 0.0, 0.5, 2.0, np.inf, -np.inf], (rows, 4)).astype(dtype)
    if nans:
        x[rng.random(x.shape) < 0.2] = np.nan
    given = [int(rng.integers(0, 3)) if to == LEAF else 0 for *_, to in nodes]
    ends = np.cumsum(given)
    targets = rng.integers(0, size, int(ends[-1]))
    weights = rng.integers(-8, 9, int(ends[-1])).astype(dtype)
    expected = np.zeros((rows, size), dtype)
    for k, row in enumerate(x):
        heard: list[list[float]] = [[] for _ in range(size)]
        for root in range(count):
            leaf = leaf_of(nodes, root, row)
            for vote in range(ends[leaf] - given[leaf], ends[leaf]):
                heard[targets[vote]].append(float(weights[vote]))
        expected[k] = [folded(votes, fold, count) for votes in heard]
    made = Trees(x.itemsize, fold, rows, 4, count, size, depth, len(nodes), len(targets))
    tables = (
        packed(nodes, dtype),
        np.array([[NODE * root, depths[root]] for root in range(count)], np.int32),
        np.stack([ends - given, ends], 1).astype(np.int32),
        targets.astype(np.int32),
        weights,
    )
    grid: Any = made.grid
    for chunks in chunkings(grid):
        y = guard(np.zeros_like(expected))
        operands = [guard(array) for array in (x, *tables)]
        kernel = load(trees, isa).gw_trees
        assert call(kernel, [*operands, y], made.args, made.grid, made.scratch_bytes(isa), chunks=chunks) == 0
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("size", [1, 100, 5000])
def test_scratch_is_bounded(size: int) -> None:
    made = Trees(4, Fold.SUM, 1000, 4, 10, size, 5, 0, 0)
    grid: Any = made.grid
    scratch: Any = made.scratch_bytes(ISAS["v3"])
    assert grid * made.block >= 1000
    assert scratch <= max(8 * 8 * size, 1 << 16)

"""Import of TreeEnsembleRegressor, and of the trees that TreeEnsembleClassifier has too (the attributes
before opset 5 of ``ai.onnx.ml``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Importer
from graphwright.ir.types import F32, F64
from graphwright.ops.core.binary import Add
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.ml.post_transforms import (
    DOMAIN,
    post_transform,
    rows_of_features,
    transformed,
    transformed_alone,
)
from graphwright.ops.ml.tree_ensemble import AGGREGATES, EQUAL, TreeEnsemble, Trees
from graphwright.records import replace

_MODES = {
    "BRANCH_LEQ": 0,
    "BRANCH_LT": 1,
    "BRANCH_GTE": 2,
    "BRANCH_GT": 3,
    "BRANCH_EQ": EQUAL,
    "BRANCH_NEQ": EQUAL + 1,
    "LEAF": EQUAL + 2,
}


def typed_rows(i: Importer) -> Value:
    """Input 0 as a matrix [N, features] of f64 if its element type is f64, else of f32."""
    x = rows_of_features(i)
    return as_dtype(i.builder, x, F64 if x.type.dtype == F64 else F32)


def numbers(i: Importer, name: str) -> Array:
    """The floats of the attribute ``name`` or of the tensor ``{name}_as_tensor``."""
    floats, tensor = i.attr(name), i.attr(f"{name}_as_tensor")
    return np.array(floats or (), np.float64) if tensor is None else tensor.ravel().astype(np.float64)


def read_trees(i: Importer, votes: str, targets: str) -> Trees:
    """The trees of the attributes ``nodes_*``, and the votes of ``{votes}_*`` for the classes or targets of
    the attribute ``targets``. The root of a tree is its first node.
    """
    trees, ids = _integers(i, "nodes_treeids"), _integers(i, "nodes_nodeids")
    modes = [_MODES.get(name, -1) for name in i.required_attr("nodes_modes")]
    branches = [_integers(i, f"nodes_{answer}nodeids") for answer in ("true", "false")]
    given = _integers(i, "nodes_missing_value_tracks_true")
    missing = given if given.size else np.zeros_like(ids)
    features, splits = _integers(i, "nodes_featureids"), numbers(i, "nodes_values")
    columns: tuple[Any, ...] = (trees, modes, *branches, missing, features, splits)
    if {len(column) for column in columns} != {ids.size} or not ids.size:
        raise i.fail("the attributes of the nodes are empty or differ in length", "export the model again")
    nodes = _Nodes(trees, ids)
    if nodes.repeated or min(modes) < 0:
        raise i.fail("a node is listed twice, or its mode is unknown", "export the model again")
    mode = np.array(modes)
    leaf, unequal = mode == _MODES["LEAF"], mode == _MODES["BRANCH_NEQ"]
    yes, no = (nodes.indices(i, trees, np.where(leaf, ids, branch)) for branch in branches)
    _, roots = np.unique(trees, return_index=True)
    return Trees(
        roots,
        np.where(leaf, 0, features),
        np.where(leaf, 0, splits),
        np.where(leaf, 0, np.where(unequal, EQUAL, mode)),
        np.where(unequal, 0, missing) != 0,  # BRANCH_NEQ is true for NaN
        np.where(unequal, no, yes),
        np.where(unequal, yes, no),
        *_votes(i, votes, targets, nodes),
    )


class _Nodes:
    """The nodes of an ensemble, found by their tree and their number in it."""

    def __init__(self, trees: Array, ids: Array) -> None:
        self._trees, self._ids = np.unique(trees), np.unique(ids)
        keys = self._keys(trees, ids)
        self._order = np.argsort(keys, kind="stable")
        self._sorted = keys[self._order]
        self.count = ids.size
        self.repeated = bool((np.diff(self._sorted) == 0).any())
        """Whether a node is listed twice."""

    def indices(self, i: Importer, trees: Array, ids: Array) -> Array:
        """The index of each (tree, node). Raises the importer's error for one that does not exist."""
        keys = self._keys(trees, ids)
        found = np.minimum(np.searchsorted(self._sorted, keys), self.count - 1)
        wrong = np.flatnonzero(self._sorted[found] != keys)
        if wrong.size:
            pair = int(trees[wrong[0]]), int(ids[wrong[0]])
            raise i.fail(
                f"an attribute refers to the (tree, node) {pair}, which does not exist",
                "export the model again",
            )
        return self._order[found]

    def _keys(self, trees: Array, ids: Array) -> Array:
        """A number for each (tree, node), and -1 for a tree or a number that no node has."""
        tree, tree_known = _ranks(self._trees, trees)
        node, node_known = _ranks(self._ids, ids)
        return np.where(tree_known & node_known, tree * self._ids.size + node, -1)


def _ranks(known: Array, values: Array) -> tuple[Array, Array]:
    """The index of each value in the sorted ``known``, and whether it is one of them."""
    ranks = np.minimum(np.searchsorted(known, values), known.size - 1)
    return ranks, known[ranks] == values


def _votes(i: Importer, votes: str, targets: str, nodes: _Nodes) -> tuple[Array, ...]:
    """The end of the votes of each node, and the targets and weights of all votes in the order of
    the nodes.
    """
    trees, ids = _integers(i, f"{votes}_treeids"), _integers(i, f"{votes}_nodeids")
    target, weight = _integers(i, targets), numbers(i, f"{votes}_weights")
    if {len(trees), len(target), len(weight)} != {ids.size} or not ids.size:
        raise i.fail("the attributes of the leaves are empty or differ in length", "export the model again")
    leaves = nodes.indices(i, trees, ids)
    order = np.argsort(leaves, kind="stable")
    return np.cumsum(np.bincount(leaves, minlength=nodes.count)), target[order], weight[order]


def _integers(i: Importer, name: str) -> Array:
    return np.array(i.attr(name, ()), np.int64)


def _first_votes(trees: Trees) -> Trees:
    """The trees with only the first vote of each leaf, as ONNX Runtime reads trees with one target. The trees
    that skl2onnx writes for decision paths repeat the vote of a leaf for each class.
    """
    counts = np.diff(trees.ends, prepend=0)
    first = (trees.ends - counts)[counts > 0]
    ends = np.cumsum(np.minimum(counts, 1))
    return replace(trees, ends=ends, targets=trees.targets[first], weights=trees.weights[first])


def _import(i: Importer) -> Any:
    size, transform = int(i.attr("n_targets", 1)), post_transform(i)
    aggregate = str(i.attr("aggregate_function", "SUM"))
    if aggregate not in AGGREGATES:
        raise i.fail(f"aggregate_function {aggregate!r} is not one of {', '.join(AGGREGATES)}")
    trees = read_trees(i, "target", "target_ids")
    trees = _first_votes(trees) if size == 1 else trees
    y = trees.emit(i, typed_rows(i), size, aggregate)
    base = numbers(i, "base_values")
    if base.size not in (0, size):
        raise i.fail(f"{base.size} base_values for {size} targets", "export the model again")
    if base.any():
        y = i.emit(Add(), y, i.const(base.astype(y.type.dtype.numpy)))
    y = as_dtype(i.builder, y, F32)
    return transformed_alone(i, y, transform) if size == 1 else transformed(i, y, transform)


TreeEnsemble.onnx = {**TreeEnsemble.onnx, ("TreeEnsembleRegressor", 1, DOMAIN): _import}

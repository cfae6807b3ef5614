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
    indices = {pair: k for k, pair in enumerate(zip(trees, ids, strict=False))}
    modes = [_MODES.get(name, -1) for name in i.required_attr("nodes_modes")]
    branches = [_integers(i, f"nodes_{answer}nodeids") for answer in ("true", "false")]
    missing = _integers(i, "nodes_missing_value_tracks_true") or [0] * len(ids)
    features, splits = _integers(i, "nodes_featureids"), numbers(i, "nodes_values")
    columns: tuple[Any, ...] = (trees, modes, *branches, missing, features, splits)
    if {len(column) for column in columns} != {len(ids)} or not ids:
        raise i.fail("the attributes of the nodes are empty or differ in length", "export the model again")
    if len(indices) < len(ids) or min(modes) < 0:
        raise i.fail("a node is listed twice, or its mode is unknown", "export the model again")
    mode = np.array(modes)
    leaf, unequal = mode == _MODES["LEAF"], mode == _MODES["BRANCH_NEQ"]
    yes, no = (_indices(i, indices, trees, np.where(leaf, ids, branch).tolist()) for branch in branches)
    _, roots = np.unique(trees, return_index=True)
    return Trees(
        roots,
        np.where(leaf, 0, features),
        np.where(leaf, 0, splits),
        np.where(leaf, 0, np.where(unequal, EQUAL, mode)),
        np.where(unequal, 0, missing) != 0,  # BRANCH_NEQ is true for NaN
        np.where(unequal, no, yes),
        np.where(unequal, yes, no),
        *_votes(i, votes, targets, indices),
    )


def _votes(i: Importer, votes: str, targets: str, indices: dict[tuple[int, int], int]) -> tuple[Array, ...]:
    """The end of the votes of each node, and the targets and weights of all votes in the order of
    the nodes.
    """
    trees, ids = _integers(i, f"{votes}_treeids"), _integers(i, f"{votes}_nodeids")
    target, weight = np.array(_integers(i, targets)), numbers(i, f"{votes}_weights")
    if {len(trees), len(target), len(weight)} != {len(ids)} or not ids:
        raise i.fail("the attributes of the leaves are empty or differ in length", "export the model again")
    nodes = _indices(i, indices, trees, ids)
    order = np.argsort(nodes, kind="stable")
    return np.cumsum(np.bincount(nodes, minlength=len(indices))), target[order], weight[order]


def _indices(i: Importer, indices: dict[tuple[int, int], int], trees: list[int], ids: list[int]) -> Array:
    """The index of each (tree, node)."""
    try:
        return np.array([indices[pair] for pair in zip(trees, ids, strict=True)])
    except KeyError as error:
        raise i.fail(
            f"an attribute refers to the (tree, node) {error}, which does not exist", "export the model again"
        ) from None


def _integers(i: Importer, name: str) -> list[int]:
    return list(i.attr(name, ()))


def _first_votes(trees: Trees) -> Trees:
    """The trees with the first vote of each leaf, as ONNX Runtime reads those with one target: skl2onnx
    repeats the vote of a leaf for each class in the trees of decision paths.
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

"""TreeEnsembleRegressor and the attributes of trees as they were before opset 5 of the domain."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Importer
from graphwright.ir.types import F32, F64
from graphwright.ops.core.binary import Add
from graphwright.ops.ml.post_transforms import (
    DOMAIN,
    as_type,
    post_transform,
    rows_of_features,
    transformed,
    transformed_alone,
)
from graphwright.ops.ml.tree_ensemble import AGGREGATES, EQUAL, TreeEnsemble, Trees

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
    """Input 0 as rows, f64 if it is so, else f32."""
    x = rows_of_features(i)
    return as_type(i, x, F64 if x.type.dtype == F64 else F32)


def numbers(i: Importer, name: str) -> Array:
    """An attribute of floats, or its form as a tensor."""
    plain, tensor = i.attr(name), i.attr(f"{name}_as_tensor")
    return np.array(plain or (), np.float64) if tensor is None else tensor.ravel().astype(np.float64)


def read_trees(i: Importer, votes: str, targets: str) -> Trees:
    """The trees of attributes ``nodes_*`` and the votes of ``{votes}_*``. A tree's root is listed first."""
    trees, ids = _integers(i, "nodes_treeids"), _integers(i, "nodes_nodeids")
    places = {pair: k for k, pair in enumerate(zip(trees, ids, strict=False))}
    modes = [_MODES.get(name, -1) for name in i.required_attr("nodes_modes")]
    branches = [_integers(i, f"nodes_{answer}nodeids") for answer in ("true", "false")]
    missing = _integers(i, "nodes_missing_value_tracks_true") or [0] * len(ids)
    features, splits = _integers(i, "nodes_featureids"), numbers(i, "nodes_values")
    columns: tuple[Any, ...] = (trees, modes, *branches, missing, features, splits)
    if {len(column) for column in columns} != {len(ids)} or not ids:
        raise i.fail("attributes of nodes have unequal lengths or none", "export the model again")
    if len(places) < len(ids) or min(modes) < 0:
        raise i.fail("a node is listed twice, or has a mode that is not known", "export the model again")
    mode = np.array(modes)
    leaf, unequal = mode == _MODES["LEAF"], mode == _MODES["BRANCH_NEQ"]
    try:
        yes, no = (
            np.array(
                [k if leaf[k] else places[t, n] for k, (t, n) in enumerate(zip(trees, branch, strict=True))]
            )
            for branch in branches
        )
    except KeyError as error:
        raise i.fail(
            f"a node refers to the (tree, node) {error}, which does not exist", "export the model again"
        ) from None
    _, roots = np.unique(trees, return_index=True)
    return Trees(
        roots,
        np.where(leaf, 0, features),
        np.where(leaf, 0, splits),
        np.where(leaf, 0, np.where(unequal, EQUAL, mode)),
        np.where(unequal, 0, missing) != 0,  # NaN is unequal to all
        np.where(unequal, no, yes),
        np.where(unequal, yes, no),
        *_votes(i, votes, targets, places),
    )


def _votes(i: Importer, votes: str, targets: str, places: dict[tuple[int, int], int]) -> tuple[Array, ...]:
    """Where each node's votes end; of each vote target and weight, in the order of the nodes."""
    trees, ids = _integers(i, f"{votes}_treeids"), _integers(i, f"{votes}_nodeids")
    target, weight = np.array(_integers(i, targets)), numbers(i, f"{votes}_weights")
    if {len(trees), len(target), len(weight)} != {len(ids)} or not ids:
        raise i.fail("attributes of leaves have unequal lengths or none", "export the model again")
    try:
        nodes = np.array([places[pair] for pair in zip(trees, ids, strict=True)])
    except KeyError as error:
        raise i.fail(
            f"a weight belongs to the (tree, node) {error}, which does not exist", "export the model again"
        ) from None
    order = np.argsort(nodes, kind="stable")
    return np.cumsum(np.bincount(nodes, minlength=len(places))), target[order], weight[order]


def _integers(i: Importer, name: str) -> list[int]:
    return list(i.attr(name, ()))


def _import(i: Importer) -> Any:
    size, transform = int(i.attr("n_targets", 1)), post_transform(i)
    aggregate = str(i.attr("aggregate_function", "SUM"))
    if aggregate not in AGGREGATES:
        raise i.fail(f"aggregate_function {aggregate!r} is not one of {', '.join(AGGREGATES)}")
    y = read_trees(i, "target", "target_ids").emit(i, typed_rows(i), size, aggregate)
    base = numbers(i, "base_values")
    if base.size not in (0, size):
        raise i.fail(f"{base.size} base_values for {size} targets", "export the model again")
    if base.any():
        y = i.emit(Add(), y, i.const(base.astype(y.type.dtype.numpy)))
    y = as_type(i, y, F32)
    return transformed_alone(i, y, transform) if size == 1 else transformed(i, y, transform)


TreeEnsemble.onnx = {**TreeEnsemble.onnx, ("TreeEnsembleRegressor", 1, DOMAIN): _import}

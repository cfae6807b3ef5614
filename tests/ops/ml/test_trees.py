"""Tree ensembles of ``ai.onnx.ml`` compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import graphwright as gw
from graphwright.errors import ModelError
from tests.ops.ml.support import (
    DTYPES,
    TRANSFORMS,
    Array,
    assert_same,
    compare,
    labels_of,
    model_of,
    numbers,
    rows,
    runtime,
)


def grow(seed: int, trees: int, depth: int, features: int, modes: Sequence[str]) -> dict[str, list[Any]]:
    """Columns of random nodes, and of their leaves: ``treeids`` and ``nodeids``."""
    rng = np.random.default_rng(seed)
    nodes: dict[str, list[Any]] = {
        name: []
        for name in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")
    }

    def add(tree: int, level: int, ids: list[int]) -> int:
        own = len(ids)
        ids.append(own)
        place = len(nodes["treeids"])
        leaf = level == depth or (level > 0 and rng.random() < 0.3)
        mode = "LEAF" if leaf else str(rng.choice(modes))
        split = 0.0 if leaf else float(rng.choice([-1, -0.5, 0, 0.5, 1]))
        feature = 0 if leaf else int(rng.integers(features))
        for name, value in zip(nodes, (tree, own, feature, mode, split, 0, 0), strict=True):
            nodes[name].append(value)
        if not leaf:
            nodes["truenodeids"][place] = add(tree, level + 1, ids)
            nodes["falsenodeids"][place] = add(tree, level + 1, ids)
        return own

    for tree in range(trees):
        add(tree, 0, [])
    return nodes


MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def forest(
    seed: int, trees: int, depth: int, features: int, modes: Sequence[str], votes: str, targets: int
) -> dict[str, Any]:
    """Attributes of random trees: each leaf speaks of one target, or of all."""
    rng, nodes = np.random.default_rng(seed), grow(seed, trees, depth, features, modes)
    leaves = [k for k, mode in enumerate(nodes["modes"]) if mode == "LEAF"]
    spoken = [(k, t) for k in leaves for t in range(targets)]
    missing = [int(flag) for flag in rng.integers(0, 2, len(nodes["modes"]))]
    return {
        **{f"nodes_{name}": column for name, column in nodes.items()},
        "nodes_missing_value_tracks_true": missing,
        f"{votes}_treeids": [nodes["treeids"][k] for k, _ in spoken],
        f"{votes}_nodeids": [nodes["nodeids"][k] for k, _ in spoken],
        f"{votes}_ids": [t for _, t in spoken],
        f"{votes}_weights": rng.normal(size=len(spoken)).astype(np.float32).tolist(),
    }


def spots(count: int, features: int, seed: int, dtype: Any) -> Array:
    """Rows of which many elements equal a split, or are NaN or infinite."""
    rng = np.random.default_rng(seed)
    x = rng.choice([-1, -0.5, 0, 0.5, 1, 0.3, -0.7], (count, features))
    if np.dtype(dtype).kind == "f":
        x = np.where(rng.random(x.shape) < 0.1, rng.choice([np.nan, np.inf, -np.inf], x.shape), x)
    return x.astype(dtype)


@settings(deadline=None, max_examples=6)
@given(
    seed=st.integers(0, 99),
    trees=st.sampled_from([1, 3, 11]),
    depth=st.integers(0, 5),
    targets=st.integers(1, 3),
    aggregate=st.sampled_from(["SUM", "AVERAGE", "MIN", "MAX"]),
    transform=st.sampled_from(TRANSFORMS),
    base=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
    count=st.sampled_from([1, 7, 8, 21]),
)
def test_tree_regressors_equal_onnx_runtime(
    seed: int,
    trees: int,
    depth: int,
    targets: int,
    aggregate: str,
    transform: str,
    base: bool,
    dtype: Any,
    count: int,
) -> None:
    compare(
        "TreeEnsembleRegressor",
        spots(count, 3, seed, dtype),
        n_targets=targets,
        aggregate_function=aggregate,
        post_transform=transform,
        base_values=numbers(targets, seed=8) if base else None,
        **forest(seed, trees, depth, 3, MODES[:1] if seed % 2 else MODES, "target", targets),
    )


def test_the_first_vote_of_a_leaf_counts_if_there_is_one_target() -> None:
    """skl2onnx writes such leaves for decision paths: each vote is the number of the leaf, once per class."""
    attributes = forest(3, 2, 3, 3, MODES[:1], "target", 3)
    leaves = np.array(attributes["target_nodeids"]) + np.tile(
        [0.0, 100, 200], len(attributes["target_ids"]) // 3
    )
    attributes |= {"target_ids": [0] * leaves.size, "target_weights": leaves.tolist()}
    compare("TreeEnsembleRegressor", spots(21, 3, 3, np.float32), n_targets=1, **attributes)


@settings(deadline=None, max_examples=6)
@given(
    seed=st.integers(0, 99),
    classes=st.integers(3, 5),
    transform=st.sampled_from(TRANSFORMS),
    base=st.booleans(),
    strings=st.booleans(),
    dtype=st.sampled_from(DTYPES),
)
def test_tree_classifiers_equal_onnx_runtime(
    seed: int, classes: int, transform: str, base: bool, strings: bool, dtype: Any
) -> None:
    compare(
        "TreeEnsembleClassifier",
        spots(13, 3, seed, dtype),
        post_transform=transform,
        base_values=numbers(classes, seed=8) if base else None,
        **forest(seed, 3, 3, 3, MODES, "class", classes),
        **labels_of(classes, strings, "classlabels_int64s"),
    )


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("voted", [0, 1])
@pytest.mark.parametrize("base", [None, [0.05], [0.05, 0.3]])
@pytest.mark.parametrize("positive", [True, False])
def test_trees_of_two_classes(transform: str, voted: int, base: list[float] | None, positive: bool) -> None:
    if voted == 1 and base is not None and len(base) == 2:
        pytest.skip("ONNX Runtime loses the votes here")
    attributes = forest(3, 4, 3, 3, MODES[:1], "class", 1)
    weights = attributes["class_weights"]
    attributes["class_weights"] = [abs(w) / 4 if positive else w for w in weights]
    attributes["class_ids"] = [voted] * len(weights)
    compare(
        "TreeEnsembleClassifier",
        rows(12, 3),
        post_transform=transform,
        base_values=base,
        classlabels_int64s=[7, 9],
        **attributes,
    )


def test_votes_for_the_second_class_count_if_there_are_two_base_values() -> None:
    """ONNX Runtime drops these votes, so it runs without base values."""
    attributes = forest(3, 4, 3, 3, MODES[:1], "class", 1)
    attributes["class_ids"] = [1] * len(attributes["class_ids"])
    x = rows(12, 3)

    def model(base: list[float] | None) -> Any:
        labels = {"classlabels_int64s": [7, 9]}
        return model_of("TreeEnsembleClassifier", {"x": x}, base_values=base, **labels, **attributes)

    votes = runtime(model(None), {"x": x})[1][:, 1]
    _, scores = gw.compile(model([0.05, 0.3]))(x)
    assert np.abs(votes).max() > 0.1
    np.testing.assert_allclose(scores, np.stack([0 * votes, votes + 0.3], 1), rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("mode", MODES)
def test_the_smallest_number_can_be_a_split(mode: str) -> None:
    least = np.finfo(np.float32).min
    nodes = {f"nodes_{name}": column for name, column in grow(0, 1, 1, 1, [mode]).items()}
    compare(
        "TreeEnsembleRegressor",
        np.array([[-np.inf], [least], [0], [np.inf], [np.nan]], np.float32),
        n_targets=1,
        target_treeids=[0, 0],
        target_nodeids=[1, 2],
        target_ids=[0, 0],
        target_weights=[1.0, 2.0],
        **nodes | {"nodes_values": [float(least), 0.0, 0.0]},
    )


def test_doubles_are_compared_as_doubles() -> None:
    split = 0.1
    x = np.array([[split], [np.nextafter(split, 1)]])
    attributes = grow(0, 1, 1, 1, MODES[:1])
    nodes: dict[str, Any] = {
        f"nodes_{name}": column for name, column in attributes.items() if name != "values"
    }
    values = helper.make_tensor("v", TensorProto.DOUBLE, [3], [split, 0.0, 0.0])
    weights = helper.make_tensor("w", TensorProto.DOUBLE, [2], [1.0, 2.0])
    compare(
        "TreeEnsembleRegressor",
        x,
        3,
        n_targets=1,
        nodes_values_as_tensor=values,
        target_weights_as_tensor=weights,
        target_treeids=[0, 0],
        target_nodeids=[1, 2],
        target_ids=[0, 0],
        **nodes,
    )


def test_numbers_of_trees_and_nodes_are_any_integers() -> None:
    """The same trees, whose numbers are neither small nor ascending."""
    attributes, x = forest(5, 4, 4, 3, MODES, "target", 2), rows(9, 3)
    wanted = runtime(model_of("TreeEnsembleRegressor", {"x": x}, n_targets=2, **attributes), {"x": x})
    for name, column in attributes.items():
        if name.endswith("treeids"):
            attributes[name] = [(-(2**63), 7, 2**62, -1)[tree] for tree in column]
        elif name.endswith("nodeids"):
            attributes[name] = [node * -(2**57) for node in column]
    found = gw.compile(model_of("TreeEnsembleRegressor", {"x": x}, n_targets=2, **attributes))(x)
    assert_same(found, wanted)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"nodes_truenodeids": [9, 0, 0]}, r"refers to the \(tree, node\) \(0, 9\)"),
        (
            {
                "nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF"],
                "nodes_truenodeids": [1, 0, 0],
                "nodes_falsenodeids": [2, 2, 0],
            },
            "has a cycle",
        ),
        ({"nodes_modes": ["BRANCH_ODD", "LEAF", "LEAF"]}, "its mode is unknown"),
        ({"nodes_nodeids": [0, 1, 1]}, "a node is listed twice"),
        ({"nodes_values": [1.0]}, "empty or differ in length"),
        ({"target_ids": [0, 3]}, "a target is not below 1"),
        ({"target_nodeids": [1, 9]}, r"refers to the \(tree, node\) \(0, 9\)"),
        ({"nodes_featureids": [7, 0, 0]}, "number of features"),
        ({"base_values": [1.0, 2.0]}, "2 base_values for 1 targets"),
        ({"post_transform": "CUBE"}, "'CUBE' is not one of"),
    ],
)
def test_bad_trees_are_rejected(change: dict[str, Any], fault: str) -> None:
    attributes: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_values": [0.5, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights": [1.0, 2.0],
        "n_targets": 1,
    }
    x = rows(2, 3)
    with pytest.raises(ModelError, match=fault):
        gw.compile(model_of("TreeEnsembleRegressor", {"x": x}, **{**attributes, **change}))


def test_trees_run_natively() -> None:
    attributes = forest(0, 5, 4, 3, MODES, "class", 3)
    model = model_of("TreeEnsembleClassifier", {"x": rows(1, 3)}, classlabels_int64s=[0, 1, 2], **attributes)
    assert gw.compile(model).stats()["host_calls"] == 0

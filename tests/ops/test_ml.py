"""The ops of ``ai.onnx.ml`` against ONNX Runtime: hand-written nodes, compiled and run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import graphwright as gw
from graphwright.errors import ModelError
from graphwright.runtime.executor import RunError

Array = np.ndarray[Any, Any]
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
CLASSIFIERS = {"LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"}
DTYPES = (np.float32, np.float64, np.int64, np.int32)


def model_of(op_type: str, inputs: dict[str, Any], version: int = 1, **attributes: Any) -> bytes:
    """A model of one node, whose inputs have open first axes."""
    outputs = ["labels", "scores"] if op_type in CLASSIFIERS else ["y"]
    given = {name: value for name, value in attributes.items() if value is not None}
    node = helper.make_node(op_type, list(inputs), outputs, domain="ai.onnx.ml", **given)
    typed = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(x.dtype), [f"{name}_rows", *x.shape[1:]]
        )
        for name, x in inputs.items()
    ]
    graph = helper.make_graph([node], "g", typed, [onnx.ValueInfoProto(name=name) for name in outputs])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", version)]
    model: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    return model


def runtime(model: bytes, inputs: dict[str, Any]) -> list[Any]:
    """What ONNX Runtime makes of it."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    made: list[Any] = onnxruntime.InferenceSession(model, options).run(None, inputs)
    return made


def compare(op_type: str, x: Array, version: int = 1, tolerance: float = 2e-5, **attributes: Any) -> None:
    """Assert that both engines give the same."""
    model = model_of(op_type, {"x": x}, version, **attributes)
    assert_same(gw.compile(model)(x), runtime(model, {"x": x}), tolerance)


def assert_same(actual: Sequence[Any], expected: Sequence[Any], tolerance: float = 2e-5) -> None:
    for a, e in zip(actual, expected, strict=True):
        if isinstance(e, list):
            assert [list(row) for row in a] == [list(row) for row in e]
            a, e = (np.array([list(row.values()) for row in rows]) for rows in (a, e))
        assert (a.dtype, a.shape) == (e.dtype, e.shape)
        if e.dtype == object:
            assert a.tolist() == e.tolist()
        else:
            scale = float(np.abs(e[np.isfinite(e)]).max(initial=1.0))
            np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance * scale)


def rows(count: int, features: int, seed: int = 0, dtype: Any = np.float32) -> Array:
    return (np.random.default_rng(seed).normal(size=(count, features)) * 2).astype(dtype)


def numbers(*shape: int, seed: int = 1) -> list[float]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32).ravel().tolist()


def labels_of(count: int, strings: bool, integers: str) -> dict[str, Any]:
    """The attribute of ``count`` labels."""
    if strings:
        return {"classlabels_strings": [f"class {k}" for k in range(count)]}
    return {integers: [7 * k - 3 for k in range(count)]}


# ---- linear models


@settings(deadline=None, max_examples=6)
@given(
    classes=st.integers(1, 4),
    count=st.sampled_from([1, 5]),
    features=st.integers(1, 4),
    transform=st.sampled_from(TRANSFORMS),
    strings=st.booleans(),
    dtype=st.sampled_from(DTYPES),
)
def test_linear_classifiers(
    classes: int, count: int, features: int, transform: str, strings: bool, dtype: Any
) -> None:
    compare(
        "LinearClassifier",
        rows(count, features, classes, dtype),
        coefficients=numbers(classes, features),
        intercepts=numbers(classes, seed=2),
        post_transform=transform,
        **labels_of(max(classes, 2), strings, "classlabels_ints"),
    )


@pytest.mark.parametrize("features", [1, 2])
def test_of_too_many_coefficients_the_first_are_taken(features: int) -> None:
    """As in ``logreg_iris.onnx``, an example of ONNX Runtime's: 12 coefficients, 3 classes, 2 features."""
    compare(
        "LinearClassifier",
        rows(5, features),
        coefficients=numbers(3, 4),
        intercepts=numbers(3, seed=2),
        post_transform="LOGISTIC",
        **labels_of(3, False, "classlabels_ints"),
    )


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("targets", [1, 3])
def test_linear_regressors(targets: int, transform: str) -> None:
    compare(
        "LinearRegressor",
        rows(5, 4),
        coefficients=numbers(targets, 4),
        intercepts=numbers(targets, seed=2) if targets > 1 else None,
        targets=targets,
        post_transform=transform,
    )


def test_probit_is_the_normal_quantile() -> None:
    """ONNX Runtime approximates it to three digits."""
    x = np.array([[0.025], [0.5], [0.8413447]], np.float32)
    model = model_of("LinearRegressor", {"x": x}, coefficients=[1.0], post_transform="PROBIT")
    np.testing.assert_allclose(gw.compile(model)(x)[0].ravel(), [-1.959964, 0, 1], atol=2e-6)
    np.testing.assert_allclose(runtime(model, {"x": x})[0].ravel(), [-1.959964, 0, 1], atol=5e-3)


# ---- support vectors

KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def svm(kernel: str, counts: Sequence[int], features: int) -> dict[str, Any]:
    """Attributes of support vectors, ``counts`` of each class."""
    total, classes = sum(counts), len(counts)
    return {
        "kernel_type": kernel,
        "kernel_params": [0.3, 0.5, 2.0],
        "vectors_per_class": list(counts),
        "support_vectors": numbers(total, features, seed=3),
        "coefficients": numbers(classes - 1, total, seed=4),
        "rho": numbers(classes * (classes - 1) // 2, seed=5),
    }


@settings(deadline=None, max_examples=6)
@given(
    counts=st.lists(st.integers(1, 4), min_size=2, max_size=4),
    kernel=st.sampled_from(KERNELS),
    transform=st.sampled_from(TRANSFORMS),
    chances=st.booleans(),
    strings=st.booleans(),
    dtype=st.sampled_from(DTYPES),
)
@example([1, 1, 1], "LINEAR", "SOFTMAX_ZERO", True, False, np.float32)  # a probability of 1e-8 is none
def test_svm_classifiers(
    counts: list[int], kernel: str, transform: str, chances: bool, strings: bool, dtype: Any
) -> None:
    pairs = len(counts) * (len(counts) - 1) // 2
    fitted = {"prob_a": [-abs(n) for n in numbers(pairs, seed=6)], "prob_b": numbers(pairs, seed=7)}
    compare(
        "SVMClassifier",
        rows(9, 3, len(counts), dtype),
        tolerance=1e-4,
        post_transform=transform,
        **svm(kernel, counts, 3),
        **(fitted if chances else {}),
        **labels_of(len(counts), strings, "classlabels_ints"),
    )


def test_svm_probabilities_are_native() -> None:
    fitted = {"prob_a": [-1.0] * 3, "prob_b": [0.5] * 3, "classlabels_ints": [4, 2, 9]}
    x = rows(4, 3)
    model = gw.compile(model_of("SVMClassifier", {"x": x}, **svm("RBF", [2, 1, 2], 3), **fitted))
    model(x)
    assert model.stats()["host_calls"] == 0


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("positive", [True, False])
def test_svm_classifiers_without_vectors(classes: int, positive: bool) -> None:
    coefficients = numbers(classes, 3)
    compare(
        "SVMClassifier",
        rows(20, 3),
        coefficients=[abs(c) if positive else c for c in coefficients],
        rho=[0.2],
        kernel_type="LINEAR",
        kernel_params=[0.0, 0.0, 0.0],
        classlabels_ints=[4, 2, 9][:classes],
    )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
@pytest.mark.parametrize("vectors", [0, 5])
def test_svm_regressors(kernel: str, one_class: int, vectors: int) -> None:
    compare(
        "SVMRegressor",
        rows(8, 3),
        tolerance=1e-4,
        kernel_type=kernel,
        kernel_params=[0.3, 0.5, 3.0],
        coefficients=numbers(vectors or 3),
        rho=[0.1],
        n_supports=vectors,
        support_vectors=numbers(vectors, 3, seed=3) if vectors else None,
        one_class=one_class,
    )


def test_gaussian_kernels_far_from_0_keep_their_precision() -> None:
    vectors = np.random.default_rng(0).normal(size=(6, 3)) + 1000
    x = (vectors + 0.1).astype(np.float32)
    weights = numbers(6)
    model = model_of(
        "SVMRegressor",
        {"x": x},
        kernel_type="RBF",
        kernel_params=[0.5, 0.0, 3.0],
        coefficients=weights,
        rho=[0.0],
        n_supports=6,
        support_vectors=vectors.astype(np.float32).ravel().tolist(),
    )
    apart = np.square(x.astype(np.float64)[:, None] - vectors.astype(np.float32).astype(np.float64)).sum(-1)
    wanted = np.exp(-0.5 * apart) @ np.array(weights)
    np.testing.assert_allclose(gw.compile(model)(x)[0].ravel(), wanted, rtol=2e-4, atol=1e-5)


# ---- trees


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
def test_tree_regressors(
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
    """The leaves of decision paths that skl2onnx writes: each vote is the leaf's number, once per class."""
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
def test_tree_classifiers(
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


def test_votes_for_the_second_class_count_beside_two_base_values() -> None:
    """ONNX Runtime loses them there, so it is asked without base values."""
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
def test_the_least_number_is_a_split(mode: str) -> None:
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
def test_bad_trees_are_refused(change: dict[str, Any], fault: str) -> None:
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


# ---- features


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [1, 3])
def test_scalers(dtype: Any, count: int) -> None:
    compare("Scaler", rows(4, 3, dtype=dtype), offset=numbers(count), scale=numbers(count, seed=2))


def test_scalers_round_doubles_last() -> None:
    compare("Scaler", np.array([[2.0**30 + 1, 3, 5]]), offset=[2.0**30], scale=[2.0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizers(dtype: Any, norm: str) -> None:
    x = rows(5, 3, dtype=dtype)
    x[1], x[2] = 0, -np.abs(x[2])
    compare("Normalizer", x, norm=norm)


@pytest.mark.parametrize("values", [[0.5], [0.5, -1.0, 2.0]])
@pytest.mark.parametrize("replaced", [float("nan"), 1.0])
def test_imputers_of_floats(values: list[float], replaced: float) -> None:
    x = rows(5, 3)
    x[1, 0] = x[2, 2] = np.nan
    x[3] = 1
    compare("Imputer", x, imputed_value_floats=values, replaced_value_float=replaced)


def test_imputers_of_integers() -> None:
    compare("Imputer", rows(5, 3, dtype=np.int64), imputed_value_int64s=[7, 8, 9], replaced_value_int64=0)


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.float64])
def test_one_hot_encoders(dtype: Any) -> None:
    compare("OneHotEncoder", rows(6, 2, dtype=dtype), cats_int64s=[-1, 0, 2, 1], zeros=1)


def test_one_hot_encoders_of_texts() -> None:
    x = np.array([["a"], ["?"], ["b"]], object)
    compare("OneHotEncoder", x, cats_strings=["b", "a"])
    strict = gw.compile(model_of("OneHotEncoder", {"x": x}, cats_strings=["b", "a"], zeros=0))
    with pytest.raises(RunError, match=r"'\?' is not a category"):
        strict(x)


def test_category_mappers() -> None:
    pairs: dict[str, Any] = {"cats_strings": ["a", "b"], "cats_int64s": [4, 5]}
    compare("CategoryMapper", np.array([["a"], ["b"], ["c"]], object), default_int64=-7, **pairs)
    compare("CategoryMapper", np.array([[5], [4], [6]]), default_string="none", **pairs)


KEYS = {"strings": ["a", "b", "c"], "int64s": [1, 2, 0], "floats": [0.5, float("nan"), -1.0]}
FED: dict[str, Any] = {
    "strings": np.array([["b"], ["?"], ["c"]], object),
    "int64s": np.array([[2], [9], [0]]),
    "floats": np.array([[np.nan], [0.25], [-1.0]], np.float32),
}


@pytest.mark.parametrize("version", [2, 4])
@pytest.mark.parametrize("keys", list(KEYS))
@pytest.mark.parametrize("values", list(KEYS))
def test_label_encoders(version: int, keys: str, values: str) -> None:
    """ONNX Runtime finds NaN from version 4 on, ONNX's text at version 2 already."""
    given: dict[str, Any] = {f"keys_{keys}": KEYS[keys], f"values_{values}": KEYS[values]}
    compare("LabelEncoder", FED[keys][int(version < 4) :], version, **given)


def test_of_equal_keys_one_counts() -> None:
    """The first; where they stand for categories, the last."""
    x, texts = np.array([[1], [2], [3]]), np.array([["a"], ["b"]], object)
    for version in (2, 4):
        compare("LabelEncoder", x, version, keys_int64s=[1, 2, 2, 1], values_int64s=[10, 20, 30, 40])
        compare("LabelEncoder", texts, version, keys_strings=["a", "a", "b"], values_int64s=[10, 20, 30])
    compare("LabelEncoder", texts, classes_strings=["a", "b", "a"])
    compare("CategoryMapper", texts, cats_strings=["a", "b", "a"], cats_int64s=[1, 2, 3])
    compare("CategoryMapper", x, cats_strings=["a", "b", "c"], cats_int64s=[1, 1, 3])


def test_feature_vectorizers() -> None:
    inputs = {"a": rows(4, 2), "b": rows(4, 3, 1), "c": rows(4, 1, 2)}
    model = model_of("FeatureVectorizer", inputs, inputdimensions=[2, 3, 1])
    assert_same(gw.compile(model)(*inputs.values()), runtime(model, inputs))


def test_feature_vectorizers_of_more_axes() -> None:
    x = rows(2, 12).reshape(2, 3, 4)
    compare("FeatureVectorizer", x, inputdimensions=[12])
    compare("FeatureVectorizer", rows(1, 3)[0], inputdimensions=[3])


def test_widths_that_the_model_leaves_open_must_be_those_of_the_attribute() -> None:
    model = onnx.load_from_string(model_of("FeatureVectorizer", {"x": rows(2, 3)}, inputdimensions=[3]))
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "W"
    made = gw.compile(model)
    np.testing.assert_array_equal(made(rows(2, 3))[0], rows(2, 3))
    with pytest.raises(gw.FeedError, match="input 'x', axis 1 is 3, not 4"):
        made(rows(2, 4))


# ---- maps


@pytest.mark.parametrize("strings", [True, False])
@pytest.mark.parametrize("shape", [(4, 3), (3,)])
def test_zip_maps(strings: bool, shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 8
    labels = labels_of(3, strings, "classlabels_int64s")
    model = model_of("ZipMap", {"x": x}, **labels)
    (made,), (wanted,) = gw.compile(model)(x), runtime(model, {"x": x})
    assert made == wanted
    assert [type(v) for row in made for pair in row.items() for v in pair] == [
        type(v) for row in wanted for pair in row.items() for v in pair
    ]


def test_maps_of_a_run_are_its_own() -> None:
    x = rows(3, 2)
    model = gw.compile(model_of("ZipMap", {"x": x}, classlabels_int64s=[5, 7]))
    wanted: Any = [dict(zip((5, 7), row, strict=True)) for row in x.tolist()]
    (made,) = model(x)
    assert made == wanted
    for each in made:
        each.clear()
    assert model(x) == (wanted,)
    assert model(rows(0, 2)) == ([],)


def mapped(op_type: str, key: int, element: int, **attributes: Any) -> bytes:
    """A model of one node that takes a map."""
    value = helper.make_tensor_type_proto(element, [])
    info = helper.make_value_info("x", helper.make_map_type_proto(key, value))
    node = helper.make_node(op_type, ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph([node], "g", [info], [onnx.ValueInfoProto(name="y")])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 1)]
    model: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    return model


T = TensorProto


@pytest.mark.parametrize(
    ("model", "fed"),
    [
        (
            mapped("DictVectorizer", T.STRING, T.FLOAT, string_vocabulary=["b", "a", "?"]),
            {"a": 1.5, "b": 2.0},
        ),
        (mapped("CastMap", T.INT64, T.FLOAT), {4: 0.5, 2: 1.5, 3: -2.0}),
        (mapped("CastMap", T.INT64, T.FLOAT, cast_to="TO_INT64"), {4: 0.5, 2: 1.5}),
        (mapped("CastMap", T.INT64, T.FLOAT, cast_to="TO_STRING"), {4: 0.5, 2: -1.25}),
        (mapped("CastMap", T.INT64, T.FLOAT, map_form="SPARSE", max_map=6), {4: 0.5, 2: 1.5}),
    ],
)
def test_maps_as_inputs(model: bytes, fed: Any) -> None:
    assert_same(gw.compile(model)(fed), runtime(model, {"x": fed}))


SPARSE = {"map_form": "SPARSE", "max_map": 4, "cast_to": "TO_STRING"}


@pytest.mark.parametrize(
    ("model", "fed", "wanted"),
    [
        (mapped("DictVectorizer", T.STRING, T.INT64, string_vocabulary=["b", "a"]), {"a": 3, "z": 2}, [0, 3]),
        (mapped("DictVectorizer", T.INT64, T.DOUBLE, int64_vocabulary=[4, 2]), {2: 0.5}, [0, 0.5]),
        (mapped("DictVectorizer", T.INT64, T.STRING, int64_vocabulary=[4, 2]), {2: "two"}, ["", "two"]),
        (mapped("CastMap", T.INT64, T.STRING, cast_to="TO_FLOAT"), {4: "0.5", 2: "2"}, [2, 0.5]),
        (mapped("CastMap", T.INT64, T.STRING, **SPARSE), {1: "x"}, ["", "x", "", ""]),
        (
            mapped("CastMap", T.INT64, T.STRING, cast_to="TO_INT64"),
            {4: "9007199254740993", 2: "-1.5"},
            [-1, 9007199254740993],
        ),
    ],
)
def test_maps_that_python_cannot_feed_to_onnx_runtime(model: bytes, fed: Any, wanted: list[Any]) -> None:
    made: Any = gw.compile(model).run({"x": fed})["y"]
    assert made.tolist() == [wanted]


@pytest.mark.parametrize("fed", [[1], {1: 2.0}, {"a": "text"}, {"a": None}, np.zeros(2), None])
def test_what_is_no_map(fed: Any) -> None:
    model = gw.compile(mapped("DictVectorizer", T.STRING, T.FLOAT, string_vocabulary=["a"]))
    with pytest.raises(gw.FeedError, match=r"takes a dict of type map\(string:f32\)"):
        model.run({"x": fed})


def test_sessions_name_maps_as_onnx_runtime_does() -> None:
    x = rows(2, 2)
    model = model_of("ZipMap", {"x": x}, classlabels_int64s=[0, 1])
    theirs = onnxruntime.InferenceSession(model).get_outputs()[0].type
    assert gw.InferenceSession(model).get_outputs()[0].type == theirs
    model = mapped("DictVectorizer", T.STRING, T.FLOAT, string_vocabulary=["a"])
    theirs = onnxruntime.InferenceSession(model).get_inputs()[0].type
    assert gw.InferenceSession(model).get_inputs()[0].type == theirs


def test_packages_keep_maps(tmp_path: Any) -> None:
    x = rows(3, 2)
    model = gw.compile(model_of("ZipMap", {"x": x}, classlabels_strings=["a", "b"]))
    model.save(tmp_path / "m.om")
    wanted: Any = [dict(zip("ab", row, strict=True)) for row in x.tolist()]
    for (made,) in (model(x), gw.load(tmp_path / "m.om")(x)):
        assert made == wanted

"""Linear classifiers and regressors of ``ai.onnx.ml`` compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright as gw
from tests.ops.ml.support import DTYPES, TRANSFORMS, compare, labels_of, model_of, numbers, rows, runtime


@settings(deadline=None, max_examples=6)
@given(
    classes=st.integers(1, 4),
    count=st.sampled_from([1, 5]),
    features=st.integers(1, 4),
    transform=st.sampled_from(TRANSFORMS),
    strings=st.booleans(),
    dtype=st.sampled_from(DTYPES),
)
def test_linear_classifiers_equal_onnx_runtime(
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
def test_only_the_first_of_too_many_coefficients_are_used(features: int) -> None:
    """``logreg_iris.onnx``, an example of ONNX Runtime, has 12 coefficients for 3 classes and 2 features."""
    compare(
        "LinearClassifier",
        rows(5, features),
        coefficients=numbers(3, 4),
        intercepts=numbers(3, seed=2),
        post_transform="LOGISTIC",
        **labels_of(3, strings=False, integers="classlabels_ints"),
    )


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("targets", [1, 3])
def test_linear_regressors_equal_onnx_runtime(targets: int, transform: str) -> None:
    compare(
        "LinearRegressor",
        rows(5, 4),
        coefficients=numbers(targets, 4),
        intercepts=numbers(targets, seed=2) if targets > 1 else None,
        targets=targets,
        post_transform=transform,
    )


def test_probit_is_the_normal_quantile() -> None:
    """ONNX Runtime's approximation has three digits."""
    x = np.array([[0.025], [0.5], [0.8413447]], np.float32)
    model = model_of("LinearRegressor", {"x": x}, coefficients=[1.0], post_transform="PROBIT")
    np.testing.assert_allclose(gw.compile(model)(x)[0].ravel(), [-1.959964, 0, 1], atol=2e-6)
    np.testing.assert_allclose(runtime(model, {"x": x})[0].ravel(), [-1.959964, 0, 1], atol=5e-3)


@pytest.mark.parametrize("integers", ["classlabels_ints", "classlabels_int64s"])
def test_probit_gives_a_score_for_each_of_two_classes(integers: str) -> None:
    """ONNX Runtime writes only one of the two scores; the other one is what was in memory before."""
    x = np.array([[0.025], [0.5], [0.8413447]], np.float32)
    linear = {"coefficients": [1.0], "intercepts": [0.0]}
    stump = {
        "nodes_treeids": [0], "nodes_nodeids": [0], "nodes_modes": ["LEAF"], "nodes_values": [0.0],
        "nodes_featureids": [0], "nodes_truenodeids": [0], "nodes_falsenodeids": [0],
        "class_treeids": [0], "class_nodeids": [0], "class_ids": [0], "class_weights": [0.8413447],
    }  # fmt: skip
    name, given, second = {
        "classlabels_ints": ("LinearClassifier", linear, [-1.959964, 0, 1]),
        "classlabels_int64s": ("TreeEnsembleClassifier", stump, [1, 1, 1]),
    }[integers]
    model = model_of(
        name, {"x": x}, post_transform="PROBIT", **given, **labels_of(2, strings=False, integers=integers)
    )
    expected = np.stack([-np.array(second), second], 1)
    np.testing.assert_allclose(gw.compile(model)(x)[1], expected, atol=3e-6)

"""Support vector machines of ``ai.onnx.ml`` compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import graphwright as gw
from tests.ops.ml.support import DTYPES, TRANSFORMS, compare, labels_of, model_of, numbers, rows

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
def test_svm_classifiers_equal_onnx_runtime(
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
def test_svm_regressors_equal_onnx_runtime(kernel: str, one_class: int, vectors: int) -> None:
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

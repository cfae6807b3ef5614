"""Import of TreeEnsembleClassifier, whose trees vote for classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Importer
from graphwright.ir.types import F32
from graphwright.ops.core.binary import Add
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.slice import Slice
from graphwright.ops.ml.post_transforms import (
    DOMAIN,
    best_label,
    class_labels,
    label_above,
    post_transform,
    transformed,
    two_scores,
)
from graphwright.ops.ml.tree_ensemble import TreeEnsemble, Trees
from graphwright.ops.ml.tree_ensemble_regressor import numbers, read_trees, typed_rows


def _import(i: Importer) -> Any:
    labels, transform = class_labels(i, "classlabels_int64s"), post_transform(i)
    trees, base = read_trees(i, "class", "class_ids"), numbers(i, "base_values")
    classes = np.unique(trees.targets)
    if base.size > len(labels):
        raise i.fail(
            f"{base.size} base_values for {len(labels)} classes: each class needs one",
            "export the model again",
        )
    if len(labels) == 2 and classes.size == 1:
        return _two_classes(i, trees, int(classes[0]), base, labels, transform)
    y = _scores(i, trees, max(len(labels), int(classes[-1]) + 1), base)
    return best_label(i, y, labels), transformed(i, y, transform)


def _two_classes(i: Importer, trees: Trees, voted: int, base: Array, labels: Array, transform: str) -> Any:
    """Labels and scores of two classes if all votes are for the class ``voted``, as in ONNX Runtime.

    The sum of the votes is the score of the second class, which is the label if this score is above a
    threshold: 1/2 if no weight is negative, else 0. If the votes are for class 1, or if both classes have
    base values, the class without votes has score 0; else its score follows from the score of the second
    class.
    """
    positive = bool((trees.weights >= 0).all())
    threshold = 0.5 if positive else 0.0
    single_score = voted == 0 and base.size < 2
    base = base if single_score else np.where(np.arange(base.size) == voted, base, 0)
    y = _scores(i, trees, 1 if single_score else 2, base)
    if single_score:
        return label_above(i, y, threshold, labels), two_scores(i, y, transform, complement=positive)
    decisive = i.emit(Slice((voted,), (voted + 1,), (1,), (1,)), y)
    return label_above(i, decisive, threshold, labels), transformed(i, y, transform)


def _scores(i: Importer, trees: Trees, classes: int, base: Array) -> Value:
    """The sums of the votes for each class plus the base values, f32[N, classes]."""
    y = trees.emit(i, typed_rows(i), classes, "SUM")
    if base.any():
        padded = np.zeros(classes, y.type.dtype.numpy)
        padded[: base.size] = base
        y = i.emit(Add(), y, i.const(padded))
    return as_dtype(i.builder, y, F32)


TreeEnsemble.onnx = {**TreeEnsemble.onnx, ("TreeEnsembleClassifier", 1, DOMAIN): _import}

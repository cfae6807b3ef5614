"""TreeEnsembleClassifier: trees that vote for classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Importer
from graphwright.ir.types import F32
from graphwright.ops.core.binary import Add
from graphwright.ops.core.slice import Slice
from graphwright.ops.ml.post_transforms import (
    DOMAIN,
    as_type,
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
        raise i.fail(f"{base.size} base_values for {len(labels)} classes", "export the model again")
    if len(labels) == 2 and classes.size == 1:
        return _of_two(i, trees, int(classes[0]), base, labels, transform)
    y = trees.emit(i, typed_rows(i), max(len(labels), int(classes[-1]) + 1), "SUM")
    y = _with_base(i, y, base)
    return best_label(i, y, labels), transformed(i, y, transform)


def _of_two(i: Importer, trees: Trees, voted: int, base: Array, labels: Array, transform: str) -> Any:
    """Two classes of which the leaves know one: as ONNX Runtime has it, their sum is the score of the second,
    which is taken above 1/2 where no weight is negative, and above 0 where one is.

    Where the leaves speak of class 1, or there are base values for both, a class that they do not know has 0.
    """
    positive = bool((trees.weights >= 0).all())
    threshold = 0.5 if positive else 0.0
    alone = voted == 0 and base.size < 2
    y = trees.emit(i, typed_rows(i), 1 if alone else 2, "SUM")
    y = _with_base(i, y, base if alone else np.where(np.arange(base.size) == voted, base, 0))
    if alone:
        return label_above(i, y, threshold, labels), two_scores(i, y, transform, complement=positive)
    decisive = i.emit(Slice((voted,), (voted + 1,), (1,), (1,)), y)
    return label_above(i, decisive, threshold, labels), transformed(i, y, transform)


def _with_base(i: Importer, y: Value, base: Array) -> Value:
    """Scores [N, classes] as f32, with what classes start from."""
    if base.any():
        classes = y.type.dims[1]
        assert isinstance(classes, int)
        padded = np.zeros(classes, y.type.dtype.numpy)
        padded[: base.size] = base
        y = i.emit(Add(), y, i.const(padded))
    return as_type(i, y, F32)


TreeEnsemble.onnx = {**TreeEnsemble.onnx, ("TreeEnsembleClassifier", 1, DOMAIN): _import}

"""Import of LinearClassifier: a matrix multiplication, and the label of the best score."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Importer
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.ml.linear_regressor import linear
from graphwright.ops.ml.post_transforms import (
    DOMAIN,
    best_label,
    class_labels,
    label_above,
    matrix,
    post_transform,
    transformed,
    two_scores,
    vector,
)


def _import(i: Importer) -> Any:
    """Outputs: labels and scores. A single row of coefficients, for two classes, is that of the
    second class.
    """
    labels, transform = class_labels(i, "classlabels_ints"), post_transform(i)
    given = i.attr("intercepts")
    count = len(given or labels)
    if len(labels) != max(count, 2):
        raise i.fail(
            f"{len(labels)} labels for {count} rows of coefficients: the numbers must be equal",
            "export the model again",
        )
    intercepts = vector(i, "intercepts", count) if given else np.zeros(count, np.float32)
    y = linear(i, matrix(i, "coefficients", count), intercepts)
    if count == 1:
        return label_above(i, y, 0.0, labels), two_scores(i, y, transform, complement=True)
    return best_label(i, y, labels), transformed(i, y, transform)


MatMul.onnx = {**MatMul.onnx, ("LinearClassifier", 1, DOMAIN): _import}

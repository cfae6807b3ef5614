"""Import of LinearRegressor as a matrix multiplication."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Importer
from graphwright.ops.core.binary import Add
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.ml.post_transforms import (
    DOMAIN,
    feature_rows,
    matrix,
    post_transform,
    transformed,
    transformed_alone,
    vector,
)


def linear(i: Importer, coefficients: Array, intercepts: Array) -> Value:
    """The input rows times ``coefficients``, f32[targets, features], plus ``intercepts``.

    If there are coefficients for more features than the input has, the first ones are used, as in ONNX
    Runtime: one of its example models is of this kind.
    """
    targets, features = coefficients.shape
    *_, given = i.input(0).type.shape or (None,)
    if isinstance(given, int) and given < features:
        features = given
        coefficients = coefficients.ravel()[: targets * features].reshape(targets, features)
    x = feature_rows(i, features)
    product = i.emit(MatMul(), x, i.const(np.ascontiguousarray(coefficients.T)))
    y: Value = i.emit(Add(), product, i.const(intercepts)) if intercepts.any() else product
    return y


def _import(i: Importer) -> Any:
    targets, transform = int(i.attr("targets", 1)), post_transform(i)
    intercepts = vector(i, "intercepts", targets) if i.attr("intercepts") else np.zeros(targets, np.float32)
    y = linear(i, matrix(i, "coefficients", targets), intercepts)
    return transformed_alone(i, y, transform) if targets == 1 else transformed(i, y, transform)


MatMul.onnx = {**MatMul.onnx, ("LinearRegressor", 1, DOMAIN): _import}

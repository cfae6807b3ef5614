"""Import of SVMRegressor, and the kernel matrix, which SVMClassifier uses too."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Importer
from graphwright.ops.core.binary import Add, Greater, Max, Mul, Sub
from graphwright.ops.core.exp import Exp
from graphwright.ops.core.imports import scalar
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.pow import Pow
from graphwright.ops.core.reductions import ReduceSumSquare
from graphwright.ops.core.unary import Tanh
from graphwright.ops.core.where import Where
from graphwright.ops.ml.linear_regressor import linear
from graphwright.ops.ml.post_transforms import (
    DOMAIN,
    feature_rows,
    matrix,
    post_transform,
    transformed_alone,
    vector,
)

KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def kernel_matrix(i: Importer, vectors: Array) -> Value:
    """The kernel function of each row of input 0 and each of the support ``vectors``: [N, vectors]."""
    kind, x = str(i.attr("kernel_type", "LINEAR")), feature_rows(i, vectors.shape[1])
    gamma, offset, degree = vector(i, "kernel_params", 3, (0.0, 0.0, 0.0)).tolist()
    if kind not in KERNELS:
        raise i.fail(f"kernel_type {kind!r} is not one of {', '.join(KERNELS)}")
    if kind == "RBF":
        return _gaussian(i, x, vectors, gamma)
    dot: Value = i.emit(MatMul(), x, i.const(np.ascontiguousarray(vectors.T)))
    if kind == "LINEAR":
        return dot
    affine = i.emit(Add(), i.emit(Mul(), dot, scalar(i, gamma, dot)), scalar(i, offset, dot))
    kernel: Value = (
        i.emit(Tanh(), affine) if kind == "SIGMOID" else i.emit(Pow(), affine, scalar(i, degree, affine))
    )
    return kernel


def _gaussian(i: Importer, x: Value, vectors: Array, gamma: float) -> Value:
    """The kernel ``exp(-gamma |x - v|²)``, where the square is computed as ``|x|² + |v|² - 2 x v``.

    Rounding may make this square negative, so it is clamped to 0. The mean of the vectors is subtracted from
    both operands first; this keeps the rounding error small if the vectors are far from 0.
    """
    mean = vectors.mean(0, dtype=np.float64)
    centerd = vectors.astype(np.float64) - mean
    x = i.emit(Sub(), x, i.const(mean.astype(np.float32)))
    double_dot = i.emit(MatMul(), x, i.const(np.ascontiguousarray(2 * centerd.T).astype(np.float32)))
    x_square = i.emit(ReduceSumSquare((1,)), x)
    v_square = i.const(np.square(centerd).sum(1).astype(np.float32))
    square = i.emit(Sub(), i.emit(Add(), x_square, v_square), double_dot)
    square = i.emit(Max(), square, scalar(i, 0, square))
    kernel: Value = i.emit(Exp(), i.emit(Mul(), square, scalar(i, -gamma, square)))
    return kernel


def _import(i: Importer) -> Any:
    count, rho, transform = int(i.attr("n_supports", 0)), i.required_attr("rho")[:1], post_transform(i)
    if not rho:
        raise i.fail("rho is empty; it must have a number", "export the model again")
    offset = np.array(rho, np.float32)
    if count > 0:
        weights = np.ascontiguousarray(vector(i, "coefficients", count).reshape(count, 1))
        y = i.emit(MatMul(), kernel_matrix(i, matrix(i, "support_vectors", count)), i.const(weights))
        y = i.emit(Add(), y, i.const(offset))
    else:
        y = linear(i, matrix(i, "coefficients", 1), offset)
    if i.attr("one_class", 0):
        inside = i.emit(Greater(), y, scalar(i, 0, y))
        return i.emit(Where(), inside, scalar(i, 1, y), scalar(i, -1, y))
    return transformed_alone(i, y, transform)


MatMul.onnx = {**MatMul.onnx, ("SVMRegressor", 1, DOMAIN): _import}

"""SVMRegressor and what it shares with SVMClassifier: rows compared with support vectors by a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Importer
from graphwright.ops.core.binary import Add, Greater, Max, Mul, Pow, Sub, Where
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.reductions import ReduceSumSquare
from graphwright.ops.core.unary import Exp, Tanh
from graphwright.ops.ml.linear_regressor import linear
from graphwright.ops.ml.post_transforms import (
    DOMAIN,
    feature_rows,
    matrix,
    number,
    post_transform,
    transformed_alone,
    vector,
)

KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def compared(i: Importer, vectors: Array) -> Value:
    """The kernel function of each row of input 0 and each of ``vectors``: [N, vectors]."""
    kind, x = str(i.attr("kernel_type", "LINEAR")), feature_rows(i, vectors.shape[1])
    gamma, offset, degree = vector(i, "kernel_params", 3, (0.0, 0.0, 0.0)).tolist()
    if kind not in KERNELS:
        raise i.fail(f"kernel_type {kind!r} is not one of {', '.join(KERNELS)}")
    if kind == "RBF":
        return _gaussian(i, x, vectors, gamma)
    dot: Value = i.emit(MatMul(), x, i.const(np.ascontiguousarray(vectors.T)))
    if kind == "LINEAR":
        return dot
    moved = i.emit(Add(), i.emit(Mul(), dot, number(i, gamma, dot)), number(i, offset, dot))
    made: Value = (
        i.emit(Tanh(), moved) if kind == "SIGMOID" else i.emit(Pow(), moved, number(i, degree, moved))
    )
    return made


def _gaussian(i: Importer, x: Value, vectors: Array, gamma: float) -> Value:
    """``exp(-gamma |x - v|²)``, the square as ``|x|² + |v|² - 2 x v``, which rounding takes below 0 at most.

    All is taken from the vectors' mean, for the sake of those that lie far from 0.
    """
    centre = vectors.mean(0, dtype=np.float64)
    moved = vectors.astype(np.float64) - centre
    x = i.emit(Sub(), x, i.const(centre.astype(np.float32)))
    double = i.emit(MatMul(), x, i.const(np.ascontiguousarray(2 * moved.T).astype(np.float32)))
    own = i.emit(ReduceSumSquare((1,)), x)
    theirs = i.const(np.square(moved).sum(1).astype(np.float32))
    square = i.emit(Sub(), i.emit(Add(), own, theirs), double)
    square = i.emit(Max(), square, number(i, 0, square))
    made: Value = i.emit(Exp(), i.emit(Mul(), square, number(i, -gamma, square)))
    return made


def _import(i: Importer) -> Any:
    count, rho, transform = int(i.attr("n_supports", 0)), i.required_attr("rho")[:1], post_transform(i)
    if not rho:
        raise i.fail("rho has no number", "export the model again")
    offset = np.array(rho, np.float32)
    if count > 0:
        weights = np.ascontiguousarray(vector(i, "coefficients", count).reshape(count, 1))
        y = i.emit(MatMul(), compared(i, matrix(i, "support_vectors", count)), i.const(weights))
        y = i.emit(Add(), y, i.const(offset))
    else:
        y = linear(i, matrix(i, "coefficients", 1), offset)
    if i.attr("one_class", 0):
        inside = i.emit(Greater(), y, number(i, 0, y))
        return i.emit(Where(), inside, number(i, 1, y), number(i, -1, y))
    return transformed_alone(i, y, transform)


MatMul.onnx = {**MatMul.onnx, ("SVMRegressor", 1, DOMAIN): _import}

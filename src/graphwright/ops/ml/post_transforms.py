"""What classifiers and regressors of ``ai.onnx.ml`` share: rows of features, transforms of scores, labels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Importer
from graphwright.ir.types import F32, I64, DType
from graphwright.ops.core.arg_reduce import ArgMax
from graphwright.ops.core.binary import Greater, LessOrEqual, Sub, Where
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.squeeze import Squeeze
from graphwright.ops.core.unary import Abs, Neg, Sigmoid
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.ml.probit import Probit
from graphwright.ops.nn.softmax import Softmax

DOMAIN = "ai.onnx.ml"
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
NO_SCORE = 1e-7
"""The largest score that SOFTMAX_ZERO takes for 0 (ml_common.h of ONNX Runtime)."""


def feature_rows(i: Importer, features: int) -> Value:
    """Input 0 as f32[N, features]; a vector is one row."""
    x = rows_of_features(i)
    if isinstance(x.type.dims[1], int) and x.type.dims[1] != features:
        raise i.fail(f"the input has {x.type.dims[1]} features, the model has {features}")
    return as_type(i, x, F32)


def rows_of_features(i: Importer) -> Value:
    """Input 0 with rows; a vector is one."""
    x = i.input(0)
    if x.type.rank not in (1, 2):
        raise i.fail(f"the input is {x.type}; it must be rows of features", "give its sizes with shapes=")
    return in_rows(i, x)


def in_rows(i: Importer, x: Value) -> Value:
    """``x`` with rows: one of a vector."""
    made: Value = i.emit(Unsqueeze((0,)), x) if x.type.rank == 1 else x
    return made


def post_transform(i: Importer) -> str:
    """The attribute, checked."""
    name = str(i.attr("post_transform", "NONE"))
    if name not in TRANSFORMS:
        raise i.fail(f"post_transform {name!r} is not one of {', '.join(TRANSFORMS)}")
    return name


def transformed(i: Importer, y: Value, transform: str) -> Value:
    """Scores [N, classes], transformed along each row. With ``SOFTMAX_ZERO`` scores of 0 stay 0, and so
    do those that ONNX Runtime takes for 0.
    """
    if transform == "NONE":
        return y
    if transform == "SOFTMAX_ZERO":
        zero, least = number(i, 0, y), number(i, -math.inf, y)
        absent = i.emit(LessOrEqual(), i.emit(Abs(), y), number(i, NO_SCORE, y))
        present = i.emit(Softmax(), i.emit(Where(), absent, least, y))
        chosen: Value = i.emit(Where(), absent, zero, present)
        return chosen
    op = {"SOFTMAX": Softmax(), "LOGISTIC": Sigmoid(), "PROBIT": Probit()}[transform]
    made: Value = i.emit(op, y)
    return made


def transformed_alone(i: Importer, y: Value, transform: str) -> Value:
    """Scores [N, 1] of a regression: ONNX Runtime, and so every exporter, takes PROBIT alone to speak of
    them.
    """
    return transformed(i, y, transform) if transform == "PROBIT" else y


def two_scores(i: Importer, y: Value, transform: str, complement: bool) -> Value:
    """Scores [N, 2] of two classes from the only one, y[N, 1], as ONNX Runtime has them.

    The first class has ``1 - y`` (``complement``) or ``-y``. Of the transforms LOGISTIC alone is made; with
    PROBIT there is one score only.
    """
    if transform == "PROBIT":
        return transformed(i, y, transform)
    if transform == "LOGISTIC":
        pair = i.emit(Sigmoid(), i.emit(Neg(), y)), i.emit(Sigmoid(), y)
    else:
        pair = i.emit(Sub(), number(i, 1 if complement else 0, y), y), y
    made: Value = i.emit(Concat(-1), *pair)
    return made


def as_type(i: Importer, x: Value, dtype: DType) -> Value:
    """``x`` as ``dtype``; itself if it is one."""
    made: Value = x if x.type.dtype == dtype else i.emit(Cast(dtype), x)
    return made


def number(i: Importer, value: float, like: Value) -> Value:
    """A constant of the dtype of ``like``."""
    return i.const(np.asarray(value, like.type.dtype.numpy))


def best_label(i: Importer, scores: Value, labels: Array) -> Value:
    """The label of the first of the largest scores of each row."""
    made: Value = i.emit(Gather(), i.const(labels), i.emit(ArgMax(1, False), scores))
    return made


def label_above(i: Importer, score: Value, threshold: float, labels: Array) -> Value:
    """Of two labels the second where ``score``, [N, 1], is above ``threshold``."""
    above = i.emit(Greater(), i.emit(Squeeze((1,)), score), number(i, threshold, score))
    made: Value = i.emit(Gather(), i.const(labels), i.emit(Cast(I64), above))
    return made


def class_labels(i: Importer, integers: str) -> Array:
    """The classes' labels: those of the attribute ``integers``, or strings."""
    strings, numbers = i.attr("classlabels_strings"), i.attr(integers)
    if bool(strings) == bool(numbers):
        raise i.fail(
            f"exactly one of classlabels_strings and {integers} must be given", "export the model again"
        )
    return np.array(strings, dtype=object) if strings else np.array(numbers, dtype=np.int64)


def matrix(i: Importer, name: str, rows: int) -> Array:
    """The floats of an attribute as f32[rows, ...]."""
    values = np.array(i.required_attr(name), np.float32)
    if rows < 1 or not values.size or values.size % rows:
        raise i.fail(f"{name} are {values.size} numbers in {rows} rows", "export the model again")
    return values.reshape(rows, -1)


def vector(i: Importer, name: str, count: int, default: Any = None) -> Array:
    """The floats of an attribute, of which there must be ``count``."""
    values = np.array(i.required_attr(name) if default is None else i.attr(name, default), np.float32)
    if values.size != count:
        raise i.fail(f"{name} are {values.size} numbers, {count} are needed", "export the model again")
    return values

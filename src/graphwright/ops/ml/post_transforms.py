"""Shared steps of the importers of classifiers and regressors of ``ai.onnx.ml``: they read the rows of
features and the attributes, transform the scores (``post_transform``), and select the labels.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Importer
from graphwright.ir.types import F32, I64
from graphwright.ops.core.arg_reduce import ArgMax
from graphwright.ops.core.binary import Greater, LessOrEqual, Sub
from graphwright.ops.core.cast import Cast, as_dtype
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.imports import scalar
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.shape import Shape
from graphwright.ops.core.squeeze import Squeeze
from graphwright.ops.core.unary import Abs, Neg, Sigmoid
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.core.where import Where
from graphwright.ops.ml.probit import Probit
from graphwright.ops.nn.softmax import Softmax

DOMAIN = "ai.onnx.ml"
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
ZERO_SCORE = 1e-7
"""SOFTMAX_ZERO treats a score as 0 if its absolute value is at most this (ml_common.h of ONNX Runtime)."""


def feature_rows(i: Importer, features: int) -> Value:
    """Input 0 as f32[N, features]; a vector is one row."""
    x = rows_of_features(i)
    *_, given = x.type.shape or (None,)
    if isinstance(given, int) and given != features:
        raise i.fail(f"the input has {given} features, but the model has {features}")
    return as_dtype(i.builder, x, F32)


def rows_of_features(i: Importer) -> Value:
    """Input 0 as a matrix [N, features]; a vector becomes one row."""
    x = i.input(0)
    if x.type.rank is None:
        sizes = i.emit(Concat(0), i.const(np.array([-1])), i.emit(Shape(-1), x))
        rows: Value = i.emit(Reshape(), x, sizes)
        return rows
    if x.type.rank not in (1, 2):
        raise i.fail(f"the input is {x.type}; it must be [N, features]")
    return in_rows(i, x)


def in_rows(i: Importer, x: Value) -> Value:
    """``x``, or a matrix of one row if ``x`` is a vector."""
    rows: Value = i.emit(Unsqueeze((0,)), x) if x.type.rank == 1 else x
    return rows


def post_transform(i: Importer) -> str:
    """The attribute ``post_transform``. Raise the importer's error if its value is not one of the
    ONNX spec.
    """
    name = str(i.attr("post_transform", "NONE"))
    if name not in TRANSFORMS:
        raise i.fail(f"post_transform {name!r} is not one of {', '.join(TRANSFORMS)}")
    return name


def transformed(i: Importer, y: Value, transform: str) -> Value:
    """The scores ``y`` [N, classes], transformed along each row. ``SOFTMAX_ZERO`` applies softmax to the
    nonzero scores; scores that are 0 to within ``ZERO_SCORE`` become 0.
    """
    if transform == "NONE":
        return y
    if transform == "SOFTMAX_ZERO":
        zero, least = scalar(i, 0, y), scalar(i, -math.inf, y)
        is_zero = i.emit(LessOrEqual(), i.emit(Abs(), y), scalar(i, ZERO_SCORE, y))
        softmax = i.emit(Softmax(), i.emit(Where(), is_zero, least, y))
        scores: Value = i.emit(Where(), is_zero, zero, softmax)
        return scores
    op = {"SOFTMAX": Softmax(), "LOGISTIC": Sigmoid(), "PROBIT": Probit()}[transform]
    scores = i.emit(op, y)
    return scores


def transformed_alone(i: Importer, y: Value, transform: str) -> Value:
    """The scores ``y`` [N, 1] of a regression. Only PROBIT has an effect here: ONNX Runtime ignores the other
    transforms of a single score, and exporters rely on this.
    """
    return transformed(i, y, transform) if transform == "PROBIT" else y


def two_scores(i: Importer, y: Value, transform: str, complement: bool) -> Value:
    """Scores [N, 2] of two classes, from the score ``y`` [N, 1] of the second class, as in ONNX Runtime.

    The score of the first class is ``1 - y`` (``complement``) or ``-y``. Only LOGISTIC and PROBIT are applied
    to the two scores.
    """
    if transform == "LOGISTIC":
        pair = i.emit(Sigmoid(), i.emit(Neg(), y)), i.emit(Sigmoid(), y)
    else:
        pair = i.emit(Sub(), scalar(i, 1 if complement else 0, y), y), y
    scores: Value = i.emit(Concat(-1), *pair)
    return transformed(i, scores, transform) if transform == "PROBIT" else scores


def best_label(i: Importer, scores: Value, labels: Array) -> Value:
    """The label of the largest score of each row; of equal scores, the first one counts."""
    label: Value = i.emit(Gather(), i.const(labels), i.emit(ArgMax(1, keepdims=False), scores))
    return label


def label_above(i: Importer, score: Value, threshold: float, labels: Array) -> Value:
    """The second of two labels where ``score`` [N, 1] is above ``threshold``; elsewhere the first label."""
    above = i.emit(Greater(), i.emit(Squeeze((1,)), score), scalar(i, threshold, score))
    label: Value = i.emit(Gather(), i.const(labels), i.emit(Cast(I64), above))
    return label


def class_labels(i: Importer, integers: str) -> Array:
    """The labels of the classes, from the attribute named ``integers`` or from ``classlabels_strings``."""
    strings, numbers = i.attr("classlabels_strings"), i.attr(integers)
    if bool(strings) == bool(numbers):
        raise i.fail(
            f"exactly one of classlabels_strings and {integers} must be given", "export the model again"
        )
    return np.array(strings, dtype=object) if strings else np.array(numbers, dtype=np.int64)


def matrix(i: Importer, name: str, rows: int) -> Array:
    """The floats of the attribute ``name`` as an f32 matrix with ``rows`` rows."""
    values = np.array(i.required_attr(name), np.float32)
    if rows < 1 or not values.size or values.size % rows:
        raise i.fail(
            f"{name} has {values.size} numbers, which do not fill {rows} equal rows", "export the model again"
        )
    return values.reshape(rows, -1)


def vector(i: Importer, name: str, count: int, default: Any = None) -> Array:
    """The floats of the attribute ``name`` as an f32 vector. Their number must be ``count``."""
    values = np.array(i.required_attr(name) if default is None else i.attr(name, default), np.float32)
    if values.size != count:
        raise i.fail(f"{name} has {values.size} numbers; there must be {count}", "export the model again")
    return values

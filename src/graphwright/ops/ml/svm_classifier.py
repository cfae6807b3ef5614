"""Import of SVMClassifier: a score for each pair of classes, and from these scores the label and the scores
of the classes.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Importer
from graphwright.ir.types import F32, I64
from graphwright.ops.core.arg_reduce import ArgMax
from graphwright.ops.core.binary import Add, Greater, GreaterOrEqual, Max, Mul
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.clip import Clip
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.imports import scalar
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.reductions import ReduceMax
from graphwright.ops.core.unary import Neg, Sigmoid
from graphwright.ops.ml.linear_regressor import linear
from graphwright.ops.ml.pairwise_coupling import PairwiseCoupling
from graphwright.ops.ml.post_transforms import (
    DOMAIN,
    best_label,
    class_labels,
    matrix,
    post_transform,
    transformed,
    two_scores,
    vector,
)
from graphwright.ops.ml.svm_regressor import kernel_matrix

MIN_PROBABILITY = 1e-7
"""Probabilities of pairs are clipped to this distance from 0 and 1 (LIBSVM; Chang and Lin, 2011)."""


def _import(i: Importer) -> Any:
    labels, counts = class_labels(i, "classlabels_ints"), i.attr("vectors_per_class") or ()
    if sum(counts) <= 0:
        return _linear(i, labels)
    if len(counts) != len(labels) or len(labels) < 2 or min(counts) < 0:
        raise i.fail(
            f"{len(counts)} vectors_per_class for {len(labels)} labels: the numbers must be equal",
            "export the model again",
        )
    pairs = list(combinations(range(len(labels)), 2))
    scores = _pair_scores(i, counts, pairs)
    label, transform = best_label(i, _votes(i, scores, pairs, len(labels)), labels), post_transform(i)
    if i.attr("prob_a"):
        probabilities = i.emit(PairwiseCoupling(len(labels)), _pair_probabilities(i, scores, pairs))
        return label, transformed(i, probabilities, transform)
    if len(pairs) == 1:
        return label, two_scores(i, scores, transform, complement=transform != "NONE")
    return label, transformed(i, scores, transform)


def _linear(i: Importer, labels: Array) -> Any:
    """Import of a linear model. It has no support vectors but a row of coefficients for each class."""
    coefficients, rho = matrix(i, "coefficients", len(labels)), i.required_attr("rho")[:1]
    if not rho:
        raise i.fail("rho is empty; it must have a number", "export the model again")
    y = linear(i, coefficients, np.full(len(labels), rho[0], np.float32))
    label, scores = best_label(i, y, labels), transformed(i, y, post_transform(i))
    if len(labels) == 2 and not i.attr("prob_a"):
        return _label_of_two(i, y, coefficients, labels), scores
    return label, scores


def _label_of_two(i: Importer, y: Value, coefficients: Array, labels: Array) -> Value:
    """The label of a linear model with two classes, as in ONNX Runtime.

    It is the second label if any score is above 0 (at least 1/2, if no coefficient is negative), else the
    label of the larger score.
    """
    largest, positive = i.emit(ReduceMax((1,), keepdims=False), y), bool((coefficients >= 0).all())
    compare, threshold = (GreaterOrEqual(), 0.5) if positive else (Greater(), 0.0)
    is_second = as_dtype(i.builder, i.emit(compare, largest, scalar(i, threshold, y)), I64)
    index = i.emit(Max(), is_second, i.emit(ArgMax(1, keepdims=False), y))
    label: Value = i.emit(Gather(), i.const(labels), index)
    return label


def _pair_scores(i: Importer, counts: tuple[int, ...], pairs: list[tuple[int, int]]) -> Value:
    """A score for each pair of classes, [N, pairs]; it is above 0 if the first class wins.

    The scores are the product of the kernel matrix and a matrix of weights, whose column for a pair is zero
    outside the support vectors of the two classes.
    """
    total, ends = sum(counts), np.cumsum(counts)
    coefficients = vector(i, "coefficients", (len(counts) - 1) * total).reshape(-1, total)
    weights = np.zeros((total, len(pairs)), np.float32)
    for column, (first, second) in enumerate(pairs):
        for own, other in ((first, second - 1), (second, first)):
            rows = slice(ends[own] - counts[own], ends[own])
            weights[rows, column] = coefficients[other, rows]
    kernels = kernel_matrix(i, matrix(i, "support_vectors", total))
    product = i.emit(MatMul(), kernels, i.const(weights))
    scores: Value = i.emit(Add(), product, i.const(vector(i, "rho", len(pairs))))
    return scores


def _votes(i: Importer, scores: Value, pairs: list[tuple[int, int]], classes: int) -> Value:
    """The number of pairs that each class wins, [N, classes]. The first class of a pair wins if the score is
    above 0, else the second.

    If ``w`` is 1 where the first class wins and else 0, the first class has ``w`` votes of the pair and the
    second has ``1 - w``.
    """
    signs, offsets = np.zeros((len(pairs), classes), np.float32), np.zeros(classes, np.float32)
    for row, (first, second) in enumerate(pairs):
        signs[row, first], signs[row, second] = 1, -1
        offsets[second] += 1
    won = as_dtype(i.builder, i.emit(Greater(), scores, scalar(i, 0, scores)), F32)
    votes: Value = i.emit(Add(), i.emit(MatMul(), won, i.const(signs)), i.const(offsets))
    return votes


def _pair_probabilities(i: Importer, scores: Value, pairs: list[tuple[int, int]]) -> Value:
    """The probability of the first class of each pair, ``1 / (1 + exp(a * score + b))`` (Platt, 1999)."""
    a, b = (i.const(vector(i, name, len(pairs))) for name in ("prob_a", "prob_b"))
    p = i.emit(Sigmoid(), i.emit(Neg(), i.emit(Add(), i.emit(Mul(), scores, a), b)))
    clipped: Value = i.emit(Clip(), p, scalar(i, MIN_PROBABILITY, p), scalar(i, 1 - MIN_PROBABILITY, p))
    return clipped


MatMul.onnx = {**MatMul.onnx, ("SVMClassifier", 1, DOMAIN): _import}

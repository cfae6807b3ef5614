"""SVMClassifier: a score for each pair of classes, and what the pairs together say of each class."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Importer
from graphwright.ir.types import F32, I64
from graphwright.ops.core.arg_reduce import ArgMax
from graphwright.ops.core.binary import Add, Greater, GreaterOrEqual, Max, Mul
from graphwright.ops.core.clip import Clip
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.reductions import ReduceMax
from graphwright.ops.core.unary import Neg, Sigmoid
from graphwright.ops.ml.linear_regressor import linear
from graphwright.ops.ml.pairwise_coupling import PairwiseCoupling
from graphwright.ops.ml.post_transforms import (
    DOMAIN,
    as_type,
    best_label,
    class_labels,
    matrix,
    number,
    post_transform,
    transformed,
    two_scores,
    vector,
)
from graphwright.ops.ml.svm_regressor import compared

LEAST = 1e-7
"""Probabilities of pairs are kept this far from 0 and 1 (LIBSVM; Chang, Lin, 2011)."""


def _import(i: Importer) -> Any:
    labels, counts = class_labels(i, "classlabels_ints"), i.attr("vectors_per_class") or ()
    if sum(counts) <= 0:
        return _linear(i, labels)
    if len(counts) != len(labels) or len(labels) < 2 or min(counts) < 0:
        raise i.fail(f"{len(counts)} vectors_per_class for {len(labels)} labels", "export the model again")
    pairs = list(combinations(range(len(labels)), 2))
    scores = _pair_scores(i, counts, pairs)
    label, transform = best_label(i, _votes(i, scores, pairs, len(labels)), labels), post_transform(i)
    if i.attr("prob_a"):
        chances = _chances(i, scores, pairs)
        return label, transformed(i, i.emit(PairwiseCoupling(len(labels)), chances), transform)
    if len(pairs) == 1:
        return label, two_scores(i, scores, transform, complement=transform != "NONE")
    return label, transformed(i, scores, transform)


def _linear(i: Importer, labels: Array) -> Any:
    """Without support vectors there is a row of coefficients for each class."""
    coefficients, rho = matrix(i, "coefficients", len(labels)), i.required_attr("rho")[:1]
    if not rho:
        raise i.fail("rho has no number", "export the model again")
    y = linear(i, coefficients, np.full(len(labels), rho[0], np.float32))
    label, scores = best_label(i, y, labels), transformed(i, y, post_transform(i))
    if len(labels) == 2 and not i.attr("prob_a"):
        return _second_if_sure(i, y, coefficients, labels), scores
    return label, scores


def _second_if_sure(i: Importer, y: Value, coefficients: Array, labels: Array) -> Value:
    """ONNX Runtime takes the second of two classes as soon as any score is above 0, or, where no coefficient
    is negative, is 1/2; else the better one.
    """
    best, positive = i.emit(ReduceMax((1,), False), y), bool((coefficients >= 0).all())
    compare, threshold = (GreaterOrEqual(), 0.5) if positive else (Greater(), 0.0)
    sure = as_type(i, i.emit(compare, best, number(i, threshold, y)), I64)
    made: Value = i.emit(Gather(), i.const(labels), i.emit(Max(), sure, i.emit(ArgMax(1, False), y)))
    return made


def _pair_scores(i: Importer, counts: tuple[int, ...], pairs: list[tuple[int, int]]) -> Value:
    """For each pair of classes, above 0 for the first: a product of the kernels with a sparse matrix."""
    total, ends = sum(counts), np.cumsum(counts)
    given = vector(i, "coefficients", (len(counts) - 1) * total).reshape(-1, total)
    weights = np.zeros((total, len(pairs)), np.float32)
    for column, (first, second) in enumerate(pairs):
        for own, other in ((first, second - 1), (second, first)):
            rows = slice(ends[own] - counts[own], ends[own])
            weights[rows, column] = given[other, rows]
    kernels = compared(i, matrix(i, "support_vectors", total))
    product = i.emit(MatMul(), kernels, i.const(weights))
    made: Value = i.emit(Add(), product, i.const(vector(i, "rho", len(pairs))))
    return made


def _votes(i: Importer, scores: Value, pairs: list[tuple[int, int]], classes: int) -> Value:
    """How many pairs each class wins; the second does where the score is not above 0."""
    signs, lost = np.zeros((len(pairs), classes), np.float32), np.zeros(classes, np.float32)
    for row, (first, second) in enumerate(pairs):
        signs[row, first], signs[row, second] = 1, -1
        lost[second] += 1
    won = as_type(i, i.emit(Greater(), scores, number(i, 0, scores)), F32)
    made: Value = i.emit(Add(), i.emit(MatMul(), won, i.const(signs)), i.const(lost))
    return made


def _chances(i: Importer, scores: Value, pairs: list[tuple[int, int]]) -> Value:
    """The probability of the first class of each pair (Platt, 1999): ``1 / (1 + exp(a score + b))``."""
    a, b = (i.const(vector(i, name, len(pairs))) for name in ("prob_a", "prob_b"))
    sure = i.emit(Sigmoid(), i.emit(Neg(), i.emit(Add(), i.emit(Mul(), scores, a), b)))
    made: Value = i.emit(Clip(), sure, number(i, LEAST, sure), number(i, 1 - LEAST, sure))
    return made


MatMul.onnx = {**MatMul.onnx, ("SVMClassifier", 1, DOMAIN): _import}

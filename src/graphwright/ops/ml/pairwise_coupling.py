"""PairwiseCoupling, a part of SVMClassifier. An op of graphwright, without ONNX counterpart."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from graphwright.ir.op import Array, Fact, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, F64, TensorType
from graphwright.ops.core.checks import need_dtype
from graphwright.ops.core.references import like, quiet

MAX_ITERATIONS = 100
TOLERANCE = 0.005


@op("PairwiseCoupling")
class PairwiseCoupling(Op):
    """Class probabilities [N, classes] from the probabilities [N, pairs] of the first class of each pair of
    classes.

    It is the second method of Wu, Lin and Weng, "Probability Estimates for Multi-class Classification by
    Pairwise Coupling" (2004), with the iteration and the tolerance of LIBSVM, on which the results depend.
    Pairs are in the order (0, 1), (0, 2), ... (1, 2), ...
    """

    classes: int

    def verify(self) -> None:
        if self.classes < 2:
            raise InferError(f"{self.classes} classes: there must be at least 2")

    def infer(self, at: Inference, x: Fact) -> TensorType:
        need_dtype(at, x, {F32})
        if x.rank != 2:
            raise at.fail(f"the input is {x.type}; it must be [N, pairs of classes]")
        at.equal(x.shape[1], self.classes * (self.classes - 1) // 2, "pairs of classes")
        return TensorType(F32, (x.shape[0], self.classes))

    @quiet
    def reference(self, x: Array) -> Array:
        q = self._quadratic(x.astype(np.float64))
        p = np.full((len(x), self.classes), 1 / self.classes)
        active = np.arange(len(x))  # rows that have not converged
        for _ in range(MAX_ITERATIONS):
            qp = np.einsum("nij,nj->ni", q[active], p[active])
            pqp = np.einsum("ni,ni->n", p[active], qp)
            unfinished = np.abs(qp - pqp[:, np.newaxis]).max(1, initial=0) >= TOLERANCE / self.classes
            active = active[unfinished]
            if not active.size:
                break
            p[active] = _stepped(q[active], p[active], qp[unfinished], pqp[unfinished])
        return like(p, x)

    def _quadratic(self, x: Array) -> Array:
        """The matrices Q[n, classes, classes] of the quadratic form p·Q·p, which the probabilities p
        minimize.
        """
        q = np.zeros((len(x), self.classes, self.classes))
        for column, (i, j) in enumerate(combinations(range(self.classes), 2)):
            first = x[:, column]
            q[:, i, i] += (1 - first) ** 2
            q[:, j, j] += first**2
            q[:, i, j] = q[:, j, i] = -first * (1 - first)
        return q


def _stepped(q: Array, p: Array, qp: Array, pqp: Array) -> Array:
    """One iteration: a step of coordinate descent for each class."""
    for k in range(p.shape[1]):
        diff = (pqp - qp[:, k]) / q[:, k, k]
        scale = 1 + diff
        pqp = (pqp + diff * (diff * q[:, k, k] + 2 * qp[:, k])) / scale**2
        p[:, k] += diff
        qp, p = (qp + diff[:, np.newaxis] * q[:, k]) / scale[:, np.newaxis], p / scale[:, np.newaxis]
    return p


_SURE = (0.9, 0.8, 0.3, 0.5, 0.5, 0.5, 1e-7, 0.2, 1 - 1e-7)
PairwiseCoupling.samples = (
    Sample(PairwiseCoupling(3), (arg(F32, 3, 3, values=_SURE),)),
    Sample(PairwiseCoupling(2), (arg(F32, 3, 1, values=_SURE[:3]),)),
    Sample(PairwiseCoupling(4), (arg(F32, 1, 6, values=_SURE[:6]),)),
    Sample(PairwiseCoupling(2), (arg(F32, 0, 1),)),
    Sample(PairwiseCoupling(3), (arg(F32, symbol("N"), 2),), "pairs of classes: 2 and 3 differ"),
    Sample(PairwiseCoupling(2), (arg(F64, 3, 1),), "the input is f64"),
    Sample(PairwiseCoupling(1), (arg(F32, 3, 1),), "1 classes: there must be at least 2"),
)

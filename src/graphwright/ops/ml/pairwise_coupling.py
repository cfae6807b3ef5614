"""PairwiseCoupling."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from graphwright.ir.op import Array, Fact, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, F64, TensorType
from graphwright.ops.core.common import like, need_dtype, quiet

ROUNDS = 100
PRECISION = 0.005


@op("PairwiseCoupling")
class PairwiseCoupling(Op):
    """Probabilities of classes, [N, classes], from that of the first of each pair, [N, pairs].

    The second method of Wu, Lin, Weng, "Probability Estimates for Multi-class Classification by Pairwise
    Coupling" (2004), with the steps and the precision of LIBSVM, on which its results depend. Pairs are in
    the order (0, 1), (0, 2), ... (1, 2), ...
    """

    classes: int

    def verify(self) -> None:
        if self.classes < 2:
            raise InferError(f"{self.classes} classes: at least 2 are needed")

    def infer(self, at: Inference, x: Fact) -> TensorType:
        need_dtype(at, x, {F32})
        if x.rank != 2:
            raise at.fail(f"the input is {x.type}; it must be rows with a score for each pair of classes")
        at.equal(x.shape[1], self.classes * (self.classes - 1) // 2, "pairs of classes")
        return TensorType(F32, (x.shape[0], self.classes))

    @quiet
    def reference(self, x: Array) -> Array:
        q = self._quadratic(x.astype(np.float64))
        p = np.full((len(x), self.classes), 1 / self.classes)
        open_rows = np.arange(len(x))
        for _ in range(ROUNDS):
            qp = np.einsum("nij,nj->ni", q[open_rows], p[open_rows])
            pqp = np.einsum("ni,ni->n", p[open_rows], qp)
            far = np.abs(qp - pqp[:, np.newaxis]).max(1, initial=0) >= PRECISION / self.classes
            open_rows = open_rows[far]
            if not open_rows.size:
                break
            p[open_rows] = _stepped(q[open_rows], p[open_rows], qp[far], pqp[far])
        return like(p, x)

    def _quadratic(self, x: Array) -> Array:
        """Q[n, classes, classes], of which p·Q·p is to be least."""
        q = np.zeros((len(x), self.classes, self.classes))
        for column, (i, j) in enumerate(combinations(range(self.classes), 2)):
            first = x[:, column]
            q[:, i, i] += (1 - first) ** 2
            q[:, j, j] += first**2
            q[:, i, j] = q[:, j, i] = -first * (1 - first)
        return q


def _stepped(q: Array, p: Array, qp: Array, pqp: Array) -> Array:
    """One step along each class, in turn."""
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
    Sample(PairwiseCoupling(1), (arg(F32, 3, 1),), "1 classes: at least 2 are needed"),
)

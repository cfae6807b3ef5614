"""LU."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Array, AtenImporter, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.symbols import minimum, symbol
from graphwright.ir.types import F16, F32, F64, I32, TensorType
from graphwright.ops.core.references import quiet
from graphwright.ops.linalg.factors import need_matrices


@op("LU")
class LU(Op):
    """The LU factors of ``x[..., M, N]``, by Gaussian elimination with partial pivoting (G. H. Golub and
    C. F. Van Loan, "Matrix Computations", section 3.4).

    Output 0 [..., M, N] has the upper factor, and below its diagonal the lower factor without its diagonal of
    ones. Output 1 [..., K], i32, K the smaller of M and N: row k was exchanged with the row of this number,
    counted from 1.
    """

    outputs = 2

    def infer(self, at: Inference, x: Fact) -> tuple[TensorType, TensorType]:
        need_matrices(at, x)
        *batch, rows, columns = x.shape
        return x.type, TensorType(I32, (*batch, minimum(rows, columns)))

    @quiet
    def reference(self, x: Array) -> tuple[Array, Array]:
        *batch, rows, columns = x.shape
        count, steps = int(np.prod(batch)), min(rows, columns)
        a, pivots = x.astype(np.float64).reshape(count, rows, columns), np.zeros((count, steps), np.int32)
        each = np.arange(count)
        for k in range(steps):
            chosen = k + np.abs(a[:, k:, k]).argmax(1)
            a[each, k], a[each, chosen] = a[each, chosen], a[each, k]
            pivot = a[:, k, k, None]
            a[:, k + 1 :, k] = np.where(pivot == 0, 0, a[:, k + 1 :, k] / pivot)
            a[:, k + 1 :, k + 1 :] -= a[:, k + 1 :, k, None] * a[:, k, None, k + 1 :]
            pivots[:, k] = chosen + 1
        return a.reshape(x.shape).astype(x.dtype), pivots.reshape(*batch, steps)


def _aten(i: AtenImporter) -> Any:
    """Result 2, the number of an error, is not supported."""
    if not i.attr("pivot"):
        raise i.fail("pivot=False is not supported")
    i.ignore("check_errors")
    return (*i.emit(LU(), i.input(0)), None)


LU.aten = {"linalg_lu_factor_ex": _aten}
LU.samples = (
    *(Sample(LU(), (arg(F32, m, n),)) for m, n in ((4, 4), (5, 3), (3, 5), (1, 1))),
    *(Sample(LU(), (arg(t, 2, 3, 3),)) for t in (F64, F16)),
    Sample(LU(), (arg(F32, 2, 2, values=(0, 0, 0, 1)),)),
    Sample(LU(), (arg(F32, symbol("B"), symbol("M"), 3),)),
    Sample(LU(), (arg(F32, 0, 3, 2),)),
    Sample(LU(), (arg(F32, 3),), "it must have at least 2 axes"),
    Sample(LU(), (arg(I32, 3, 2),), "the input is i32"),
)

"""QR."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Array, AtenImporter, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.symbols import minimum, symbol
from graphwright.ir.types import BF16, F16, F32, F64, I32, TensorType
from graphwright.ops.linalg.factors import factors, need_matrices


@op("QR")
class QR(Op):
    """Orthonormal columns ``q[..., M, K]`` and an upper triangle ``r[..., K, N]`` whose product is
    ``x[..., M, N]``, by Householder reflections (G. H. Golub and C. F. Van Loan, "Matrix Computations",
    section 5.2). K is M if ``full``, else the smaller of M and N.
    """

    full: bool = False
    outputs = 2

    def infer(self, at: Inference, x: Fact) -> tuple[TensorType, TensorType]:
        need_matrices(at, x)
        *batch, rows, columns = x.shape
        inner = rows if self.full else minimum(rows, columns)
        return TensorType(x.dtype, (*batch, rows, inner)), TensorType(x.dtype, (*batch, inner, columns))

    def reference(self, x: Array) -> tuple[Array, ...]:
        return factors(lambda a: np.linalg.qr(a, "complete" if self.full else "reduced"), x)


def _aten(i: AtenImporter) -> Any:
    mode = i.attr("mode")
    q, r = i.emit(QR(full=mode == "complete"), i.input(0))
    return (None if mode == "r" else q), r


QR.aten = {"linalg_qr": _aten}
QR.samples = (
    *(
        Sample(QR(full=full), (arg(F32, m, n),))
        for full in (False, True)
        for m, n in ((5, 3), (3, 5), (4, 4))
    ),
    *(Sample(QR(), (arg(t, 2, 4, 3),)) for t in (F64, F16, BF16)),
    Sample(QR(), (arg(F32, symbol("B"), symbol("M"), 3),)),
    Sample(QR(), (arg(F32, 0, 3, 2),)),
    Sample(QR(), (arg(F32, 3),), "it must have at least 2 axes"),
    Sample(QR(), (arg(I32, 3, 2),), "the input is i32"),
)

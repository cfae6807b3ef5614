"""SVD."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Array, AtenImporter, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.symbols import minimum, symbol
from graphwright.ir.types import F16, F32, F64, I32, TensorType
from graphwright.ops.linalg.factors import factors, need_matrices


@op("SVD")
class SVD(Op):
    """The singular value decomposition ``u[..., M, K] * s[..., K] @ v[..., K, N]`` of ``x[..., M, N]``.

    The singular values ``s`` are in descending order. K is the smaller of M and N; with ``full``, u is
    [..., M, M] and v [..., N, N].
    """

    full: bool = False
    outputs = 3

    def infer(self, at: Inference, x: Fact) -> tuple[TensorType, ...]:
        need_matrices(at, x)
        *batch, rows, columns = x.shape
        count = minimum(rows, columns)
        left, right = (rows, columns) if self.full else (count, count)
        shapes = (*batch, rows, left), (*batch, count), (*batch, right, columns)
        return tuple(TensorType(x.dtype, shape) for shape in shapes)

    def reference(self, x: Array) -> tuple[Array, ...]:
        return factors(lambda a: np.linalg.svd(a, full_matrices=self.full), x)


def _aten(i: AtenImporter) -> Any:
    """All algorithms of ``driver`` compute the same values."""
    i.ignore("driver")
    u, s, v = i.emit(SVD(full=bool(i.attr("full_matrices"))), i.input(0))
    return (u, s, v) if i.attr("compute_uv") else (None, s, None)


SVD.aten = {"_linalg_svd": _aten}
SVD.samples = (
    *(
        Sample(SVD(full=full), (arg(F32, m, n),))
        for full in (False, True)
        for m, n in ((5, 3), (3, 5), (4, 4))
    ),
    *(Sample(SVD(), (arg(t, 2, 4, 3),)) for t in (F64, F16)),
    Sample(SVD(), (arg(F32, symbol("B"), symbol("M"), 3),)),
    Sample(SVD(), (arg(F32, 0, 3, 2),)),
    Sample(SVD(), (arg(F32, 3),), "it must have at least 2 axes"),
    Sample(SVD(), (arg(I32, 3, 2),), "the input is i32"),
)

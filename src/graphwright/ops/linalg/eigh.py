"""Eigh."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Array, AtenImporter, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F16, F32, F64, I32, TensorType
from graphwright.ops.core.elimination import need_square_matrices
from graphwright.ops.linalg.factors import factors


@op("Eigh")
class Eigh(Op):
    """The eigenvalues ``w[..., M]`` of symmetric matrices ``x[..., M, M]`` in ascending order, and
    orthonormal eigenvectors ``v[..., M, M]`` as columns.

    Only the lower triangle of ``x`` is read, or the upper one if ``upper``.
    """

    upper: bool = False
    outputs = 2

    def infer(self, at: Inference, x: Fact) -> tuple[TensorType, TensorType]:
        need_square_matrices(at, x)
        return TensorType(x.dtype, x.shape[:-1]), x.type

    def reference(self, x: Array) -> tuple[Array, ...]:
        return factors(lambda a: np.linalg.eigh(a, "U" if self.upper else "L"), x)


def _aten(i: AtenImporter) -> Any:
    w, v = i.emit(Eigh(upper=i.attr("UPLO").upper() == "U"), i.input(0))
    return w, v if i.attr("compute_v") else None


Eigh.aten = {"_linalg_eigh": _aten}
Eigh.samples = (
    *(Sample(Eigh(upper=upper), (arg(F32, 4, 4),)) for upper in (False, True)),
    *(Sample(Eigh(), (arg(t, 2, 3, 3),)) for t in (F64, F16)),
    Sample(Eigh(), (arg(F32, symbol("B"), symbol("M"), symbol("M")),)),
    Sample(Eigh(), (arg(F32, 0, 3, 3),)),
    Sample(Eigh(), (arg(F32, 2, 3),), "rows and columns: 2 and 3 differ"),
    Sample(Eigh(), (arg(I32, 2, 2),), "the input is i32"),
)

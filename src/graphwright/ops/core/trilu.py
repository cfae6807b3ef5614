"""Trilu."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, AtenImport, AtenImporter, Fact, Importer, Inference, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import BOOL, F32, I64, STRING, TensorType
from graphwright.ops.core.references import zero_of
from graphwright.ops.core.size_inference import known_ints


@op("Trilu")
class Trilu(Op):
    """The upper or lower triangle of each matrix x[..., M, N]; other elements are 0 or empty strings.

    The triangle consists of diagonal ``k`` (operand 1 if None) and all above it (``upper``) or below it.
    """

    upper: bool = True
    k: int | None = None

    def fold_operands(self, x: Fact, k: Fact | None = None) -> tuple[Op, tuple[int, ...]] | None:
        known = known_ints(k)
        return None if self.k is not None or not known else (Trilu(self.upper, known[0]), (0,))

    def infer(self, at: Inference, x: Fact, k: Fact | None = None) -> TensorType:
        if x.rank < 2:
            raise at.fail(f"the input is {x.type}; it must have at least 2 axes")
        return x.type

    def reference(self, x: Array, k: Array | None = None) -> Array:
        diagonal = int(k.reshape(())) if k is not None else self.k or 0
        limit = max(x.shape)  # a diagonal further out has the same effect; NumPy overflows on large ones
        diagonal = max(-limit, min(diagonal, limit))
        if x.dtype == object:
            rows, columns = x.shape[-2:]
            lower = np.tri(rows, columns, diagonal - 1 if self.upper else diagonal, dtype=bool)
            return np.asarray(np.where(lower != self.upper, x, zero_of(x)))
        return np.asarray((np.triu if self.upper else np.tril)(x, diagonal))


def _import(i: Importer) -> object:
    upper, k = bool(i.attr("upper", 1)), i.optional(1)
    return i.emit(Trilu(upper, 0), i.input(0)) if k is None else i.emit(Trilu(upper), i.input(0), k)


Trilu.onnx = {("Trilu", 14): _import}
Trilu.to_onnx = as_onnx("Trilu", operand="k", upper="upper")
Trilu.samples = (
    Sample(Trilu(upper=True, k=1), (arg(F32, 2, 3, symbol("N")),)),
    Sample(Trilu(upper=False, k=-1), (arg(F32, 4, 4),)),
    Sample(Trilu(upper=False, k=9), (arg(BOOL, 2, 4),)),
    Sample(Trilu(), (arg(F32, 3, 3), arg(I64, values=(-1,)))),
    Sample(Trilu(upper=True, k=1), (arg(STRING, 3, 3),)),
    Sample(Trilu(upper=True, k=0), (arg(F32, 3),), "it must have at least 2 axes"),
)


def _aten_triangle(upper: bool) -> AtenImport:
    def convert(i: AtenImporter) -> Any:
        diagonal = i.number("diagonal")
        if isinstance(diagonal, Value):  # not a constant
            return i.emit(Trilu(upper), i.input(0), diagonal)
        return i.emit(Trilu(upper, diagonal), i.input(0))

    return convert


Trilu.aten = {"triu": _aten_triangle(upper=True), "tril": _aten_triangle(upper=False)}

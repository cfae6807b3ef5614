"""StringSplit."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Array, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, I64, STRING, TensorType
from graphwright.ops.core.checks import need_dtype


@op("StringSplit")
class StringSplit(Op):
    """Splits each string. Outputs: the parts along a new last axis, padded with "", and the number of parts
    (i64).

    It splits at ``delimiter``, or if that is empty at runs of whitespace, as Python's ``str.split``.
    ``maxsplit`` is the largest number of splits; -1 means no limit. The number of parts is data-dependent.
    """

    delimiter: str = ""
    maxsplit: int = -1
    outputs = 2

    def verify(self) -> None:
        if self.maxsplit < -1:
            raise InferError(f"maxsplit is {self.maxsplit}; it must be at least 0")

    def infer(self, at: Inference, x: Fact) -> tuple[TensorType, TensorType]:
        need_dtype(at, x, {STRING})
        return TensorType(STRING, (*x.shape, at.symbols.fresh("parts"))), TensorType(I64, x.shape)

    def reference(self, x: Array) -> tuple[Array, Array]:
        rows = [str(text).split(self.delimiter or None, self.maxsplit) for text in x.ravel()]
        y = np.full((len(rows), max(map(len, rows), default=0)), "", dtype=object)
        for k, row in enumerate(rows):
            y[k, : len(row)] = row
        counts = np.array([len(row) for row in rows], dtype=np.int64)
        return y.reshape(*x.shape, y.shape[1]), counts.reshape(x.shape)


def _import(i: Importer) -> Any:
    return i.emit(StringSplit(str(i.attr("delimiter", "")), int(i.attr("maxsplit", -1))), i.input(0))


StringSplit.onnx = {("StringSplit", 20): _import}
StringSplit.to_onnx = as_onnx("StringSplit", delimiter="delimiter", maxsplit="maxsplit")
_TEXTS = arg(STRING, 2, 2, values=(" a b  c ", "", "a,b", ",,"))
StringSplit.samples = (
    Sample(StringSplit(), (_TEXTS,)),
    Sample(StringSplit(","), (_TEXTS,)),
    Sample(StringSplit(maxsplit=1), (_TEXTS,)),
    Sample(StringSplit(",", 0), (_TEXTS,)),
    Sample(StringSplit("s"), (arg(STRING, symbol("N"), 3),)),
    Sample(StringSplit(), (arg(STRING),)),
    Sample(StringSplit(), (arg(STRING, 2, 0),)),
    Sample(StringSplit(), (arg(F32, 2),), "the input is f32; it must be string"),
    Sample(StringSplit(maxsplit=-2), (arg(STRING, 2),), "maxsplit is -2"),
)

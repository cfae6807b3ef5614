"""CumSum and CumProd."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.padding import Padded, PaddingRule
from graphwright.ir.op import (
    Array,
    AtenImport,
    AtenImporter,
    Fact,
    Import,
    Importer,
    Inference,
    Op,
    Sample,
    arg,
    family,
    is_known,
    op,
)
from graphwright.ir.op.exporter import Exporter
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F16, F32, F64, I32, I64, STRING, TensorType
from graphwright.ops.core.checks import NUMBERS, need_dtype
from graphwright.ops.core.references import like, quiet, widened
from graphwright.records import replace


@family
class Cumulative(PaddingRule, Op):
    """Base class of cumulative sums and products along ``axis`` (operand 1 if None).

    With ``exclusive`` a result does not include the element at its own position; ``reverse`` starts at the
    end of the axis.
    """

    axis: int | None = None
    exclusive: bool = False
    reverse: bool = False
    optional_inputs = frozenset({1})
    ufunc: ClassVar[np.ufunc]

    def fold_operands(self, x: Fact, axis: Fact | None = None) -> tuple[Op, tuple[int, ...]] | None:
        if axis is None or not is_known(axis.elements) or len(axis.elements) != 1:
            return None
        return replace(self, axis=axis.elements[0]), (0,)

    def infer(self, at: Inference, x: Fact, axis: Fact | None = None) -> TensorType:
        need_dtype(at, x, NUMBERS)
        if axis is not None:
            return x.type
        if self.axis is None:
            raise at.fail("the axis is missing: it must be an attribute or operand 1")
        if x.type.shape is not None:
            at.axis(self.axis, x.rank)
        return x.type

    def padding_leak(self, node: Node, padded: Padded) -> str:
        if self.axis is None or (self.reverse and padded.among(node.operand(0), [self.axis])):
            return "it runs from the end of a padded axis"
        return ""

    @quiet
    def reference(self, x: Array, axis: Array | None = None) -> Array:
        along = self.axis if axis is None else int(axis.reshape(()))
        assert along is not None
        if not x.ndim:
            return like(self.ufunc.identity, x) if self.exclusive else x
        rows = np.moveaxis(widened(np.flip(x, along) if self.reverse else x), along, 0)
        results = self.ufunc.accumulate(rows, axis=0, dtype=rows.dtype)
        if self.exclusive:
            first = np.full_like(results[:1], self.ufunc.identity)
            results = np.concatenate([first, results[:-1]])
        results = np.moveaxis(results, 0, along)
        return np.ascontiguousarray(like(np.flip(results, along) if self.reverse else results, x))


@op("CumSum")
class CumSum(Cumulative):
    """Cumulative sums along an axis; see :class:`Cumulative`. The output has the shape of the input."""

    ufunc = np.add


@op("CumProd")
class CumProd(Cumulative):
    """Cumulative products along an axis; see :class:`Cumulative`. The output has the shape of the input."""

    ufunc = np.multiply


def _import(cls: type[Cumulative]) -> Import:
    def convert(i: Importer) -> Any:
        op = cls(None, bool(i.attr("exclusive", 0)), bool(i.attr("reverse", 0)))
        return i.emit(op, i.input(0), i.input(1))

    return convert


CumSum.onnx = {("CumSum", 11): _import(CumSum)}
CumProd.onnx = {("CumProd", 26): _import(CumProd)}


def _export(e: Exporter, op: Cumulative, x: Value, *axis: Value) -> Any:
    given: Any = axis if op.axis is None else (e.size(op.axis),)
    since = 26 if isinstance(op, CumProd) else 14
    return e.emit(op.name, x, *given, since=since, exclusive=op.exclusive, reverse=op.reverse)


CumSum.to_onnx = CumProd.to_onnx = _export
for _cls in (CumSum, CumProd):
    _cls.samples = (
        *(Sample(_cls(1), (arg(t, 3, 5),)) for t in (F32, F64, F16, I32)),
        *(
            Sample(_cls(0, exclusive=e, reverse=r), (arg(F32, 4, symbol("N")),))
            for e in (False, True)
            for r in (False, True)
        ),
        Sample(_cls(-1, exclusive=True), (arg(I32, 2, 0),)),
        Sample(_cls(0), (arg(F32),)),
        Sample(_cls(), (arg(F32, 2, 3), arg(I64, values=(-2,)))),
        Sample(_cls(), (arg(F32, 2, 3), arg(I32, 1, values=(1,)))),
        Sample(_cls(2), (arg(F32, 2, 3),), "axis 2 is out of range for rank 2"),
        Sample(_cls(), (arg(F32, 2, 3),), "the axis is missing"),
        Sample(_cls(0), (arg(STRING, 2),), "the input is string"),
    )


def _running(cls: type[Cumulative]) -> AtenImport:
    def convert(i: AtenImporter) -> Any:
        i.ignore("dtype")
        return i.emit(cls(i.attr("dim")), i.result(i.input(0)))

    return convert


CumSum.aten = {"cumsum": _running(CumSum)}
CumProd.aten = {"cumprod": _running(CumProd)}

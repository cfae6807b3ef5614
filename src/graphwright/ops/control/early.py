"""Operands as ONNX's first opsets line them up: a second operand spreads over given axes of the first."""

from __future__ import annotations

from typing import Any

from graphwright.ir.graph import Value
from graphwright.ir.op import Import, Importer, Op
from graphwright.ops.core.binary import (
    Add,
    And,
    Div,
    Equal,
    Greater,
    Less,
    Mul,
    Or,
    Pow,
    PRelu,
    Sub,
    Xor,
)
from graphwright.ops.core.gemm import Gemm
from graphwright.ops.core.unsqueeze import Unsqueeze


def _import(cls: type[Op]) -> Import:
    """With ``broadcast``, operand 1 has the axes of operand 0 from ``axis`` on, or its last ones."""

    def convert(i: Importer) -> Any:
        a, b, axis = i.input(0), i.input(1), i.attr("axis")
        if i.attr("broadcast", 0) and axis is not None:
            b = _behind(i, b, _rank(i, a) - axis % max(_rank(i, a), 1) - _rank(i, b))
        return i.emit(cls(), a, b)

    return convert


def _import_prelu(i: Importer) -> Any:
    """One slope, or one per channel (axis 1)."""
    x, slope = i.input(0), i.input(1)
    if _rank(i, slope) == 1 and slope.type.dims != (1,):
        slope = _behind(i, slope, max(_rank(i, x) - 2, 0))
    return i.emit(PRelu(), x, slope)


def _behind(i: Importer, b: Value, count: int) -> Value:
    """``b`` with ``count`` axes of size 1 behind its own."""
    if count < 0:
        raise i.fail(
            f"an operand has {-count} axes more than it can broadcast to", hint="export the model again"
        )
    rank = _rank(i, b)
    made: Value = i.emit(Unsqueeze(tuple(range(rank, rank + count))), b) if count else b
    return made


def _rank(i: Importer, x: Value) -> int:
    if x.type.rank is None:
        raise i.fail("the number of axes of an operand is not known", hint="convert the model to opset 7")
    return x.type.rank


for _cls in (Add, Sub, Mul, Div, And, Or, Xor, Equal, Greater, Less, Pow):
    _cls.onnx = {**_cls.onnx, (_cls.name, 1): _import(_cls)}
PRelu.onnx = {**PRelu.onnx, ("PRelu", 1): _import_prelu}
Gemm.onnx = {**Gemm.onnx, ("Gemm", 1): Gemm.onnx["Gemm", 7]}

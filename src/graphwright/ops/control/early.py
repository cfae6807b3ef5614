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
from graphwright.ops.core.common import rank_of
from graphwright.ops.core.gemm import Gemm
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.unsqueeze import Unsqueeze


def _import(cls: type[Op]) -> Import:
    """With ``broadcast``, operand 1 has the axes of operand 0 from ``axis`` on, or its last ones."""

    @ranked
    def spread(i: Importer) -> Any:
        a, b = i.input(0), i.input(1)
        behind = rank_of(a) - i.attr("axis") % max(rank_of(a), 1) - rank_of(b)
        return i.emit(cls(), a, _behind(i, b, behind))

    def convert(i: Importer) -> Any:
        if i.attr("broadcast", 0) and i.attr("axis") is not None:
            return spread(i)
        return i.emit(cls(), i.input(0), i.input(1))

    return convert


def _import_prelu(i: Importer) -> Any:
    """One slope, or one per channel (axis 1)."""
    x, slope = i.input(0), i.input(1)
    if rank_of(slope) == 1 and slope.type.dims != (1,):
        slope = _behind(i, slope, max(rank_of(x) - 2, 0))
    return i.emit(PRelu(), x, slope)


def _behind(i: Importer, b: Value, count: int) -> Value:
    """``b`` with ``count`` axes of size 1 behind its own."""
    if count < 0:
        raise i.fail(
            f"an operand has {-count} axes more than it can broadcast to", hint="export the model again"
        )
    rank = rank_of(b)
    made: Value = i.emit(Unsqueeze(tuple(range(rank, rank + count))), b) if count else b
    return made


for _cls in (Add, Sub, Mul, Div, And, Or, Xor, Equal, Greater, Less, Pow):
    _cls.onnx = {**_cls.onnx, (_cls.name, 1): _import(_cls)}
PRelu.onnx = {**PRelu.onnx, ("PRelu", 1): ranked(_import_prelu)}
Gemm.onnx = {**Gemm.onnx, ("Gemm", 1): Gemm.onnx["Gemm", 7]}

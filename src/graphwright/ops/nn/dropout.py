"""Dropout: nothing when a model is run, and what it drops when one is trained."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer, OnnxImporter
from graphwright.ir.types import BOOL, F64
from graphwright.ops.core.binary import Div, GreaterOrEqual, Mul, Or, Sub, Where
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.identity import Identity
from graphwright.ops.core.random import RandomUniform, seed_of
from graphwright.ops.core.unary import Not


def _import_12(i: OnnxImporter) -> Any:
    """The mode is operand 2, false where it is absent; elements of ratio (operand 1) are dropped."""
    if i.optional(2) is None or _is(i, 2, False) or _is(i, 1, 0.0):
        return _kept(i)
    ratio = i.optional(1)
    ratio = i.const(np.array(0.5, np.float32)) if ratio is None else ratio
    return _dropped(i, ratio, None if _is(i, 2, True) else i.input(2))


def _import_1(i: OnnxImporter) -> Any:
    """The mode is the attribute ``is_test``, and training if that is 0."""
    if i.attr("is_test", 0):
        return _kept(i)
    return _dropped(i, i.const(np.array(i.attr("ratio", 0.5), np.float32)), None)


def _kept(i: OnnxImporter) -> Any:
    """The input, and a mask that is true."""
    x = i.input(0)
    same = i.emit(Identity(), x)
    if i.output_count < 2:
        return same
    return same, _mask(i, i.emit(Or(), i.emit(Cast(BOOL), x), i.const(np.array(True))))


def _mask(i: OnnxImporter, kept: Value) -> Value:
    """Where elements are kept: before opset 10 as numbers of the input's dtype."""
    return kept if i.version >= 10 else _as(i, kept, i.input(0).type.dtype)


def _dropped(i: OnnxImporter, ratio: Value, training: Value | None) -> Any:
    """The elements of which a draw is at least the ratio, scaled up for the sum of the others; where
    ``training`` is false, all of them as they are."""
    x = i.input(0)
    draws = i.emit(RandomUniform(dtype=F64, seed=seed_of(i)), x)
    mask = i.emit(GreaterOrEqual(), draws, _as(i, ratio, F64))
    one = i.const(np.array(1, x.type.dtype.numpy))
    scale = i.emit(Div(), one, i.emit(Sub(), one, _as(i, ratio, x.type.dtype)))
    y = i.emit(Mul(), i.emit(Where(), mask, x, i.const(np.array(0, x.type.dtype.numpy))), scale)
    if training is not None:
        mask = i.emit(Or(), mask, i.emit(Not(), training))
        y = i.emit(Where(), training, y, x)
    return y if i.output_count < 2 else (y, _mask(i, mask))


def _as(i: Importer, x: Value, dtype: Any) -> Value:
    made: Value = x if x.type.dtype == dtype else i.emit(Cast(dtype), x)
    return made


def _is(i: Importer, index: int, value: float) -> bool:
    """Whether an operand is a constant of one element, this one."""
    known = i.constant(index)
    return known is not None and known.size == 1 and bool(known.item() == value)


Identity.onnx = {
    **Identity.onnx,
    ("Dropout", 1): _import_1,
    ("Dropout", 7): _kept,
    ("Dropout", 12): _import_12,
}

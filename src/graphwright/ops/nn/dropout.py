"""Import of ONNX's Dropout: Identity in inference mode, a random mask in training mode."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer, OnnxImporter
from graphwright.ir.types import BOOL, F32, F64
from graphwright.ops.core.binary import GreaterOrEqual, Mul, Or, Sub
from graphwright.ops.core.cast import Cast, as_dtype
from graphwright.ops.core.div import Div
from graphwright.ops.core.identity import Identity
from graphwright.ops.core.random import RandomUniform, seed_of
from graphwright.ops.core.unary import Not
from graphwright.ops.core.where import Where


def _import_12(i: OnnxImporter) -> Any:
    """Operand 1 is the ratio of dropped elements, operand 2 whether it is training mode, by default false."""
    if i.optional(2) is None or _is_constant(i, 2, value=False) or _is_constant(i, 1, 0.0):
        return _inference(i)
    ratio = i.optional(1)
    ratio = i.const(np.array(0.5, np.float32)) if ratio is None else ratio
    return _training(i, ratio, None if _is_constant(i, 2, value=True) else i.input(2))


def _import_1(i: OnnxImporter) -> Any:
    """The attribute ``is_test`` is 0 in training mode."""
    if i.attr("is_test", 0):
        return _inference(i)
    return _training(i, i.const(np.array(i.attr("ratio", 0.5), np.float32)), None)


def _inference(i: OnnxImporter) -> Any:
    """The input, and a mask whose elements are all true."""
    x = i.input(0)
    same = i.emit(Identity(), x)
    if i.output_count < 2:
        return same
    return same, _mask(i, i.emit(Or(), i.emit(Cast(BOOL), x), i.const(np.asarray(np.True_))))


def _mask(i: OnnxImporter, kept: Value) -> Value:
    """The output mask of the elements that are kept: before opset 10 in the dtype of the input."""
    return kept if i.version >= 10 else as_dtype(i.builder, kept, i.input(0).type.dtype)


def _training(i: OnnxImporter, ratio: Value, training: Value | None) -> Any:
    """Keeps an element if a uniform random number is at least ``ratio``, and scales it by ``1 / (1 -
    ratio)``. If ``training`` is given and false at run time, keeps all elements unchanged.
    """
    x = i.input(0)
    draws = i.emit(RandomUniform(dtype=F64, seed=seed_of(i)), x)
    mask = i.emit(GreaterOrEqual(), draws, as_dtype(i.builder, ratio, F64))
    dtype = x.type.dtype if x.type.dtype.bits > 8 else F32
    one, zero = i.const(np.array(1, dtype.numpy)), i.const(np.array(0, dtype.numpy))
    scale = i.emit(Div(), one, i.emit(Sub(), one, as_dtype(i.builder, ratio, dtype)))
    kept = i.emit(Where(), mask, as_dtype(i.builder, x, dtype), zero)
    y = as_dtype(i.builder, i.emit(Mul(), kept, scale), x.type.dtype)
    if training is not None:
        mask = i.emit(Or(), mask, i.emit(Not(), training))
        y = i.emit(Where(), training, y, x)
    return y if i.output_count < 2 else (y, _mask(i, mask))


def _is_constant(i: Importer, index: int, value: float) -> bool:
    """Whether operand ``index`` is a constant of one element, ``value``."""
    known = i.constant(index)
    return known is not None and known.size == 1 and bool(known.item() == value)


Identity.onnx = {
    **Identity.onnx,
    ("Dropout", 1): _import_1,
    ("Dropout", 7): _inference,
    ("Dropout", 12): _import_12,
}

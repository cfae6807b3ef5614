"""Export of ScaledDotProductAttention to ONNX, as MatMul, Softmax and MatMul."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op.exporter import Exporter, refuse_others
from graphwright.ir.symbols import Dim, floordiv
from graphwright.ops.nn.attention import CANONICAL, Axes, ScaledDotProductAttention


def _export(
    e: Exporter, op: ScaledDotProductAttention, q: Value, k: Value, v: Value, mask: Value | None = None
) -> Any:
    """Exports as MatMul, Softmax and MatMul, which every opset has."""
    refuse_others(op, set(op.attribute_defaults) - {"precision"})
    heads, groups = q.type.dims[op.q_axes[1]], k.type.dims[op.k_axes[1]]
    batch, rows, keys = q.type.dims[op.q_axes[0]], q.type.dims[op.q_axes[2]], k.type.dims[op.k_axes[2]]
    key_axes = tuple(op.k_axes[axis] for axis in (0, 1, 3, 2))
    left, right, values = (
        _transposed(e, x, axes) for x, axes in ((q, op.q_axes), (k, key_axes), (v, op.v_axes))
    )
    number = q.type.dtype.numpy.type
    left = e.emit("Mul", left, e.const(np.array(number(op.scale))))
    if heads != groups:
        shared = (batch, groups, floordiv(heads, groups), rows)
        left = e.emit("Reshape", left, e.sizes((*shared, q.type.dims[op.q_axes[3]])), allowzero=1)
        right, values = (e.emit("Unsqueeze", x, e.sizes((2,))) for x in (right, values))
    scores = e.emit("MatMul", left, right)
    if heads != groups:
        scores = e.emit("Reshape", scores, e.sizes((batch, heads, rows, keys)), allowzero=1)
    scores = _export_mask(e, op, scores, mask, rows, keys, number)
    probabilities = _export_guard(e, op, scores, e.emit("Softmax", scores, axis=-1), number)
    if heads != groups:
        probabilities = e.emit("Reshape", probabilities, e.sizes((*shared, keys)), allowzero=1)
    y = e.emit("MatMul", probabilities, values)
    if heads != groups:
        y = e.emit("Reshape", y, e.sizes((batch, heads, rows, v.type.dims[op.v_axes[3]])), allowzero=1)
    return _transposed(e, y, op.y_axes)


def _transposed(e: Exporter, x: Any, axes: Axes) -> Any:
    return x if axes == CANONICAL else e.emit("Transpose", x, perm=axes)


def _export_guard(
    e: Exporter, op: ScaledDotProductAttention, scores: Any, probabilities: Any, number: Any
) -> Any:
    """The probabilities after ``guard``."""
    if op.guard == "none":
        return probabilities
    if op.guard == "nan":
        replaced = e.emit("IsNaN", probabilities)
    else:
        maximum = e.emit("ReduceMax", scores, e.sizes((-1,)))
        replaced = e.emit("Equal", maximum, e.const(number(-np.inf)))
    return e.emit("Where", replaced, e.const(number(0)), probabilities)


def _export_mask(
    e: Exporter,
    op: ScaledDotProductAttention,
    scores: Any,
    mask: Value | None,
    rows: Dim,
    keys: Dim,
    number: Any,
) -> Any:
    """The scores after ``softcap``, the mask and ``causal``."""
    if op.softcap:
        cap = e.const(np.array(number(op.softcap)))
        scores = e.emit("Mul", e.emit("Tanh", e.emit("Div", scores, cap)), cap)
    if mask is not None and op.fill:
        scores = e.emit("Where", e.emit("Equal", mask, e.const(number(0))), scores, mask)
    elif mask is not None:
        scores = e.emit("Add", scores, mask)
    if not op.causal:
        return scores
    one = e.size(1)
    row = e.emit("Range", e.size(op.offset), e.size(rows + op.offset), one)
    column = e.emit("Range", e.size(0), e.size(keys), one)
    visible = e.emit("LessOrEqual", column, e.emit("Unsqueeze", row, e.sizes((1,))))
    return e.emit("Where", visible, scores, e.const(number(-np.inf)))


ScaledDotProductAttention.to_onnx = _export

"""Import of ONNX Runtime's normalizations: of a tensor, of a sum (Skip...), and of a sum of embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer, OnnxImporter
from graphwright.ir.types import F32, I32
from graphwright.ops.contrib.node_with_inputs import NodeWithInputs
from graphwright.ops.contrib.registration import DOMAIN, register_contrib
from graphwright.ops.core.binary import Add, Mul, Sub, added
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.checks import rank_of
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.imports import scalar
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reductions import ReduceMean, ReduceSum
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.unary import Reciprocal, Sqrt
from graphwright.ops.nn.layer_normalization import LayerNormalization, RMSNormalization
from graphwright.ops.quantized.dequantize_linear import DequantizeLinear

_DEFAULT_EPSILON = 1e-12
"""The default of ``epsilon`` in ops that normalize a sum."""


def _import_simplified(i: OnnxImporter) -> Any:
    """SimplifiedLayerNormalization is RMSNormalization; the optional output 1 is ``1 / sqrt(mean(x * x) +
    epsilon)``.
    """
    x = i.input(0)
    op = RMSNormalization(int(i.attr("axis", -1)), float(i.attr("epsilon", 1e-5)))
    y = i.emit(op, x, i.input(1))
    return (y, _inverse_rms(i, x, op.axis, op.epsilon)) if i.output_count > 1 else y


def _inverse_rms(i: Importer, x: Value, axis: int, epsilon: float) -> Any:
    """``1 / sqrt(mean(x * x) + epsilon)`` over the axes from ``axis`` on."""
    wide = i.emit(Cast(F32), x)
    axes = (-1,) if axis == -1 else tuple(range(axis % rank_of(x), rank_of(x)))
    square = i.emit(ReduceMean(axes), i.emit(Mul(), wide, wide))
    root = i.emit(Sqrt(), i.emit(Add(), square, scalar(i, epsilon, wide)))
    return i.emit(Reciprocal(), root)


def _import_skip(i: OnnxImporter) -> Any:
    """Outputs: the normalized sum; its mean and inverse deviation, which training reads; and the sum."""
    total = added(i, i.input(0), i.input(1), i.optional(4))
    beta = i.optional(3)
    norm = LayerNormalization(-1, float(i.attr("epsilon", _DEFAULT_EPSILON)))
    y = i.emit(norm, total, i.input(2), *([] if beta is None else [beta]))
    if i.output_count == 1:
        return y
    wide = i.emit(Cast(F32), total)
    mean = i.emit(ReduceMean((-1,)), wide)
    return y, mean, _inverse_rms(i, i.emit(Sub(), wide, mean), -1, norm.epsilon), total


def _import_skip_simplified(i: OnnxImporter) -> Any:
    """The outputs are those of :func:`_import_skip`, without the mean."""
    total = added(i, i.input(0), i.input(1), i.optional(3))
    norm = RMSNormalization(-1, float(i.attr("epsilon", _DEFAULT_EPSILON)))
    y = i.emit(norm, total, i.input(2))
    return y if i.output_count == 1 else (y, None, _inverse_rms(i, total, -1, norm.epsilon), total)


def _import_embed(i: OnnxImporter) -> Any:
    """Outputs: the normalized sum of the word, position and segment embeddings; the number of words of each
    sequence without padding; and the sum.
    """
    words, segments, mask, positions = i.input(0), i.optional(1), i.optional(7), i.optional(8)
    batch, length = words.type.dims
    if positions is None:
        position_embedding = i.emit(Slice((0,), (length,), (0,), (1,)), i.input(3))
    else:
        position_embedding = i.emit(Gather(), i.input(3), positions)
    total = i.emit(Add(), i.emit(Gather(), i.input(2), words), position_embedding)
    if segments is not None:
        total = i.emit(Add(), total, i.emit(Gather(), i.input(4), segments))
    norm = LayerNormalization(-1, float(i.attr("epsilon", _DEFAULT_EPSILON)))
    y = i.emit(norm, total, i.input(5), i.input(6))
    if i.output_count == 1:
        return y
    if mask is None:
        return y, i.emit(Expand((batch,)), i.const(np.zeros(1, np.int32))), total
    is_word = i.emit(Cast(I32), i.emit(Equal(), mask, scalar(i, 1, mask)))
    return y, i.emit(ReduceSum((1,), keepdims=False), is_word), total


def _import_quantized_embed(i: OnnxImporter) -> Any:
    """Inputs 2 to 6 (tables, scale and bias) are quantized. Their scales are inputs 8 to 12, and their zero
    points 13 to 17.
    """
    tables: list[Value | None] = [None] * 5
    for k in range(5):
        if i.optional(k + 2) is not None:
            tables[k] = i.emit(DequantizeLinear(F32), *(i.input(k + first) for first in (2, 8, 13)))
    return _import_embed(NodeWithInputs(i, [i.input(0), i.optional(1), *tables, i.optional(7)]))


register_contrib(
    LayerNormalization,
    SkipLayerNormalization=_import_skip,
    EmbedLayerNormalization=ranked(_import_embed),
    QEmbedLayerNormalization=ranked(_import_quantized_embed),
)
register_contrib(RMSNormalization, SkipSimplifiedLayerNormalization=_import_skip_simplified)
# ONNX Runtime writes these ops in ONNX's own domain, with a version in which ONNX did not have them.
LayerNormalization.onnx = {
    **LayerNormalization.onnx,
    ("LayerNormalization", 1): LayerNormalization.onnx["LayerNormalization", 17],
}
RMSNormalization.onnx = {
    **RMSNormalization.onnx,
    **{("SimplifiedLayerNormalization", 1, domain): _import_simplified for domain in ("", DOMAIN)},
}

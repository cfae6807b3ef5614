"""Import of ONNX Runtime's DecoderMaskedMultiHeadAttention: the attention of one new token. Its key and value
are written into buffers that have space for the longest sequence. In beam search, a sequence may read the
rows of another one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer, OnnxImporter
from graphwright.ir.symbols import Dim, floordiv
from graphwright.ir.types import I64
from graphwright.ops.contrib.attention import (
    Heads,
    attention,
    bias_of,
    biased,
    import_multi_head,
    mask_bias,
    settings_of,
    split_heads,
)
from graphwright.ops.contrib.node_with_inputs import NodeWithInputs
from graphwright.ops.contrib.registration import register_contrib
from graphwright.ops.core.binary import Add, LessOrEqual, Mul
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.checks import rank_of
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.range import Range
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.sampling import size_value
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.split import Split
from graphwright.ops.core.tensor_scatter import TensorScatter
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.core.where import Where
from graphwright.ops.nn.attention import CANONICAL, ScaledDotProductAttention

_OF_MULTI_HEAD = (0, 1, 2, 10, 3, 4, 5, 6)
"""Which input each input of MultiHeadAttention is."""


def _import(i: OnnxImporter) -> Any:
    """Inputs: query, key and value [B, 1, N * H], or one tensor with all three, or keys and values of an
    encoder [B, N, T, H]; mask, bias of the scores, the buffers of keys and values [B, N, M, H], their number
    of rows, the width of the beams, the rows that they read, and the bias of the projections.
    """
    if i.output_count > 3:
        raise i.fail("output_qk is not supported", hint="use MultiHeadAttention, which returns the scores")
    parts = [i.optional(index) for index in _OF_MULTI_HEAD]
    if parts[1] is None:
        third = floordiv(i.input(0).type.dims[2], 3)
        parts[:3] = i.emit(Split(3, 2, (third, third, third)), i.input(0))
    node: Any = NodeWithInputs(i, parts)
    if not i.attr("past_present_share_buffer", 0) or rank_of(node.input(1)) == 4:
        return import_multi_head(node)
    return _with_buffers(i, node)


def _with_buffers(i: Importer, node: Any) -> Any:
    heads, length = int(i.required_attr("num_heads")), i.emit(Cast(I64), i.input(7))
    query, key, value = (split_heads(i, node.input(index), heads) for index in range(3))
    q, k, v = biased(node, (query, key, value), heads)
    batch = q.value.type.dims[0]
    length = i.emit(Reshape((1,)), length)
    position = i.emit(Expand((batch,)), length)
    buffers = [
        i.emit(TensorScatter(2), i.input(index), part.canonical(i), position)
        for index, part in ((5, k), (6, v))
    ]
    k, v = (_beams(i, buffer, length) for buffer in buffers)
    mask, bias = i.optional(3), i.optional(4)
    counted = mask if mask is not None else bias
    if counted is None:
        is_written = i.emit(LessOrEqual(), i.emit(Range((0, k.rows, 1))), length)
        scores: Value | None = mask_bias(i, is_written, float(np.finfo(np.float32).min))
    else:  # a mask and a bias have as many columns as there are tokens
        count = counted.type.dims[-1]
        k, v = (_first(i, part, count) for part in (k, v))
        scores = bias_of(node, mask, bias, batch, count)
    return attention(i, q, k, v, scores, settings_of(i, 0)), *buffers


def _beams(i: Importer, buffer: Value, length: Value) -> Heads:
    """The rows of a buffer that each sequence reads. In beam search, the sequences of a group share their
    earlier rows: ``cache_indirection``[B / beams, beams, M] says which beam of the group has row m.
    """
    sources = i.optional(9)
    if sources is None:
        return Heads(buffer, CANONICAL)
    groups, beams, _ = sources.type.dims
    batch, heads, rows, features = buffer.type.dims
    numbers, columns = i.emit(Range((0, batch, 1))), i.emit(Range((0, rows, 1)))
    first = i.emit(Mul(), i.emit(Range((0, groups, 1))), size_value(i.builder, beams))
    of = i.emit(Add(), i.emit(Cast(I64), sources), i.emit(Unsqueeze((1, 2)), first))
    of = i.emit(Reshape((batch, rows)), of)
    is_new = i.emit(Equal(), columns, length)
    of = i.emit(Where(), is_new, i.emit(Unsqueeze((1,)), numbers), of)
    indices = i.emit(Add(), i.emit(Mul(), of, size_value(i.builder, rows)), columns)
    by_row = i.emit(Transpose((0, 2, 1, 3)), buffer)
    by_row = i.emit(Reshape((batch * rows, heads, features)), by_row)
    return Heads(i.emit(Gather(0), by_row, indices))


def _first(i: Importer, part: Heads, count: Dim) -> Heads:
    return Heads(i.emit(Slice((0,), (count,), (part.axes[2],), (1,)), part.value), part.axes)


register_contrib(ScaledDotProductAttention, DecoderMaskedMultiHeadAttention=ranked(_import))

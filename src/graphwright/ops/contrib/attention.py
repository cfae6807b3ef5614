"""Import of ONNX Runtime's Attention and MultiHeadAttention as ScaledDotProductAttention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer, OnnxImporter
from graphwright.ir.symbols import Dim, floordiv
from graphwright.ir.types import F32, I32
from graphwright.ops.contrib.registration import register_contrib
from graphwright.ops.core.binary import Add, And, Greater, GreaterOrEqual, Less, LessOrEqual, Mul, added
from graphwright.ops.core.cast import Cast, as_dtype
from graphwright.ops.core.checks import rank_of
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.equal import Equal
from graphwright.ops.core.imports import scalar
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.core.range import Range
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.split import Split
from graphwright.ops.core.squeeze import Squeeze
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.core.where import Where
from graphwright.ops.nn.attention import CANONICAL, HEADS_INSIDE, Axes, ScaledDotProductAttention, scaled
from graphwright.records import dataclass, replace


@dataclass(frozen=True)
class Heads:
    """Queries, keys or values of several heads. ``axes`` are the axes of ``value`` that are batch, head, row
    and feature.
    """

    value: Value
    axes: Axes = HEADS_INSIDE

    @property
    def rows(self) -> Dim:
        return self.value.type.dims[self.axes[2]]

    @property
    def features(self) -> Dim:
        return self.value.type.dims[self.axes[3]]

    def canonical(self, i: Importer) -> Value:
        """The value with the axes [batch, head, row, feature]."""
        return self.value if self.axes == CANONICAL else i.emit(Transpose(self.axes), self.value)


def split_heads(i: Importer, x: Value, heads: int) -> Heads:
    """The heads of x[B, S, heads * H]."""
    return Heads(i.emit(Reshape((0, 0, heads, floordiv(x.type.dims[2], heads))), x))


def attention(
    i: Importer, q: Heads, k: Heads, v: Heads, bias: Value | None, settings: ScaledDotProductAttention
) -> Value:
    """The attention, computed in f32: [B, S, heads * H] in the dtype of q. ``settings`` are the attributes
    without axes; a scale of 0 means ``1 / sqrt(H)``.
    """
    query, scale = (q.value, settings.scale) if settings.scale else scaled(i, wide(i, q.value), q.features)
    op = replace(settings, scale=scale, q_axes=q.axes, k_axes=k.axes, v_axes=v.axes, y_axes=HEADS_INSIDE)
    operands = [wide(i, x) for x in (query, k.value, v.value, *([] if bias is None else [bias]))]
    y = i.emit(op, *operands)
    batch, rows, heads, features = y.type.dims
    flat = i.emit(Reshape((batch, rows, heads * features)), y)
    return as_dtype(i.builder, flat, q.value.type.dtype)


def wide(i: Importer, x: Value) -> Value:
    """``x`` in f32."""
    return as_dtype(i.builder, x, F32)


def mask_bias(i: Importer, visible: Value, amount: float) -> Value:
    """The number that is added to each score: 0 where ``visible`` is true, else ``amount``."""
    result: Value = i.emit(
        Where(), visible, i.const(np.zeros((), np.float32)), i.const(np.asarray(amount, np.float32))
    )
    return result


def _not_padding(i: Importer, mask: Value, batch: Dim, keys: Dim) -> Value:
    """Which keys are not padding, a bool that broadcasts to [B, N, S, T].

    The mask is a tensor [B, T] or [B, S, T] with 0 or 1 for each key, or a vector. The vector contains the
    lengths of the B sequences; or the ends, and then the starts, of the keys of each sequence; or the
    lengths, and then cumulative lengths. If its length is not known in terms of B, it must contain the B
    lengths.
    """
    if rank_of(mask) > 3:
        raise i.fail("a mask of 4 axes is not supported", hint="export the model with a mask of 2 or 3 axes")
    if rank_of(mask) > 1:
        visible_keys = i.emit(Greater(), mask, i.const(np.zeros((), np.int32)))
        return _unsqueeze_after_batch(i, visible_keys, 4 - rank_of(mask))
    count = mask.type.dims[0]
    positions = i.emit(Cast(I32), i.emit(Range((0, keys, 1))))
    longer = count in (2 * batch, 3 * batch + 2)
    ends = i.emit(Slice((0,), (batch,), (0,), (1,)) if longer else Reshape((batch,)), mask)
    visible: Value = i.emit(Less(), positions, _unsqueeze_after_batch(i, ends, 3))
    if count == 2 * batch:
        starts = _unsqueeze_after_batch(i, i.emit(Slice((batch,), (2 * batch,), (0,), (1,)), mask), 3)
        visible = i.emit(And(), visible, i.emit(GreaterOrEqual(), positions, starts))
    return visible


def _unsqueeze_after_batch(i: Importer, x: Value, count: int) -> Value:
    """``x`` with ``count`` axes of size 1 after the first axis."""
    result: Value = i.emit(Unsqueeze(tuple(range(1, count + 1))), x)
    return result


def bias_of(i: Importer, mask: Value | None, given: Value | None, batch: Dim, keys: Dim) -> Value | None:
    """The f32 bias that is added to the scores; None if there is none."""
    bias = None if given is None else wide(i, given)
    if mask is None:
        return bias
    filter_value = float(i.attr("mask_filter_value", -10000.0))
    masked = mask_bias(i, _not_padding(i, mask, batch, keys), filter_value)
    return masked if bias is None else i.emit(Add(), masked, bias)


def settings_of(i: Importer, past: Dim) -> ScaledDotProductAttention:
    causal = bool(i.attr("unidirectional", 0))
    return ScaledDotProductAttention(float(i.attr("scale", 0.0)), causal=causal, offset=past if causal else 0)


def _causal_bias(i: Importer, rows: Dim, past: Dim, keys: Dim) -> Value:
    """The causal mask if there are not as many queries as keys, [rows, keys]. As in ONNX Runtime, query k
    attends to keys up to ``past + k``, and the last query to all keys.
    """
    row_numbers = i.emit(Range((0, rows, 1)))
    last, end, first = (i.emit(Range((dim, dim + 1, 1))) for dim in (rows - 1, keys - 1, past))
    last_key = i.emit(Where(), i.emit(Equal(), row_numbers, last), end, i.emit(Add(), row_numbers, first))
    visible = i.emit(LessOrEqual(), i.emit(Range((0, keys, 1))), i.emit(Unsqueeze((1,)), last_key))
    return mask_bias(i, visible, float(np.finfo(np.float32).min))


def _append_to_cache(i: Importer, past: Value | None, x: Heads) -> Heads:
    """The rows of a cache [B, N, P, H], followed by ``x``; ``x`` itself if there is no cache."""
    return x if past is None else Heads(i.emit(Concat(2), past, x.canonical(i)), CANONICAL)


def import_attention(i: OnnxImporter) -> Any:
    """Attention: self-attention with the projections of queries, keys and values in one weight. The cache
    holds keys and values in one tensor.
    """
    for name, default in (("do_rotary", 0), ("past_present_share_buffer", 0)):
        if i.attr(name, default):
            raise i.fail(f"{name} is not supported", hint="export the model without it")
    x, weights, past = i.input(0), i.input(1), i.optional(4)
    heads, width = int(i.required_attr("num_heads")), weights.type.dims[1]
    sizes: Sequence[Dim] = i.attr("qkv_hidden_sizes") or (floordiv(width, 3),) * 3
    columns = i.emit(Split(3, 1, tuple(sizes)), weights)  # the constant weights, so that it is folded
    bias = i.optional(2)
    terms = [None] * 3 if bias is None else i.emit(Split(3, 0, tuple(sizes)), bias)
    q, k, v = (
        split_heads(i, added(i, i.emit(MatMul(), x, part), term), heads)
        for part, term in zip(columns, terms, strict=True)
    )
    past_rows: Dim = 0
    if past is not None:
        past_rows = past.type.dims[3]
        caches = [i.emit(Squeeze((0,)), part) for part in i.emit(Split(2, 0, (1, 1)), past)]
        k, v = (_append_to_cache(i, cache, part) for cache, part in zip(caches, (k, v), strict=True))
    score_bias = bias_of(i, i.optional(3), i.optional(5), x.type.dims[0], k.rows)
    y = attention(i, q, k, v, score_bias, settings_of(i, past_rows))
    if i.output_count == 1:
        return y
    return y, i.emit(Concat(0), *(i.emit(Unsqueeze((0,)), part.canonical(i)) for part in (k, v)))


def import_multi_head(i: OnnxImporter) -> Any:
    """MultiHeadAttention: queries, keys and values are separate tensors, or keys and values are packed in
    one, or all three are; or keys and values are [B, N, T, H] from an encoder.
    """
    if i.optional(8) is not None or i.optional(9) is not None:
        raise i.fail(
            "caches that are updated in place are not supported",
            hint="export the model without shared buffers",
        )
    heads, past_key, past_value = int(i.required_attr("num_heads")), i.optional(6), i.optional(7)
    q, k, v = _unpacked(i, heads)
    q, k, v = biased(i, (q, k, v), heads)
    past_rows: Dim = 0 if past_key is None else past_key.type.dims[2]
    settings, equal_lengths = settings_of(i, past_rows), q.rows == k.rows
    k, v = _append_to_cache(i, past_key, k), _append_to_cache(i, past_value, v)
    bias = bias_of(i, i.optional(4), i.optional(5), q.value.type.dims[0], k.rows)
    if settings.causal and not equal_lengths:
        settings = replace(settings, causal=False, offset=0)
        causal = _causal_bias(i, q.rows, past_rows, k.rows)
        bias = causal if bias is None else i.emit(Add(), bias, causal)
    y = attention(i, q, k, v, bias, settings)
    if i.output_count == 1:
        return y
    if i.output_count < 4:
        return y, k.canonical(i), v.canonical(i)
    causal_bias = _causal_bias(i, q.rows, past_rows, k.rows) if settings.causal else None
    return y, k.canonical(i), v.canonical(i), _scores(i, q, k, settings.scale, bias, causal_bias)


def _scores(i: Importer, q: Heads, k: Heads, scale: float, *biases: Value | None) -> Value:
    """The scaled and masked scores before the softmax, [B, N, S, T] in the dtype of q. A scale of 0 means
    ``1 / sqrt(H)``.
    """
    query = wide(i, q.canonical(i))
    query, factor = (query, scale) if scale else scaled(i, query, q.features)
    keys = i.emit(Transpose((0, 1, 3, 2)), wide(i, k.canonical(i)))
    products = i.emit(MatMul(), i.emit(Mul(), query, scalar(i, factor, query)), keys)
    return as_dtype(i.builder, added(i, products, *biases), q.value.type.dtype)


def _unpacked(i: Importer, heads: int) -> tuple[Heads, Heads, Heads]:
    """Queries, keys and values, from inputs 0 to 2."""
    query, key, value = i.input(0), i.optional(1), i.optional(2)
    if rank_of(query) == 5:
        q, k, v = (Heads(i.emit(Squeeze((3,)), part)) for part in i.emit(Split(3, 3, (1, 1, 1)), query))
        return q, k, v
    q = split_heads(i, query, heads)
    if key is None:
        raise i.fail("input 1 (key) is missing, but input 0 is not packed: it must have 5 axes")
    if rank_of(key) == 5:
        k, v = (Heads(i.emit(Squeeze((3,)), part)) for part in i.emit(Split(2, 3, (1, 1)), key))
        return q, k, v
    if value is None:
        raise i.fail("input 2 (value) is missing, but input 1 is not packed: it must have 5 axes")
    if rank_of(key) == 4:
        return q, Heads(key, CANONICAL), Heads(value, CANONICAL)
    return q, split_heads(i, key, heads), split_heads(i, value, heads)


def biased(i: Importer, parts: tuple[Heads, Heads, Heads], heads: int) -> tuple[Heads, Heads, Heads]:
    """Adds the bias of the projections. Keys and values [B, N, T, H] already include it."""
    bias = i.optional(3)
    if bias is None:
        return parts
    sizes = tuple(heads * part.features for part in parts)
    terms = [i.emit(Reshape((heads, -1)), term) for term in i.emit(Split(3, 0, sizes), bias)]
    q, k, v = (
        Heads(i.emit(Add(), part.value, term)) if part.axes == HEADS_INSIDE else part
        for part, term in zip(parts, terms, strict=True)
    )
    return q, k, v


register_contrib(
    ScaledDotProductAttention,
    Attention=ranked(import_attention),
    MultiHeadAttention=ranked(import_multi_head),
)

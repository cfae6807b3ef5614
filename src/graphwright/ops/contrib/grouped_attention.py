"""Import of ONNX Runtime's GroupQueryAttention: attention of decoders, with a KV cache and rotary
embeddings.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import OnnxImporter
from graphwright.ir.symbols import Dim, floordiv, maximum
from graphwright.ir.types import I64
from graphwright.ops.contrib.attention import Heads, attention, mask_bias, split_heads, wide
from graphwright.ops.contrib.quantized_cache import QuantizedCache
from graphwright.ops.contrib.registration import register_contrib
from graphwright.ops.contrib.rotary import looked_up, rotated
from graphwright.ops.contrib.windowed_cache import WindowedCache
from graphwright.ops.core.binary import Add, And, Greater, Less, LessOrEqual, Max, Min, Sub
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.gather_nd import GatherND
from graphwright.ops.core.pad import Pad
from graphwright.ops.core.range import Range
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.split import Split
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.core.where import Where
from graphwright.ops.nn.attention import CANONICAL, HEADS_INSIDE, ScaledDotProductAttention
from graphwright.ops.nn.layer_normalization import RMSNormalization

_K_SCALE, _V_SCALE, _Q_NORM, _K_NORM, _QUERY_LENGTHS = 12, 13, 14, 15, 16
"""Optional inputs."""


class _GroupQueryAttention:
    """Imports one node.

    Batch entry b of the cache holds ``past_lengths[b]`` rows; the new rows are written after them. The
    remaining rows of the cache are undefined.
    """

    def __init__(self, i: OnnxImporter) -> None:
        self.i = i
        self._check_supported()
        heads, groups = int(i.required_attr("num_heads")), int(i.required_attr("kv_num_heads"))
        self.heads = heads
        self.q, self.k, self.v = self._projections(heads, groups)
        self.batch, self.queries = self.q.value.type.dims[:2]
        self.past = i.optional(3), i.optional(4)
        self.codes = self._quantized_caches(groups)
        lengths = i.emit(Cast(I64), i.emit(Reshape((self.batch, 1)), i.input(5)))
        past = i.emit(Sub(), lengths, self._integer(self.queries - 1))
        self.past_lengths = i.emit(Max(), past, self._integer(0))
        self.ends = i.emit(Add(), lengths, self._integer(1))
        self.rows = i.emit(Add(), self.past_lengths, i.emit(Range((0, self.queries, 1))))
        self.window = self._windowed_cache()

    def outputs(self) -> Any:
        i = self.i
        q, k = (self._normalized_and_rotated(x, norm) for x, norm in ((self.q, _Q_NORM), (self.k, _K_NORM)))
        (k, v), present = self._with_past(k, self.v)
        presents = tuple(x.canonical(i) for x in present) if i.output_count > 1 else ()
        settings = ScaledDotProductAttention(
            float(i.attr("scale", 0.0)), float(i.attr("softcap", 0.0)), causal=self._plainly_causal
        )
        bias = self._bias(k.rows)
        sinks = self._sinks()
        if sinks is not None:
            bias = self._with_sinks(bias, sinks, k.rows)
            k, v = (Heads(self._pad_end(x.canonical(i), 2, 1), CANONICAL) for x in (k, v))
        y = attention(i, q, k, v, bias, settings)
        return (y, *presents) if presents else y

    def _with_past(self, k: Heads, v: Heads) -> tuple[tuple[Heads, Heads], tuple[Heads, Heads]]:
        """Keys and values of all tokens, and the next cache of both."""
        past_k, past_v = self.past
        if self.codes is not None:
            k, v = (codes.quantized(x) for codes, x in zip(self.codes, (k, v), strict=True))
        if past_k is not None and past_v is not None and self.window is None:
            size = maximum(past_k.type.dims[2], self._total_length())
            k, v = self._updated_cache(past_k, k, size), self._updated_cache(past_v, v, size)
        present = k, v
        if past_k is not None and past_v is not None and self.window is not None:
            k, v = self.window.appended(past_k, k), self.window.appended(past_v, v)
            present = self.window.next_cache(k), self.window.next_cache(v)
        if self.codes is not None:
            k, v = (codes.dequantized(x) for codes, x in zip(self.codes, (k, v), strict=True))
        return (k, v), present

    def _check_supported(self) -> None:
        """Raises a diagnostic for padded queries."""
        i = self.i
        if i.optional(_QUERY_LENGTHS) is not None:
            raise i.fail("query_seqlens is not supported", hint="export the model without padded queries")

    def _windowed_cache(self) -> WindowedCache | None:
        """The cache if it holds only the rows of the window; None if it holds all."""
        i, past, window = self.i, self.past[0], int(self.i.attr("local_window_size", -1))
        if not i.attr("sliding_window_cache", 0):
            return None
        if past is None or self.past[1] is None or window < 1 or i.optional(10) is not None:
            raise i.fail(
                "sliding_window_cache needs local_window_size, past keys and values, and no attention_bias",
                "export the model with full caches",
            )
        return WindowedCache(i, past.type.dims[2], window, self.past_lengths, self.ends, self.rows)

    def _quantized_caches(self, groups: int) -> tuple[QuantizedCache, QuantizedCache] | None:
        """The formats of keys and values; None if they are floats."""
        i, kinds = self.i, [str(self.i.attr(f"{name}_quant_type", "NONE")) for name in "kv"]
        if kinds == ["NONE", "NONE"]:
            return None
        bits = int(i.attr("kv_cache_bit_width", 8))
        keys, values = (
            QuantizedCache(i, kind, i.input(index), bits, groups)
            for kind, index in zip(kinds, (_K_SCALE, _V_SCALE), strict=True)
        )
        return keys, values

    def _projections(self, heads: int, groups: int) -> tuple[Heads, Heads, Heads]:
        """Queries, keys and values, from three inputs or packed in input 0."""
        i, query, key, value = self.i, self.i.input(0), self.i.optional(1), self.i.optional(2)
        if key is not None and value is not None:
            return split_heads(i, query, heads), split_heads(i, key, groups), split_heads(i, value, groups)
        features = floordiv(query.type.dims[2], heads + 2 * groups)
        counts = (heads, groups, groups)
        parts = i.emit(Split(3, -1, tuple(count * features for count in counts)), query)
        q, k, v = (split_heads(i, part, count) for part, count in zip(parts, counts, strict=True))
        return q, k, v

    def _normalized_and_rotated(self, x: Heads, norm: int) -> Heads:
        """Queries or keys, with RMS normalization if input ``norm`` (its scale) is present, and rotary
        embedding.
        """
        i, weight, value = self.i, self.i.optional(norm), x.value
        if weight is not None:
            shared = i.attr("qk_norm_epsilon", 1e-6)
            epsilon = float(i.attr("q_norm_epsilon" if norm == _Q_NORM else "k_norm_epsilon", shared))
            value = i.emit(RMSNormalization(-1, epsilon), value, weight)
        if i.attr("do_rotary", 0):
            given = i.optional(9)
            positions = self.rows if given is None else given
            cosine, sine = looked_up(i, (i.input(7), i.input(8)), positions, -2)
            value = rotated(i, value, cosine, sine, bool(i.attr("rotary_interleaved", 0)))
        return Heads(value, HEADS_INSIDE)

    def _total_length(self) -> Dim:
        """The number of rows of the cache after this run, input 6. If it is not constant, this is a
        data-dependent dimension: the size of a Range.
        """
        i = self.i
        total = i.input(6)
        bounds = [i.const(np.asarray(bound, total.type.dtype.numpy)) for bound in (0, 1)]
        counted = i.emit(Range(), bounds[0], i.emit(Reshape(()), total), bounds[1])
        size: Dim = counted.type.dims[0]
        return size

    def _updated_cache(self, past: Value, new: Heads, size: Dim) -> Heads:
        """A cache of ``size`` rows: the past rows, then the new ones."""
        i, positions = self.i, self._positions(size)
        is_past = i.emit(Unsqueeze((1, 3)), i.emit(Less(), positions, self.past_lengths))
        if new.rows != 1:
            step = i.emit(Max(), i.emit(Sub(), positions, self.past_lengths), self._integer(0))
            step = i.emit(Min(), step, self._integer(self.queries - 1))
            new = Heads(i.emit(GatherND(1), new.value, i.emit(Unsqueeze((2,)), step)))
        padded_past = self._pad_end(past, 2, size - past.type.dims[2])
        return Heads(i.emit(Where(), is_past, padded_past, new.canonical(i)), CANONICAL)

    @property
    def _plainly_causal(self) -> bool:
        """Whether the op's ``causal`` suffices: query s attends to keys up to s in every batch entry."""
        causal, window = bool(self.i.attr("causal", 1)), int(self.i.attr("local_window_size", -1))
        return causal and window < 0 and self.past[0] is None and self._sinks() is None

    def _bias(self, keys: Dim) -> Value | None:
        """The bias of the scores, which broadcasts to [B, N, S, T]; None if there is none."""
        i, given = self.i, self.i.optional(10)
        bias = None
        if given is not None:
            bias = self._pad_end(wide(i, given), 3, keys - given.type.dims[3])
        if self._plainly_causal:
            return bias
        masked = mask_bias(i, self._visible(keys), -np.inf)
        return masked if bias is None else i.emit(Add(), bias, masked)

    def _visible(self, keys: Dim) -> Value:
        """Whether a query attends to a key, a bool that broadcasts to [B, 1, S, T]."""
        i, positions = self.i, self._positions(keys)
        if self.window is not None:
            positions = i.emit(Unsqueeze((1, 2)), self.window.positions)
        if not self.i.attr("causal", 1):
            valid: Value = i.emit(Less(), positions, i.emit(Unsqueeze((1, 2)), self.ends))
            return valid
        rows = i.emit(Unsqueeze((1, 3)), self.rows)
        visible: Value = i.emit(LessOrEqual(), positions, rows)
        window = int(i.attr("local_window_size", -1))
        if window >= 0:
            first = i.emit(Sub(), rows, self._integer(window))
            visible = i.emit(And(), visible, i.emit(Greater(), positions, first))
        return visible

    def _sinks(self) -> Value | None:
        """The attention sinks: for each head, the score of a further key, whose value is 0; None without
        sinks.
        """
        sinks = self.i.optional(11)
        if sinks is None and self.i.attr("smooth_softmax", -1) == 1:
            return self.i.const(np.zeros(self.heads, np.float32))
        return sinks

    def _with_sinks(self, bias: Value | None, sinks: Value, keys: Dim) -> Value:
        """``bias`` with a further key at the end, whose scores are the sinks."""
        i = self.i
        column = i.emit(Reshape((1, self.heads, 1, 1)), wide(i, sinks))
        scores: Value = i.emit(Pad((0, 0, 0, keys, 0, 0, 0, 0)), column)
        return scores if bias is None else i.emit(Add(), self._pad_end(bias, 3, 1), scores)

    def _pad_end(self, x: Value, axis: int, count: Dim) -> Value:
        """``x``, of four axes, with ``count`` zeros at the end of ``axis``."""
        pads = tuple(count if position == axis + 4 else 0 for position in range(8))
        padded: Value = x if count == 0 else self.i.emit(Pad(pads), x)
        return padded

    def _positions(self, count: Dim) -> Value:
        """0 to ``count - 1``."""
        positions: Value = self.i.emit(Range((0, count, 1)))
        return positions

    def _integer(self, value: Dim) -> Value:
        """``value``, which may be symbolic, as a vector of one element."""
        vector: Value = self.i.emit(Range((value, value + 1, 1)))
        return vector


register_contrib(
    ScaledDotProductAttention, GroupQueryAttention=ranked(lambda i: _GroupQueryAttention(i).outputs())
)

"""ONNX Runtime's GroupQueryAttention: of decoders, with a cache and rotary embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import OnnxImporter
from graphwright.ir.symbols import Dim, floordiv, maximum
from graphwright.ir.types import I64
from graphwright.ops.contrib.attention import Heads, attended, hidden, split_heads, wide
from graphwright.ops.contrib.common import contribute
from graphwright.ops.contrib.rotary import looked_up, rotated
from graphwright.ops.core.binary import Add, And, Greater, Less, LessOrEqual, Max, Min, Sub, Where
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.gather_nd import GatherND
from graphwright.ops.core.pad import Pad
from graphwright.ops.core.range import Range
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reshape import Reshape
from graphwright.ops.core.split import Split
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.nn.attention import CANONICAL, HEADS_INSIDE, ScaledDotProductAttention
from graphwright.ops.nn.layer_normalization import RMSNormalization


class _GroupQueryAttention:
    """One node, as simpler ops.

    Row b of the cache holds ``done[b]`` rows; the new ones follow it. What lies behind them is unspecified.
    """

    def __init__(self, i: OnnxImporter) -> None:
        self.i = i
        self._refuse()
        heads, groups = int(i.required_attr("num_heads")), int(i.required_attr("kv_num_heads"))
        self.heads = heads
        self.q, self.k, self.v = self._projections(heads, groups)
        self.batch, self.queries = self.q.value.type.dims[:2]
        self.past = i.optional(3), i.optional(4)
        lengths = i.emit(Cast(I64), i.emit(Reshape((self.batch, 1)), i.input(5)))
        before = i.emit(Sub(), lengths, self._integer(self.queries - 1))
        self.done = i.emit(Max(), before, self._integer(0))
        self.ends = i.emit(Add(), lengths, self._integer(1))
        self.rows = i.emit(Add(), self.done, i.emit(Range((0, self.queries, 1))))

    def outputs(self) -> Any:
        i = self.i
        q, k, v = self._turned(self.q, 14), self._turned(self.k, 15), self.v
        if self.past[0] is not None and self.past[1] is not None:
            size = maximum(self.past[0].type.dims[2], self._total())
            k, v = self._behind(self.past[0], k, size), self._behind(self.past[1], v, size)
        presents = (k.canonical(i), v.canonical(i)) if i.output_count > 1 else ()
        settings = ScaledDotProductAttention(
            float(i.attr("scale", 0.0)), float(i.attr("softcap", 0.0)), causal=self._plainly_causal
        )
        bias = self._bias(k.rows)
        sinks = self._sinks()
        if sinks is not None:
            bias = self._with_sinks(bias, sinks, k.rows)
            k, v = (Heads(self._longer(x.canonical(i), 2, 1), CANONICAL) for x in (k, v))
        y = attended(i, q, k, v, bias, settings)
        return (y, *presents) if presents else y

    def _refuse(self) -> None:
        i = self.i
        quantized = {i.attr("k_quant_type", "NONE"), i.attr("v_quant_type", "NONE")} != {"NONE"}
        if quantized or i.optional(12) is not None or i.optional(13) is not None:
            raise i.fail(
                "quantised caches are not supported", hint="export the model with floating-point caches"
            )
        if i.attr("sliding_window_cache", 0):
            raise i.fail("caches of the window's size are not supported", hint="export it with full caches")

    def _projections(self, heads: int, groups: int) -> tuple[Heads, Heads, Heads]:
        i, query, key, value = self.i, self.i.input(0), self.i.optional(1), self.i.optional(2)
        if key is not None and value is not None:
            return split_heads(i, query, heads), split_heads(i, key, groups), split_heads(i, value, groups)
        features = floordiv(query.type.dims[2], heads + 2 * groups)
        counts = (heads, groups, groups)
        parts = i.emit(Split(3, -1, tuple(count * features for count in counts)), query)
        q, k, v = (split_heads(i, part, count) for part, count in zip(parts, counts, strict=True))
        return q, k, v

    def _turned(self, x: Heads, norm: int) -> Heads:
        """Queries or keys, normalised by the weight in input ``norm`` if there is one, and rotated."""
        i, weight, value = self.i, self.i.optional(norm), x.value
        if weight is not None:
            value = i.emit(RMSNormalization(-1, float(i.attr("qk_norm_epsilon", 1e-6))), value, weight)
        if i.attr("do_rotary", 0):
            positions = i.optional(9)
            places = self.rows if positions is None else positions
            cosine, sine = looked_up(i, (i.input(7), i.input(8)), places, -2)
            value = rotated(i, value, cosine, sine, bool(i.attr("rotary_interleaved", 0)))
        return Heads(value, HEADS_INSIDE)

    def _total(self) -> Dim:
        """The rows of the cache after this run: the size that the input says, be it only as it runs."""
        i = self.i
        total = i.input(6)
        bounds = [i.const(np.asarray(bound, total.type.dtype.numpy)) for bound in (0, 1)]
        counted = i.emit(Range(), bounds[0], i.emit(Reshape(()), total), bounds[1])
        size: Dim = counted.type.dims[0]
        return size

    def _behind(self, past: Value, new: Heads, size: Dim) -> Heads:
        """A cache of ``size`` rows with the new ones written into it."""
        i, places = self.i, self._places(size)
        old = i.emit(Unsqueeze((1, 3)), i.emit(Less(), places, self.done))
        if new.rows != 1:
            step = i.emit(Max(), i.emit(Sub(), places, self.done), self._integer(0))
            step = i.emit(Min(), step, self._integer(self.queries - 1))
            new = Heads(i.emit(GatherND(1), new.value, i.emit(Unsqueeze((2,)), step)))
        kept = self._longer(past, 2, size - past.type.dims[2])
        return Heads(i.emit(Where(), old, kept, new.canonical(i)), CANONICAL)

    @property
    def _plainly_causal(self) -> bool:
        """Whether query s sees keys up to s in every batch, and no other rule holds."""
        causal, window = bool(self.i.attr("causal", 1)), int(self.i.attr("local_window_size", -1))
        return causal and window < 0 and self.past[0] is None and self._sinks() is None

    def _bias(self, keys: Dim) -> Value | None:
        """What is added to the scores, [B, N, S, T] or broadcasting to it; None if nothing is."""
        i, given = self.i, self.i.optional(10)
        bias = None
        if given is not None:
            bias = self._longer(wide(i, given), 3, keys - given.type.dims[3])
        if self._plainly_causal:
            return bias
        unseen = hidden(i, self._visible(keys), -np.inf)
        return unseen if bias is None else i.emit(Add(), bias, unseen)

    def _visible(self, keys: Dim) -> Value:
        """Whether a query sees a key, [B, 1, S, T] or broadcasting to it."""
        i, places = self.i, self._places(keys)
        if not self.i.attr("causal", 1):
            ends: Value = i.emit(Less(), places, i.emit(Unsqueeze((1, 2)), self.ends))
            return ends
        rows = i.emit(Unsqueeze((1, 3)), self.rows)
        visible: Value = i.emit(LessOrEqual(), places, rows)
        window = int(i.attr("local_window_size", -1))
        if window >= 0:
            first = i.emit(Sub(), rows, self._integer(window))
            visible = i.emit(And(), visible, i.emit(Greater(), places, first))
        return visible

    def _sinks(self) -> Value | None:
        """Per head, the score of a key whose value is 0; None without one."""
        sinks = self.i.optional(11)
        if sinks is None and self.i.attr("smooth_softmax", -1) == 1:
            return self.i.const(np.zeros(self.heads, np.float32))
        return sinks

    def _with_sinks(self, bias: Value | None, sinks: Value, keys: Dim) -> Value:
        """``bias`` for one more key, at the end, the sinks as its scores."""
        i = self.i
        column = i.emit(Reshape((1, self.heads, 1, 1)), wide(i, sinks))
        scores: Value = i.emit(Pad((0, 0, 0, keys, 0, 0, 0, 0)), column)
        return scores if bias is None else i.emit(Add(), self._longer(bias, 3, 1), scores)

    def _longer(self, x: Value, axis: int, more: Dim) -> Value:
        """``x`` of four axes with ``more`` zeros behind it."""
        pads = tuple(more if place == axis + 4 else 0 for place in range(8))
        longer: Value = x if more == 0 else self.i.emit(Pad(pads), x)
        return longer

    def _places(self, count: Dim) -> Value:
        places: Value = self.i.emit(Range((0, count, 1)))
        return places

    def _integer(self, value: Dim) -> Value:
        made: Value = self.i.emit(Range((value, value + 1, 1)))
        return made


contribute(ScaledDotProductAttention, GroupQueryAttention=ranked(lambda i: _GroupQueryAttention(i).outputs()))

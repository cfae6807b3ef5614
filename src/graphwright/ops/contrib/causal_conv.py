"""Import of ONNX Runtime's CausalConvWithState and VarlenCausalConvWithState: depthwise convolutions over
tokens that continue from the last inputs of an earlier call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer, OnnxImporter
from graphwright.ir.symbols import Dim
from graphwright.ops.contrib.attention import wide
from graphwright.ops.contrib.packed_tokens import sequences
from graphwright.ops.contrib.registration import register_contrib
from graphwright.ops.core.binary import Add, Less, Mul, Sub, added
from graphwright.ops.core.cast import as_dtype
from graphwright.ops.core.checks import rank_of
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.range import Range
from graphwright.ops.core.ranked_import import ranked
from graphwright.ops.core.reductions import ReduceSum
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.sampling import size_value
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.core.where import Where
from graphwright.ops.nn.activations import Swish
from graphwright.ops.nn.conv import Conv

_ONLY = {
    "ndim": 1, "state_channels_last": -1, "state_length": 0, "state_window": 0, "state_update_capacity": 0,
    "input_channel_offset": 0, "input_channels": 0,
}  # fmt: skip
"""Attributes of which ONNX Runtime's CPU kernel supports one value."""


def _import(i: OnnxImporter) -> Any:
    """Inputs: x[B, C, T], or [B, T, C...] with ``channels_last``; the weight [C, 1, K], the bias [C], and the
    state, the last ``(K - 1) * dilation`` inputs.
    """
    for name, value in _ONLY.items():
        if int(i.attr(name, value)) != value:
            raise i.fail(f"{name} is {i.attr(name)}", hint=f"export the model with {name}={value}")
    x, past, last = wide(i, i.input(0)), i.optional(3), bool(i.attr("channels_last", 0))
    channels, taps = _kernel(i)
    dilation = _dilation(i)
    kept = (taps - 1) * dilation
    shape = x.type.dims
    if rank_of(x) < 3 or (rank_of(x) > 3 and not last):
        raise i.fail(f"the input is {x.type}", hint="it must have the axes [batch, channels, tokens]")
    if last:
        x = _channels_first(i, x, channels)
    batch, _, tokens = x.type.dims
    if past is None:
        state = i.emit(Expand((batch, channels, kept)), i.const(np.zeros((1, 1, 1), np.float32)))
    else:
        state = _channels_first(i, wide(i, past), channels) if last else wide(i, past)
    x = i.emit(Concat(2), state, x)
    operands = [wide(i, value) for value in (i.input(1), i.optional(2)) if value is not None]
    y = _activated(i, i.emit(Conv(dilations=(dilation,), group=channels), x, *operands))
    state = i.emit(Slice((tokens,), (tokens + kept,), (2,), (1,)), x)
    if last:
        y = reshaped(i.builder, i.emit(Transpose((0, 2, 1)), y), shape)
        state = i.emit(Transpose((0, 2, 1)), state)
        state = reshaped(i.builder, state, (batch, kept, *shape[2:]))
    return as_dtype(i.builder, y, i.input(0).type.dtype), as_dtype(i.builder, state, i.input(0).type.dtype)


def _import_packed(i: OnnxImporter) -> Any:
    """Inputs: x[N, C], the tokens of all sequences; the weight [C, 1, K], the bounds of the B sequences, the
    bias [C], and the state [B, C, (K - 1) * dilation].
    """
    if i.attr("state_update_capacity", 0) or i.optional(6) is not None:
        raise i.fail(
            "state_update_capacity and kernel_delta are not supported",
            hint="export the model without them: ONNX Runtime's CPU kernel ignores or rejects them as well",
        )
    x, past = wide(i, i.input(0)), wide(i, i.input(4))
    channels, taps = _kernel(i)
    dilation = _dilation(i)
    kept, total = (taps - 1) * dilation, x.type.dims[0]
    found = sequences(i, i.input(2), total)
    history = reshaped(i.builder, _tokens_first(i, past), (found.count * kept, channels))
    rows = i.emit(Concat(0), x, history)
    delays = i.const(np.arange(taps - 1, -1, -1)[None] * dilation)
    position = i.emit(Sub(), i.emit(Unsqueeze((1,)), found.position), delays)
    indices = _row(i, total, kept, i.emit(Gather(0), found.starts, found.of), found.of, position)
    weight = i.emit(Transpose((2, 1, 0)), wide(i, i.input(1)))
    weight = reshaped(i.builder, weight, (1, taps, channels))
    products = i.emit(Mul(), i.emit(Gather(0), rows, indices), weight)
    bias = i.optional(3)
    y = i.emit(ReduceSum((1,), keepdims=False), products)
    y = _activated(i, added(i, y, None if bias is None else wide(i, bias)))
    lengths = i.emit(Unsqueeze((1,)), i.emit(Sub(), found.ends, found.starts))
    position = i.emit(Add(), lengths, i.const(np.arange(-kept, 0)[None]))
    indices = _row(i, total, kept, found.starts, i.emit(Range((0, found.count, 1))), position)
    state = _tokens_first(i, i.emit(Gather(0), rows, indices))
    return as_dtype(i.builder, y, i.input(0).type.dtype), as_dtype(i.builder, state, i.input(4).type.dtype)


def _kernel(i: Importer) -> tuple[int, int]:
    """The channels and taps of the weight."""
    dims = [n for n in i.input(1).type.dims if isinstance(n, int) and n > 0]
    if len(dims) != 3 or dims[1] != 1 or i.input(1).type.rank != 3:
        raise i.fail(
            f"the weight is {i.input(1).type}", hint="it must have the static axes [channels, 1, taps]"
        )
    return dims[0], dims[2]


def _dilation(i: Importer) -> int:
    dilation = int(i.attr("dilation", 1))
    if dilation < 1:
        raise i.fail(f"dilation is {dilation}", hint="it must be at least 1")
    return dilation


def _activated(i: Importer, y: Value) -> Value:
    kind = str(i.attr("activation", "none"))
    if kind not in ("none", "silu", "swish"):
        raise i.fail(f"activation {kind!r} is not one of none, silu, swish")
    return y if kind == "none" else i.emit(Swish(), y)


def _channels_first(i: Importer, x: Value, channels: int) -> Value:
    """x[B, T, C...], whose last axes are all channels, as [B, C, T]."""
    batch, tokens = x.type.dims[:2]
    y: Value = i.emit(Transpose((0, 2, 1)), reshaped(i.builder, x, (batch, tokens, channels)))
    return y


def _tokens_first(i: Importer, x: Value) -> Value:
    """x[B, n, m] as [B, m, n]."""
    y: Value = i.emit(Transpose((0, 2, 1)), x)
    return y


def _row(i: Importer, total: Dim, kept: int, starts: Value, of: Value, position: Value) -> Value:
    """The row that contains the input at ``position`` of a sequence. The first ``total`` rows are the tokens.
    The states follow them, ``kept`` rows for each sequence: these are the inputs before its start.
    """
    base = i.emit(Add(), i.emit(Mul(), of, i.const(np.asarray(kept))), size_value(i.builder, total + kept))
    is_before = i.emit(Less(), position, i.const(np.asarray(0)))
    base = i.emit(Where(), is_before, i.emit(Unsqueeze((1,)), base), i.emit(Unsqueeze((1,)), starts))
    y: Value = i.emit(Add(), base, position)
    return y


register_contrib(Conv, CausalConvWithState=ranked(_import), VarlenCausalConvWithState=ranked(_import_packed))

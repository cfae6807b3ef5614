"""The cache of GroupQueryAttention in codes of 8 or 4 bits."""

from __future__ import annotations

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer
from graphwright.ir.symbols import Dim
from graphwright.ir.types import F32, I8, U8
from graphwright.ops.contrib.attention import Heads, wide
from graphwright.ops.core.binary import Add, BitwiseAnd, BitwiseOr, Mul, Sub
from graphwright.ops.core.bit_shift import BitShift
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.clip import Clip
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.div import Div
from graphwright.ops.core.imports import scalar
from graphwright.ops.core.reshape import Reshape, reshaped
from graphwright.ops.core.split import Split
from graphwright.ops.core.squeeze import Squeeze
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unary import Round
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.nn.attention import HEADS_INSIDE
from graphwright.records import replace

_MIDDLE = 8
"""The code of 0 of 4 bits."""


class QuantizedCache:
    """Keys or values as codes: i8; or u8, in which a byte has two codes of 4 bits, the first in the low bits.
    A number is its code times a scale, which is one for all or one for each feature of each head.
    """

    def __init__(self, i: Importer, kind: str, scale: Value, bits: int, heads: int) -> None:
        if kind not in ("PER_TENSOR", "PER_CHANNEL") or bits not in (4, 8):
            raise i.fail(
                f"a cache quantized as {kind} with {bits} bits is not supported",
                "export the model with PER_TENSOR or PER_CHANNEL, and 8 or 4 bits",
            )
        self._i, self._bits = i, bits
        shape: tuple[Dim, ...] = (1, 1, 1, 1) if kind == "PER_TENSOR" else (1, heads, 1, -1)
        self._scale: Value = i.emit(Reshape(shape), wide(i, scale))

    def _scale_of(self, x: Heads) -> Value:
        """The scale in the layout of ``x``."""
        scale: Value = self._scale
        return self._i.emit(Transpose((0, 2, 1, 3)), scale) if x.axes == HEADS_INSIDE else scale

    def quantized(self, x: Heads) -> Heads:
        """The codes of ``x``."""
        i, limit = self._i, 1 << self._bits - 1
        codes = i.emit(Round(), i.emit(Div(), wide(i, x.value), self._scale_of(x)))
        codes = i.emit(Clip(float(-limit), float(limit - 1)), codes)
        if self._bits == 8:
            return replace(x, value=i.emit(Cast(I8), codes))
        shifted = i.emit(Cast(U8), i.emit(Add(), codes, scalar(i, _MIDDLE, codes)))
        *outer, _ = shifted.type.dims
        pairs = i.emit(Reshape((*outer, -1, 2)), shifted)
        low, high = (i.emit(Squeeze((-1,)), part) for part in i.emit(Split(2, -1, (1, 1)), pairs))
        high = i.emit(BitShift("LEFT"), high, i.const(np.array(4, np.uint8)))
        return replace(x, value=i.emit(BitwiseOr(), low, high))

    def dequantized(self, x: Heads) -> Heads:
        """The numbers of the codes ``x``, in f32."""
        i, codes = self._i, x.value
        if self._bits == 4:
            low = i.emit(BitwiseAnd(), codes, i.const(np.array(15, np.uint8)))
            high = i.emit(BitShift("RIGHT"), codes, i.const(np.array(4, np.uint8)))
            *outer, size = codes.type.dims
            pairs = i.emit(Concat(-1), *(i.emit(Unsqueeze((-1,)), part) for part in (low, high)))
            codes = reshaped(i.builder, pairs, (*outer, 2 * size))
        numbers = i.emit(Cast(F32), codes)
        if self._bits == 4:
            numbers = i.emit(Sub(), numbers, scalar(i, _MIDDLE, numbers))
        return replace(x, value=i.emit(Mul(), numbers, self._scale_of(x)))

"""Numbers that are not sizes, among the int64 args of a kernel."""

from __future__ import annotations

import math
import struct


def double_bits(value: float) -> int:
    """The int64 that has the bits of the double ``value``."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def single_bits(value: float) -> int:
    """The int64 whose low half has the bits of ``value`` rounded to f32."""
    try:
        single = struct.pack("<f", value)
    except OverflowError:
        single = struct.pack("<f", math.copysign(math.inf, value))
    return int(struct.unpack("<I", single)[0])

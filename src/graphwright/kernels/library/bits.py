"""Encodes floats as int64 arguments of a kernel."""

from __future__ import annotations

import math
import struct


def double_bits(value: float) -> int:
    """The bits of the double ``value`` as an int64."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def single_bits(value: float) -> int:
    """The bits of ``value``, rounded to f32, in the low half of an int64."""
    try:
        single = struct.pack("<f", value)
    except OverflowError:
        single = struct.pack("<f", math.copysign(math.inf, value))
    return int(struct.unpack("<I", single)[0])

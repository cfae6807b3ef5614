"""Numbers that are not sizes, among the int64 args of a kernel."""

from __future__ import annotations

import struct


def double_bits(value: float) -> int:
    """The int64 that has the bits of the double ``value``."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0])

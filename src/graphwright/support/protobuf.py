"""Parts of the wire format of protobuf messages (protobuf.dev/programming-guides/encoding), for code that
reads or writes them without the protobuf library.
"""

from __future__ import annotations

from typing import Final

LENGTH_DELIMITED: Final = 2
"""The wire type of messages, strings and bytes."""


def field_header(number: int, size: int) -> bytes:
    """The tag and the size of a length-delimited field of ``size`` bytes."""
    return _varint(number << 3 | LENGTH_DELIMITED) + _varint(size)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)

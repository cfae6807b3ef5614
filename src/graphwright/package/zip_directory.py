"""The central directory of a zip archive, read strictly: the entries, and the bytes of each member.

Format: PKWARE APPNOTE 6.3. It accepts only what :mod:`graphwright.package.write_archive` writes: no
compression, encryption, comments, duplicate or unusual names, and only aligned members within the file.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

ALIGNMENT = 64
LOCAL_HEADER = struct.Struct("<4sHHHHHIIIHH")
ENTRY = struct.Struct("<4s6HIIIHHHHHII")
"""An entry of the central directory; its name and extra fields follow."""
END = struct.Struct("<4sHHHHIIH")
END_64 = struct.Struct("<4sQHHIIQQQQ")
LOCATOR_64 = struct.Struct("<4sIQI")
LARGE = 0xFFFFFFFF
"""Stands for a number that is in the extra field of 64-bit numbers, whose id is 1."""
_NAME = re.compile(r"[A-Za-z0-9_]+(?:[-./][A-Za-z0-9_]+)*")


class DirectoryEntry(NamedTuple):
    """A member as the central directory states it."""

    name: str
    flags: int
    method: int
    stored: int
    size: int
    offset: int


def entries_in(data: memoryview) -> Iterator[DirectoryEntry]:
    """The entries of the central directory. Raises ValueError or struct.error if it is malformed."""
    count, start, stop = directory_in(data)
    for _ in range(count):
        signature, *_, flags, method, _, _, _, stored, size, name, extra, comment, _, _, _, offset = (
            ENTRY.unpack_from(data, start)
        )
        name_start = start + ENTRY.size
        start = name_start + name + extra + comment
        if signature != b"PK\x01\x02" or start > stop:
            raise ValueError("its directory is damaged")
        text = bytes(data[name_start : name_start + name]).decode("latin-1")
        fields = bytes(data[name_start + name : name_start + name + extra])
        size, stored, offset = _full((size, stored, offset), fields)
        yield DirectoryEntry(text, flags, method, stored, size, offset)
    if start != stop:
        raise ValueError("its directory is damaged")


def directory_in(data: memoryview) -> tuple[int, int, int]:
    """The number of entries of the central directory, and where it starts and stops."""
    end = len(data) - END.size
    if end < 0:
        raise ValueError("it is too short")
    signature, *_, count, size, start, comment = END.unpack_from(data, end)
    if signature != b"PK\x05\x06" or comment:
        raise ValueError("it does not end as a zip file does")
    if count == 0xFFFF or LARGE in (size, start) or start + size != end:
        # some writers add the 64-bit record from 2 GiB on, though the numbers still fit in the 32-bit one
        end, count, size, start = _directory_64(data, end - LOCATOR_64.size)
    if start + size != end:
        raise ValueError("its directory is not at the stated offset")
    return count, start, end


def _directory_64(data: memoryview, locator: int) -> tuple[int, int, int, int]:
    """The offset of the 64-bit record; the number of entries of the central directory, its size and its
    start.
    """
    if locator < 0:
        raise ValueError("it is too short")
    mark, _, end, _ = LOCATOR_64.unpack_from(data, locator)
    if mark != b"PK\x06\x07":
        raise ValueError("its directory is not at the stated offset")
    signature, *_, count, size, start = END_64.unpack_from(data, end)
    if signature != b"PK\x06\x06" or end + END_64.size != locator:
        raise ValueError("its 64-bit directory is damaged")
    return end, count, size, start


def _full(numbers: tuple[int, ...], extra: bytes) -> Iterator[int]:
    """``numbers``, with those that do not fit in 32 bits taken from the extra fields."""
    wide = b""
    while extra:
        kind, length = struct.unpack_from("<HH", extra)
        if kind == 1:
            wide = extra[4 : 4 + length]
        extra = extra[4 + length :]
    for number in numbers:
        if number == LARGE:
            (number,), wide = struct.unpack_from("<Q", wide), wide[8:]
        yield number


def ranges_of(entries: Sequence[DirectoryEntry], data: memoryview) -> dict[str, tuple[int, int]]:
    """Start and size of the members by name. Raises ValueError if they overlap or are invalid."""
    ranges: dict[str, tuple[int, int]] = {}
    for entry in entries:
        if entry.name in ranges:
            raise ValueError(f"two members have the name {entry.name!r}")
        start, fault = _range(entry, data)
        if fault:
            raise ValueError(f"member {entry.name!r} {fault}")
        ranges[entry.name] = start, entry.size
    for (start, size), (following, _) in pairwise(sorted(ranges.values())):
        if start + size > following:
            raise ValueError("two members share bytes")
    return ranges


def is_plain(name: str) -> bool:
    """Whether ``name`` consists of words separated by '-', '.' or '/'."""
    return _NAME.fullmatch(name) is not None


def _range(entry: DirectoryEntry, data: memoryview) -> tuple[int, str]:
    """The offset of a member's bytes, and what is wrong with the member, or an empty text."""
    name = entry.name
    if not is_plain(name):
        return 0, "has an invalid name"
    if entry.method or entry.flags or entry.stored != entry.size:
        return 0, "is compressed or encrypted"
    if not 0 <= entry.offset <= len(data) - LOCAL_HEADER.size:
        return 0, "has its header beyond the end of the file"
    signature, *_, name_length, extra_length = LOCAL_HEADER.unpack_from(data, entry.offset)
    name_start = entry.offset + LOCAL_HEADER.size
    start = name_start + name_length + extra_length
    if signature != b"PK\x03\x04" or data[name_start : name_start + name_length] != name.encode():
        return 0, "has an invalid local header"
    if start % ALIGNMENT:
        return 0, "is not aligned"
    if start + entry.size > len(data):
        return 0, "extends beyond the end of the file"
    return start, ""

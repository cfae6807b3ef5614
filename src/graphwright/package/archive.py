"""A zip archive with stored, 64-byte aligned members: strict to read.

Format: PKWARE APPNOTE 6.3. Only what :mod:`graphwright.package.archiver` writes is accepted: no compression,
encryption, comments, duplicate or odd names, and members that lie aligned within the file. The standard
library's reader accepts more, and importing it takes longer than reading.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from graphwright.errors import Diagnostic, PackageError
from graphwright.package.parts import fill_in_parts

ALIGNMENT = 64
LOCAL_HEADER = struct.Struct("<4sHHHHHIIIHH")
_ENTRY = struct.Struct("<4s6HIIIHHHHHII")
"""Of the central directory; the name and the extra fields follow."""
_END = struct.Struct("<4sHHHHIIH")
_END_64 = struct.Struct("<4sQHHIIQQQQ")
_LOCATOR_64 = struct.Struct("<4sIQI")
_LARGE = 0xFFFFFFFF
"""Stands for a number that lies in the extra field of 64-bit numbers, whose id is 1."""
_NAME = re.compile(r"[A-Za-z0-9_]+(?:[./][A-Za-z0-9_]+)*")


def read_archive(path: Path, *, use_mmap: bool = False) -> dict[str, memoryview]:
    """Members by name: aligned, read-only views of the file, copied into memory unless ``use_mmap``."""
    try:
        with open(path, "rb") as file:
            data = _mapped(file) if use_mmap else _copied(file)
        entries = list(_entries(data))
    except (struct.error, ValueError, OverflowError) as error:
        raise damaged(path, str(error)) from error
    members: dict[str, memoryview] = {}
    for entry in entries:
        if entry.name in members:
            raise damaged(path, f"two members are called {entry.name!r}")
        start, fault = _place(entry, data)
        if fault:
            raise damaged(path, f"member {entry.name!r} {fault}")
        members[entry.name] = data[start : start + entry.size]
    return members


class _Entry(NamedTuple):
    """A member as the central directory states it."""

    name: str
    flags: int
    method: int
    stored: int
    size: int
    offset: int


def _entries(data: memoryview) -> Iterator[_Entry]:
    """The central directory; a ValueError or struct.error if there is none."""
    count, start, stop = _directory(data)
    for _ in range(count):
        signature, *_, flags, method, _, _, _, stored, size, name, extra, comment, _, _, _, offset = (
            _ENTRY.unpack_from(data, start)
        )
        name_start = start + _ENTRY.size
        start = name_start + name + extra + comment
        if signature != b"PK\x01\x02" or start > stop:
            raise ValueError("its directory is damaged")
        text = bytes(data[name_start : name_start + name]).decode("latin-1")
        fields = bytes(data[name_start + name : name_start + name + extra])
        size, stored, offset = _full((size, stored, offset), fields)
        yield _Entry(text, flags, method, stored, size, offset)
    if start != stop:
        raise ValueError("its directory is damaged")


def _directory(data: memoryview) -> tuple[int, int, int]:
    """Entries of the central directory, and where it starts and stops."""
    end = len(data) - _END.size
    if end < 0:
        raise ValueError("it is too short")
    signature, *_, count, size, start, comment = _END.unpack_from(data, end)
    if signature != b"PK\x05\x06" or comment:
        raise ValueError("it does not end as a zip file does")
    if count == 0xFFFF or _LARGE in (size, start):
        locator = end - _LOCATOR_64.size
        if locator < 0:
            raise ValueError("it is too short")
        mark, _, end, _ = _LOCATOR_64.unpack_from(data, locator)
        signature, *_, count, size, start = _END_64.unpack_from(data, end)
        if (mark, signature) != (b"PK\x06\x07", b"PK\x06\x06"):
            raise ValueError("its 64-bit directory is damaged")
    if start + size != end:
        raise ValueError("its directory is not where it says")
    return count, start, end


def _full(numbers: tuple[int, ...], extra: bytes) -> Iterator[int]:
    """``numbers``, those that are too large for 32 bits from the extra fields."""
    wide = b""
    while extra:
        kind, length = struct.unpack_from("<HH", extra)
        if kind == 1:
            wide = extra[4 : 4 + length]
        extra = extra[4 + length :]
    for number in numbers:
        if number == _LARGE:
            (number,), wide = struct.unpack_from("<Q", wide), wide[8:]
        yield number


def _mapped(file: BinaryIO) -> memoryview:
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _copied(file: BinaryIO) -> memoryview:
    memory = aligned_memory(os.fstat(file.fileno()).st_size)

    def fill(start: int, stop: int) -> None:
        while start < stop:
            count = os.preadv(file.fileno(), [memory[start:stop]], start)
            if not count:
                raise ValueError("the file became shorter while it was read")
            start += count

    fill_in_parts(len(memory), fill)
    return memory.toreadonly()


def aligned_memory(size: int) -> memoryview:
    """New memory of ``size`` bytes; its start is aligned."""
    block = np.empty(size + ALIGNMENT, np.uint8)
    start = -block.__array_interface__["data"][0] % ALIGNMENT
    return block.data[start : start + size]


def _place(entry: _Entry, data: memoryview) -> tuple[int, str]:
    """Where a member's bytes start, and what is wrong with it."""
    name = entry.name
    if not name.isascii() or not _NAME.fullmatch(name):
        return 0, "has a name that no package has"
    if entry.method or entry.flags or entry.stored != entry.size:
        return 0, "is compressed or encrypted"
    if not 0 <= entry.offset <= len(data) - LOCAL_HEADER.size:
        return 0, "has its header beyond the end of the file"
    signature, *_, name_length, extra_length = LOCAL_HEADER.unpack_from(data, entry.offset)
    name_start = entry.offset + LOCAL_HEADER.size
    start = name_start + name_length + extra_length
    if signature != b"PK\x03\x04" or data[name_start : name_start + name_length] != name.encode():
        return 0, "has no header of its own"
    if start % ALIGNMENT:
        return 0, "is not aligned"
    if start + entry.size > len(data):
        return 0, "reaches beyond the end of the file"
    return start, ""


def damaged(path: Path, reason: str) -> PackageError:
    """The error for a file that is no valid package."""
    hint = "is it an .om file, copied whole?"
    return PackageError(Diagnostic("damaged-package", f"not a valid package: {reason}", str(path), hint))

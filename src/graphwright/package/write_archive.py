"""Writes the archives that ``read_archive.py`` reads, deterministically and without seeking.

The standard library's writer seeks back to fill in headers, which a pipe does not allow, and its output may
change with its version.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from graphwright.package.hashes import Piece, checksum
from graphwright.package.parallel_fill import in_parts
from graphwright.package.zip_directory import ALIGNMENT, END, END_64, ENTRY, LARGE, LOCAL_HEADER, LOCATOR_64
from graphwright.support.whole_file import whole_file

_PADDING_ID = 0x4757
"""The id of the extra field that pads a member to its alignment ("GW")."""
_VERSION = 45
"""The version of the format that has 64-bit sizes."""
_MADE_BY = 3 << 8 | _VERSION
"""Made on Unix."""
_MODE = 0o644 << 16
_DATE = 1 << 5 | 1
"""1980-01-01, the earliest date of a zip file."""
_MANY = 0xFFFF


def write_archive(
    target: Path | BinaryIO,
    members: Mapping[str, Sequence[Piece]],
    checksums: Mapping[str, int] | None = None,
) -> None:
    """Writes ``members`` in order; each is a sequence of pieces of its bytes. Raises OSError.

    ``checksums`` are known CRC-32s of members. A file at a path is written atomically; an open binary file is
    written from its current position.
    """
    if not isinstance(target, Path):
        _write(target, members, checksums or {})
        return
    with whole_file(target) as file:
        _write(file, members, checksums or {})


def _write(file: BinaryIO, members: Mapping[str, Sequence[Piece]], checksums: Mapping[str, int]) -> None:
    position = 0
    directory: list[bytes] = []
    for name, given in members.items():
        pieces = list(given)
        size = sum(map(len, pieces))
        crc32 = checksums[name] if name in checksums else checksum(pieces)
        directory.append(_entry(name, size, crc32, position))
        for piece in (_header(name, size, crc32, position), *pieces):
            for part in in_parts(piece):
                _write_all(file, part)
            position += len(piece)
    _write_all(file, b"".join([*directory, *_ends(len(directory), sum(map(len, directory)), position)]))


def _write_all(file: BinaryIO, piece: Piece) -> None:
    """Writes ``piece`` completely; an unbuffered file may write only a part per call."""
    left = memoryview(piece)
    while left:
        count = file.write(left)
        left = left[len(left) if count is None else count :]


def _header(name: str, size: int, checksum: int, position: int) -> bytes:
    """The local header of a member, with 64-bit sizes, and padded so that the data after it is aligned."""
    sizes = struct.pack("<HHQQ", 1, 16, size, size)
    start = position + LOCAL_HEADER.size + len(name) + len(sizes) + 4
    padding = -start % ALIGNMENT
    extra = sizes + struct.pack("<HH", _PADDING_ID, padding) + bytes(padding)
    numbers = (_VERSION, 0, 0, 0, _DATE, checksum, LARGE, LARGE, len(name), len(extra))
    return LOCAL_HEADER.pack(b"PK\x03\x04", *numbers) + name.encode("ascii") + extra


def _entry(name: str, size: int, checksum: int, position: int) -> bytes:
    """The entry of a member in the central directory; 64-bit numbers are in its extra field."""
    wide = b"".join(struct.pack("<Q", n) for n in (size, size, position) if n >= LARGE)
    extra = struct.pack("<HH", 1, len(wide)) + wide if wide else b""
    shown, offset = min(size, LARGE), min(position, LARGE)
    head = (_MADE_BY, _VERSION, 0, 0, 0, _DATE, checksum, shown, shown, len(name), len(extra), 0, 0, 0, _MODE)
    return ENTRY.pack(b"PK\x01\x02", *head, offset) + name.encode("ascii") + extra


def _ends(count: int, size: int, start: int) -> Iterator[bytes]:
    """The end records after the central directory, which has ``size`` bytes at ``start``."""
    if count >= _MANY or size >= LARGE or start >= LARGE:
        numbers = (END_64.size - 12, _MADE_BY, _VERSION, 0, 0, count, count, size, start)
        yield END_64.pack(b"PK\x06\x06", *numbers)
        yield LOCATOR_64.pack(b"PK\x06\x07", 0, start + size, 1)
    few = min(count, _MANY)
    yield END.pack(b"PK\x05\x06", 0, 0, few, few, min(size, LARGE), min(start, LARGE), 0)

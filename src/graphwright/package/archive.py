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
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

from graphwright.errors import Diagnostic, PackageError
from graphwright.package.parts import fill_in_parts
from graphwright.support.file_kinds import HEAD, PACKAGE, ZIP, FileKind, kind_of, kind_of_file

ALIGNMENT = 64
LOCAL_HEADER = struct.Struct("<4sHHHHHIIIHH")
ENTRY = struct.Struct("<4s6HIIIHHHHHII")
"""Of the central directory; the name and the extra fields follow."""
END = struct.Struct("<4sHHHHIIH")
END_64 = struct.Struct("<4sQHHIIQQQQ")
LOCATOR_64 = struct.Struct("<4sIQI")
LARGE = 0xFFFFFFFF
"""Stands for a number that lies in the extra field of 64-bit numbers, whose id is 1."""
_PAGE = 4096
_MAP_NORESERVE = 0x4000
"""Linux's, which Python names from 3.13 on: files that are larger than the memory can be mapped."""
_TAIL = 1 << 16
"""Bytes at the end of a file that hold its directory, mostly."""
_NAME = re.compile(r"[A-Za-z0-9_]+(?:[./][A-Za-z0-9_]+)*")


Chosen = Callable[[str], bool]
"""Tells members by their names."""
_Span = tuple[int, int]


def _no_member(name: str) -> bool:
    """Chooses nothing."""
    return False


Source = Path | BinaryIO | bytes | bytearray | memoryview
"""Where an archive is: in a file, in what an open binary file has left, or in memory."""


class Later:
    """A member that stays in its file, which is kept open, until it is read."""

    def __init__(self, file: int, start: int, size: int) -> None:
        self._file, self._start, self.size = os.dup(file), start, size

    def read(self) -> memoryview:
        """Its bytes in new, aligned memory. A ValueError if the file has become shorter, an OSError else."""
        memory = aligned_memory(self.size)
        fill_in_parts(self.size, partial(_fill, self._file, memory, self._start))
        return memory.toreadonly()

    def __del__(self) -> None:
        os.close(self._file)


class Held:
    """A member that is in memory already."""

    def __init__(self, data: memoryview) -> None:
        self._data, self.size = data, len(data)

    def read(self) -> memoryview:
        """Its bytes."""
        return self._data


def read_archive(source: Source, *, use_mmap: bool = False) -> dict[str, memoryview]:
    """Members by name: aligned, read-only views of the file, copied into memory unless ``use_mmap``."""
    members, _ = open_archive(source, use_mmap=use_mmap)
    return {name: data.toreadonly() for name, data in members.items()}


def open_archive(
    source: Source, *, use_mmap: bool = False, later: Chosen = _no_member
) -> tuple[dict[str, memoryview], dict[str, Later | Held]]:
    """As :func:`read_archive`, and the members that ``later`` chooses by name, which are not read.

    Only a file at a path can be mapped; what is written to such members stays in this process. Raises
    PackageError, and OSError.
    """
    left: dict[str, Later | Held] = {}
    if not isinstance(source, Path) or source.is_fifo():
        members = _members(_in_memory(source), source)
        left |= {name: Held(members.pop(name)) for name in list(filter(later, members))}
        return members, left
    try:
        with open(source, "rb") as file:
            data, holes = (_mapped(file), {}) if use_mmap else _copied(file.fileno(), later)
            entries = list(_entries(data))
            places = _places(entries, data)
            if holes != (_holes(entries, later, len(data)) if holes else {}) or any(
                places[name][0] > start for name, (start, _) in holes.items()
            ):
                raise ValueError("its directory was changed while it was read, or is none")
            for name in list(filter(later, places)):
                left[name] = Later(file.fileno(), *places.pop(name))
    except (struct.error, ValueError, OverflowError) as error:
        raise damaged(shown(source), str(error), kind_of_file(source)) from error
    except IsADirectoryError as error:
        raise damaged(shown(source), "it is a folder", kind_of_file(source)) from error
    return {name: data[start : start + size] for name, (start, size) in places.items()}, left


def _members(data: memoryview, source: Source) -> dict[str, memoryview]:
    try:
        places = _places(list(_entries(data)), data)
    except (struct.error, ValueError, OverflowError) as error:
        raise damaged(shown(source), str(error), kind_of(bytes(data[:HEAD]), len(data))) from error
    return {name: data[start : start + size] for name, (start, size) in places.items()}


def _in_memory(source: Source) -> memoryview:
    """The bytes of ``source`` in new, aligned memory. Raises PackageError where there are none."""
    if isinstance(source, Path):
        source = source.read_bytes()
    elif not isinstance(source, bytes | bytearray | memoryview):
        if not hasattr(source, "read"):
            raise _no_source(f"a package cannot be read from {type(source).__name__}")
        source = source.read()
        if not isinstance(source, bytes | bytearray | memoryview):
            raise _no_source("the file is open as text")
    given = memoryview(source).cast("B")
    memory = aligned_memory(len(given))
    memory[:] = given
    return memory.toreadonly()


def _no_source(message: str) -> PackageError:
    hint = 'give a path, bytes, or a file that is open with "rb"'
    return PackageError(Diagnostic("source", message, hint=hint))


def _places(entries: Sequence[_Entry], data: memoryview) -> dict[str, tuple[int, int]]:
    """Start and size of the members by name; they are apart. A ValueError where they are not."""
    places: dict[str, tuple[int, int]] = {}
    for entry in entries:
        if entry.name in places:
            raise ValueError(f"two members are called {entry.name!r}")
        start, fault = _place(entry, data)
        if fault:
            raise ValueError(f"member {entry.name!r} {fault}")
        places[entry.name] = start, entry.size
    for (start, size), (following, _) in pairwise(sorted(places.values())):
        if start + size > following:
            raise ValueError("two members share bytes")
    return places


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
            ENTRY.unpack_from(data, start)
        )
        name_start = start + ENTRY.size
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
    end = len(data) - END.size
    if end < 0:
        raise ValueError("it is too short")
    signature, *_, count, size, start, comment = END.unpack_from(data, end)
    if signature != b"PK\x05\x06" or comment:
        raise ValueError("it does not end as a zip file does")
    if count == 0xFFFF or LARGE in (size, start) or start + size != end:
        # some writers add the 64-bit record from 2 GiB on, though the 32-bit one still holds the numbers
        end, count, size, start = _directory_64(data, end - LOCATOR_64.size)
    if start + size != end:
        raise ValueError("its directory is not where it says")
    return count, start, end


def _directory_64(data: memoryview, locator: int) -> tuple[int, int, int, int]:
    """Where the 64-bit record lies; entries of the central directory, its size, and where it starts."""
    if locator < 0:
        raise ValueError("it is too short")
    mark, _, end, _ = LOCATOR_64.unpack_from(data, locator)
    if mark != b"PK\x06\x07":
        raise ValueError("its directory is not where it says")
    signature, *_, count, size, start = END_64.unpack_from(data, end)
    if signature != b"PK\x06\x06" or end + END_64.size != locator:
        raise ValueError("its 64-bit directory is damaged")
    return end, count, size, start


def _full(numbers: tuple[int, ...], extra: bytes) -> Iterator[int]:
    """``numbers``, those that are too large for 32 bits from the extra fields."""
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


def _mapped(file: BinaryIO) -> memoryview:
    """The file in memory; a page that is written becomes this process's own, and no part of the file."""
    flags = mmap.MAP_PRIVATE | _MAP_NORESERVE
    return memoryview(mmap.mmap(file.fileno(), 0, flags, mmap.PROT_READ | mmap.PROT_WRITE))


def _copied(file: int, later: Chosen) -> tuple[memoryview, dict[str, _Span]]:
    """The file in memory, but for holes where the members of ``later`` lie: pages that are never touched."""
    size = os.fstat(file).st_size
    pages = _new_pages(size)
    memory = memoryview(pages)[:size]
    holes = _find_holes(file, memory, later) if later is not _no_member else {}
    done = 0
    for start, stop in (*sorted(holes.values()), (size, size)):
        if start > done:
            first = done - done % mmap.PAGESIZE
            pages.madvise(mmap.MADV_HUGEPAGE, first, start - first)  # none that reaches into a hole
            fill_in_parts(start - done, partial(_fill, file, memory[done:], done))
        done = max(done, stop)
    return memory.toreadonly(), holes


def _fill(file: int, memory: memoryview, offset: int, start: int, stop: int) -> None:
    """Read bytes ``[start, stop)`` of ``memory``, which begins at ``offset`` of the file."""
    while start < stop:
        count = os.preadv(file, [memory[start:stop]], offset + start)
        if not count:
            raise ValueError("the file became shorter while it was read")
        start += count


def _find_holes(file: int, memory: memoryview, later: Chosen) -> dict[str, _Span]:
    """Read the file's directory, and find where the bytes of members lie in it."""
    size = len(memory)
    tail = max(0, size - _TAIL)
    _fill(file, memory, 0, tail, size)
    _fill(file, memory, 0, min(max(0, _directory(memory)[1]), tail), tail)
    return _holes(list(_entries(memory)), later, size)


def _holes(entries: Sequence[_Entry], later: Chosen, size: int) -> dict[str, _Span]:
    """Where the bytes of the members of ``later`` lie, by name; a page is left for the header of each."""
    holes: dict[str, _Span] = {}
    for entry in entries:
        stop = entry.offset + LOCAL_HEADER.size + entry.size
        if later(entry.name) and entry.size > _PAGE and entry.offset >= 0 and stop <= size:
            holes[entry.name] = entry.offset + _PAGE, stop
    return holes


def aligned_memory(size: int) -> memoryview:
    """New memory of ``size`` bytes; its start is aligned."""
    memory = _new_pages(size)
    memory.madvise(mmap.MADV_HUGEPAGE)  # it is filled at once: fewer pages to wait for
    return memoryview(memory)[:size]


def _new_pages(size: int) -> mmap.mmap:
    return mmap.mmap(-1, max(1, size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def reserved_memory(size: int) -> memoryview:
    """New memory of ``size`` bytes that the system need not have: pages are taken when they are written."""
    no_reserve = 0x4000  # MAP_NORESERVE of Linux, which Python names from 3.13 on
    memory = mmap.mmap(-1, max(1, size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve)
    memory.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(memory)[:size]


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


def damaged(where: str, reason: str, kind: FileKind | None = None) -> PackageError:
    """The error for a file that is no valid package; ``kind`` says what else it is, if that is known."""
    if kind is not None and kind is not PACKAGE:
        detail = f": {reason}" if kind is ZIP else ""
        message = f"not a valid package: it is {kind.what}{detail}"
        return PackageError(Diagnostic("damaged-package", message, where, kind.advice))
    hint = "is it an .om file, copied whole?"
    return PackageError(Diagnostic("damaged-package", f"not a valid package: {reason}", where, hint))


def shown(source: Source) -> str:
    """``source`` as errors name it."""
    if isinstance(source, Path):
        return str(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "the package's bytes"

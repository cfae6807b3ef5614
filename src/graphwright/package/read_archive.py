"""Reads zip archives with uncompressed, 64-byte aligned members: into memory, as mappings, or on demand.

It reads only what :mod:`graphwright.package.zip_directory` accepts. The standard library's reader accepts
more, and importing it takes longer than reading a package.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

from graphwright.errors import Diagnostic, PackageError
from graphwright.package.parallel_fill import fill_in_threads
from graphwright.package.zip_directory import (
    LOCAL_HEADER,
    DirectoryEntry,
    directory_in,
    entries_in,
    ranges_of,
)
from graphwright.support.file_kinds import HEAD, PACKAGE, ZIP, FileKind, kind_of, kind_of_file

_PAGE = 4096
_MAP_NORESERVE = 0x4000
"""MAP_NORESERVE of Linux, which Python has from 3.13 on: files that are larger than the memory can be
mapped.
"""
_TAIL = 1 << 16
"""Bytes at the end of a file that usually contain its whole directory."""


Chosen = Callable[[str], bool]
"""Selects members by name."""
_Span = tuple[int, int]


def _no_member(name: str) -> bool:
    """Selects no member."""
    return False


Source = Path | BinaryIO | bytes | bytearray | memoryview
"""An archive: a path, an open binary file that is read to its end, or bytes."""


class FileMember:
    """A member that is read on demand; its file stays open until then."""

    def __init__(self, file: int, start: int, size: int) -> None:
        self._file, self._start, self.size = os.dup(file), start, size

    def read(self) -> memoryview:
        """Reads its bytes into new, aligned memory. Raises ValueError if the file was truncated, and
        OSError.
        """
        memory = aligned_memory(self.size)
        fill_in_threads(self.size, partial(_fill, self._file, memory, self._start))
        return memory.toreadonly()

    def __del__(self) -> None:
        os.close(self._file)


class MemoryMember:
    """A member that is already in memory."""

    def __init__(self, data: memoryview) -> None:
        self._data, self.size = data, len(data)

    def read(self) -> memoryview:
        """Its bytes."""
        return self._data


def read_archive(source: Source, *, use_mmap: bool = False) -> dict[str, memoryview]:
    """The members by name, as aligned, read-only views. The file is copied into memory, or mapped with
    ``use_mmap``.
    """
    members, _ = open_archive(source, use_mmap=use_mmap)
    return {name: data.toreadonly() for name, data in members.items()}


def open_archive(
    source: Source, *, use_mmap: bool = False, later: Chosen = _no_member
) -> tuple[dict[str, memoryview], dict[str, FileMember | MemoryMember]]:
    """As :func:`read_archive`; also returns the members that ``later`` selects, which are not read yet.

    Only a file at a path can be mapped; the mapping is private, so writes to it do not reach the file. Raises
    PackageError and OSError.
    """
    left: dict[str, FileMember | MemoryMember] = {}
    if not isinstance(source, Path) or source.is_fifo():
        members = _members(_in_memory(source), source)
        left |= {name: MemoryMember(members.pop(name)) for name in list(filter(later, members))}
        return members, left
    try:
        with open(source, "rb") as file:
            data, holes = (_mapped(file), {}) if use_mmap else _copied(file.fileno(), later)
            entries = list(entries_in(data))
            ranges = ranges_of(entries, data)
            if holes != (_holes(entries, later, len(data)) if holes else {}) or any(
                ranges[name][0] > start for name, (start, _) in holes.items()
            ):
                raise ValueError("its directory is invalid, or changed while it was read")
            for name in list(filter(later, ranges)):
                left[name] = FileMember(file.fileno(), *ranges.pop(name))
    except (struct.error, ValueError, OverflowError) as error:
        raise damaged(source_name(source), str(error), kind_of_file(source)) from error
    except IsADirectoryError as error:
        raise damaged(source_name(source), "it is a folder", kind_of_file(source)) from error
    return {name: data[start : start + size] for name, (start, size) in ranges.items()}, left


def _members(data: memoryview, source: Source) -> dict[str, memoryview]:
    try:
        ranges = ranges_of(list(entries_in(data)), data)
    except (struct.error, ValueError, OverflowError) as error:
        raise damaged(source_name(source), str(error), kind_of(bytes(data[:HEAD]), len(data))) from error
    return {name: data[start : start + size] for name, (start, size) in ranges.items()}


def _in_memory(source: Source) -> memoryview:
    """The bytes of ``source`` in new, aligned memory. Raises PackageError if it is not a source of bytes."""
    if isinstance(source, Path):
        source = source.read_bytes()
    elif not isinstance(source, bytes | bytearray | memoryview):
        if not hasattr(source, "read"):
            raise _no_source(f"a package cannot be read from {type(source).__name__}")
        source = source.read()
        if not isinstance(source, bytes | bytearray | memoryview):
            raise _no_source("the file is open in text mode")
    given = memoryview(source).cast("B")
    memory = aligned_memory(len(given))
    memory[:] = given
    return memory.toreadonly()


def _no_source(message: str) -> PackageError:
    hint = 'pass a path, bytes, or a file opened in mode "rb"'
    return PackageError(Diagnostic("source", message, hint=hint))


def _mapped(file: BinaryIO) -> memoryview:
    """The file as a private mapping: writes to it do not reach the file."""
    flags = mmap.MAP_PRIVATE | _MAP_NORESERVE
    return memoryview(mmap.mmap(file.fileno(), 0, flags, mmap.PROT_READ | mmap.PROT_WRITE))


def _copied(file: int, later: Chosen) -> tuple[memoryview, dict[str, _Span]]:
    """The file in memory, and holes in it where the members of ``later`` would be: pages that are
    never used.
    """
    size = os.fstat(file).st_size
    pages = _new_pages(size)
    memory = memoryview(pages)[:size]
    holes = _find_holes(file, memory, later) if later is not _no_member else {}
    done = 0
    for start, stop in (*sorted(holes.values()), (size, size)):
        if start > done:
            first = done - done % mmap.PAGESIZE
            pages.madvise(mmap.MADV_HUGEPAGE, first, start - first)  # not in a hole
            fill_in_threads(start - done, partial(_fill, file, memory[done:], done))
        done = max(done, stop)
    return memory.toreadonly(), holes


def _fill(file: int, memory: memoryview, offset: int, start: int, stop: int) -> None:
    """Reads bytes ``[start, stop)`` of ``memory``, which begins at ``offset`` of the file."""
    while start < stop:
        count = os.preadv(file, [memory[start:stop]], offset + start)
        if not count:
            raise ValueError("the file was truncated while it was read")
        start += count


def _find_holes(file: int, memory: memoryview, later: Chosen) -> dict[str, _Span]:
    """Reads the directory of the file, and finds the bytes of the members of ``later``."""
    size = len(memory)
    tail = max(0, size - _TAIL)
    _fill(file, memory, 0, tail, size)
    _fill(file, memory, 0, min(max(0, directory_in(memory)[1]), tail), tail)
    return _holes(list(entries_in(memory)), later, size)


def _holes(entries: Sequence[DirectoryEntry], later: Chosen, size: int) -> dict[str, _Span]:
    """The byte ranges of the members of ``later``, by name, without a page for the header of each."""
    holes: dict[str, _Span] = {}
    for entry in entries:
        stop = entry.offset + LOCAL_HEADER.size + entry.size
        if later(entry.name) and entry.size > _PAGE and entry.offset >= 0 and stop <= size:
            holes[entry.name] = entry.offset + _PAGE, stop
    return holes


def aligned_memory(size: int) -> memoryview:
    """New memory of ``size`` bytes, aligned to pages."""
    memory = _new_pages(size)
    memory.madvise(mmap.MADV_HUGEPAGE)  # it is filled at once: fewer page faults
    return memoryview(memory)[:size]


def _new_pages(size: int) -> mmap.mmap:
    return mmap.mmap(-1, max(1, size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def reserved_memory(size: int) -> memoryview:
    """Address space of ``size`` bytes, which may exceed the memory: pages are allocated when they are
    written.
    """
    memory = mmap.mmap(-1, max(1, size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)
    memory.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(memory)[:size]


def damaged(where: str, reason: str, kind: FileKind | None = None) -> PackageError:
    """The error for a file that is not a valid package; ``kind`` is the kind of file that it is, if known."""
    if kind is not None and kind is not PACKAGE:
        detail = f": {reason}" if kind is ZIP else ""
        message = f"not a valid package: it is {kind.what}{detail}"
        return PackageError(Diagnostic("damaged-package", message, where, kind.advice))
    hint = "check that it is an .om file, and that it was copied completely"
    return PackageError(Diagnostic("damaged-package", f"not a valid package: {reason}", where, hint))


def source_name(source: Source) -> str:
    """The name of ``source`` in errors."""
    if isinstance(source, Path):
        return str(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "the package's bytes"

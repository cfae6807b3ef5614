"""A zip archive with stored, 64-byte aligned members: deterministic to write, strict to read.

Format: PKWARE APPNOTE 6.3. Only what :func:`write_archive` writes is accepted by :func:`read_archive`: no
compression, encryption, duplicate or odd names, and members that lie aligned within the file.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from graphwright.errors import Diagnostic, PackageError
from graphwright.package.parts import fill_in_parts

ALIGNMENT = 64
Piece = bytes | memoryview

_LOCAL_HEADER = struct.Struct("<4sHHHHHIIIHH")
_PADDING_ID = 0x4757
"""The extra field that pads a member to its alignment ("GW")."""
_ZIP64_EXTRA = 20
"""Bytes of the extra field with 64-bit sizes, which every member has."""
_NAME = re.compile(r"[A-Za-z0-9_]+(?:[./][A-Za-z0-9_]+)*")


def write_archive(path: Path, members: Mapping[str, Sequence[Piece]]) -> None:
    """Write ``members``, each the pieces of its bytes, in order; the file appears whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        with open(temporary, "xb") as file:
            with zipfile.ZipFile(file, "w") as archive:
                for name, pieces in members.items():
                    with archive.open(_aligned_info(name, file.tell()), "w", force_zip64=True) as member:
                        for piece in pieces:
                            member.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _aligned_info(name: str, position: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.create_system, info.external_attr = 3, 0o644 << 16
    start = position + _LOCAL_HEADER.size + len(name) + 4 + _ZIP64_EXTRA
    padding = -start % ALIGNMENT
    info.extra = struct.pack("<HH", _PADDING_ID, padding) + bytes(padding)
    return info


def read_archive(path: Path, *, use_mmap: bool = False) -> dict[str, memoryview]:
    """Members by name: aligned, read-only views of the file, copied into memory unless ``use_mmap``."""
    try:
        with open(path, "rb") as file:
            data = _mapped(file) if use_mmap else _copied(file)
            with zipfile.ZipFile(file) as archive:
                infos = archive.infolist()
    except (
        zipfile.BadZipFile,
        NotImplementedError,
        struct.error,
        ValueError,
        EOFError,
        OverflowError,
    ) as error:
        raise damaged(path, str(error)) from error
    members: dict[str, memoryview] = {}
    for info in infos:
        if info.filename in members:
            raise damaged(path, f"two members are called {info.filename!r}")
        start, fault = _place(info, data)
        if fault:
            raise damaged(path, f"member {info.filename!r} {fault}")
        members[info.filename] = data[start : start + info.file_size]
    return members


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


def _place(info: zipfile.ZipInfo, data: memoryview) -> tuple[int, str]:
    """Where a member's bytes start, and what is wrong with it."""
    name = info.orig_filename
    if not name.isascii() or not _NAME.fullmatch(name):
        return 0, "has a name that no package has"
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits or info.compress_size != info.file_size:
        return 0, "is compressed or encrypted"
    if not 0 <= info.header_offset <= len(data) - _LOCAL_HEADER.size:
        return 0, "has its header beyond the end of the file"
    signature, *_, name_length, extra_length = _LOCAL_HEADER.unpack_from(data, info.header_offset)
    name_start = info.header_offset + _LOCAL_HEADER.size
    start = name_start + name_length + extra_length
    if signature != b"PK\x03\x04" or data[name_start : name_start + name_length] != name.encode():
        return 0, "has no header of its own"
    if start % ALIGNMENT:
        return 0, "is not aligned"
    if start + info.file_size > len(data):
        return 0, "reaches beyond the end of the file"
    return start, ""


def damaged(path: Path, reason: str) -> PackageError:
    """The error for a file that is no valid package."""
    hint = "is it an .om file, copied whole?"
    return PackageError(Diagnostic("damaged-package", f"not a valid package: {reason}", str(path), hint))

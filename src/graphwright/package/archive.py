"""A zip archive with stored, 64-byte aligned members: deterministic to write, strict to read.

Format: PKWARE APPNOTE 6.3. Only what :func:`write_archive` writes is accepted by :func:`read_archive`: no compression,
encryption, duplicate or odd names, and members that lie within the file.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from graphwright.errors import Diagnostic, PackageError

ALIGNMENT = 64
_LOCAL_HEADER = struct.Struct("<4sHHHHHIIIHH")
_PADDING_ID = 0x4757
"""The extra field that pads a member to its alignment ("GW")."""


def write_archive(path: Path, members: Mapping[str, bytes | memoryview]) -> None:
    """Write ``members`` in order; the file appears whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                for name, data in members.items():
                    archive.writestr(_aligned_info(name, file.tell()), data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _aligned_info(name: str, position: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.create_system, info.external_attr = 3, 0o644 << 16
    start = position + _LOCAL_HEADER.size + len(name.encode()) + 4
    padding = -start % ALIGNMENT
    info.extra = struct.pack("<HH", _PADDING_ID, padding) + bytes(padding)
    return info


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def read_archive(path: Path, *, use_mmap: bool = False) -> dict[str, memoryview]:
    """Members by name, as views of the file's bytes (copied into memory unless ``use_mmap``)."""
    try:
        with open(path, "rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if use_mmap else file.read())
            with zipfile.ZipFile(file) as archive:
                return _members(archive, data, path)
    except (zipfile.BadZipFile, struct.error, ValueError, NotImplementedError, EOFError, OverflowError) as error:
        raise _damaged(path, str(error)) from error


def _members(archive: zipfile.ZipFile, data: memoryview, path: Path) -> dict[str, memoryview]:
    members: dict[str, memoryview] = {}
    for info in archive.infolist():
        if info.filename in members:
            raise _damaged(path, f"two members are called {info.filename!r}")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 or info.compress_size != info.file_size:
            raise _damaged(path, f"member {info.filename!r} is compressed or encrypted")
        fields = _LOCAL_HEADER.unpack_from(data, info.header_offset)
        if fields[0] != b"PK\x03\x04":
            raise _damaged(path, f"member {info.filename!r} has no header")
        start = info.header_offset + _LOCAL_HEADER.size + fields[9] + fields[10]
        if start + info.file_size > len(data):
            raise _damaged(path, f"member {info.filename!r} reaches beyond the end of the file")
        members[info.filename] = data[start : start + info.file_size]
    return members


def _damaged(path: Path, reason: str) -> PackageError:
    hint = "is it an .om file, copied whole?"
    return PackageError(Diagnostic("damaged-package", f"not a valid package: {reason}", str(path), hint))

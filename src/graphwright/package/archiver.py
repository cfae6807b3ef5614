"""Writing the archives that :mod:`graphwright.package.archive` reads: deterministic, whole or not at all."""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from graphwright.package.archive import ALIGNMENT, LOCAL_HEADER

Piece = bytes | memoryview

_PADDING_ID = 0x4757
"""The extra field that pads a member to its alignment ("GW")."""
_ZIP64_EXTRA = 20
"""Bytes of the extra field with 64-bit sizes, which every member has."""


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
    start = position + LOCAL_HEADER.size + len(name) + 4 + _ZIP64_EXTRA
    padding = -start % ALIGNMENT
    info.extra = struct.pack("<HH", _PADDING_ID, padding) + bytes(padding)
    return info

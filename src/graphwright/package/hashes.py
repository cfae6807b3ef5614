"""Hashes of an archive's members: SHA-256 for the manifest, CRC-32 for the archive."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

from graphwright.package.parallel_fill import in_parts, run_in_threads, thread_count
from graphwright.records import dataclass

Piece = bytes | memoryview
"""A part of the contents of a member."""


@dataclass(frozen=True)
class Hashes:
    """The size of a member in bytes, its SHA-256 in hexadecimal digits, and its CRC-32."""

    size: int
    sha256: str
    crc32: int


def hash_members(members: Mapping[str, Sequence[Piece]]) -> dict[str, Hashes]:
    """The hashes of ``members``; each is a sequence of pieces of its bytes. Several threads hash large
    members.
    """
    sizes = {name: sum(map(len, pieces)) for name, pieces in members.items()}
    sha256: dict[str, str] = {}
    crc32: dict[str, int] = {}
    jobs: list[Callable[[], object]] = []
    for name in sorted(members, key=lambda n: -sizes[n]):
        jobs.append(partial(_sha256, name, members[name], sha256))
        jobs.append(partial(_crc32, name, members[name], crc32))
    run_in_threads(jobs, thread_count(sum(sizes.values())))
    return {name: Hashes(size, sha256[name], crc32[name]) for name, size in sizes.items()}


def checksum(pieces: Sequence[Piece]) -> int:
    """The CRC-32 of ``pieces``."""
    found = 0
    for part in _parts(pieces):
        found = zlib.crc32(part, found)
    return found


def _sha256(name: str, pieces: Sequence[Piece], found: dict[str, str]) -> None:
    state = hashlib.sha256()
    for part in _parts(pieces):
        state.update(part)
    found[name] = state.hexdigest()


def _crc32(name: str, pieces: Sequence[Piece], found: dict[str, int]) -> None:
    found[name] = checksum(pieces)


def _parts(pieces: Sequence[Piece]) -> Iterator[memoryview]:
    return chain.from_iterable(map(in_parts, pieces))

"""Files mapped to be read, whose pages are given back once they have been read.

Mapped pages count as the process's memory from their first read on. A model's weights are read a few times,
from front to back: what was read need not stay.
"""

from __future__ import annotations

import mmap
import os

from graphwright.ir.arrays import Array, np

_COMPARED = 4 << 20
"""Bytes that are compared at once."""


class MappedFile(mmap.mmap):
    """A whole file, mapped to be read; ``file`` is its descriptor. Raises OSError, or ValueError if it is
    empty.
    """

    def __new__(cls, file: int) -> MappedFile:
        return super().__new__(cls, file, 0, access=mmap.ACCESS_READ)

    @staticmethod
    def open(path: str | os.PathLike[str]) -> MappedFile:
        """Map the file at ``path``."""
        with open(path, "rb") as file:
            return MappedFile(file.fileno())


def mapped_file(data: Array | memoryview) -> MappedFile | None:
    """The mapped file whose bytes ``data`` is a view of, None if it lies elsewhere."""
    base: object = data
    while base is not None and not isinstance(base, MappedFile):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return base


def release(data: Array | memoryview) -> None:
    """Give the pages of ``data`` back to the system if they are those of a file: who reads them again finds
    them as before. Other memory is left alone.
    """
    file = mapped_file(data) if data.nbytes >= mmap.PAGESIZE else None
    if file is None:
        return
    low, high = np.lib.array_utils.byte_bounds(np.asarray(data))
    start = low - _address(file)
    first = start - start % mmap.PAGESIZE
    file.madvise(mmap.MADV_DONTNEED, first, min(high - low + start - first, len(file) - first))


def equal_bytes(a: Array, b: Array) -> bool:
    """Whether two arrays of as many bytes (u8) are equal; takes the memory of a part of one."""
    parts = (slice(start, start + _COMPARED) for start in range(0, a.size, _COMPARED))
    return all(_equal_parts(a[part], b[part]) for part in parts)


def _equal_parts(a: Array, b: Array) -> bool:
    equal = bool(np.array_equal(a, b))
    release(a)
    release(b)
    return equal


def _address(file: MappedFile) -> int:
    place: int = np.frombuffer(file, np.uint8).__array_interface__["data"][0]
    return place

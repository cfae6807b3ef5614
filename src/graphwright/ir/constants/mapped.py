"""Memory-mapped files whose pages are released after reading.

Mapped pages count as memory of the process once they are read. The weights of a model are read a few times,
from front to back, so pages that were read need not stay resident.
"""

from __future__ import annotations

import mmap
import os

from graphwright.ir.arrays import Array, np

_COMPARED = 4 << 20
"""Bytes that are compared at a time."""


class MappedFile(mmap.mmap):
    """A whole file, mapped for reading; ``file`` is its descriptor. Raises OSError, or ValueError if it is
    empty.
    """

    def __new__(cls, file: int) -> MappedFile:
        return super().__new__(cls, file, 0, access=mmap.ACCESS_READ)

    @staticmethod
    def open(path: str | os.PathLike[str]) -> MappedFile:
        """Maps the file at ``path``."""
        with open(path, "rb") as file:
            return MappedFile(file.fileno())


def mapped_file(data: Array | memoryview) -> MappedFile | None:
    """The mapped file that ``data`` is a view of; None for other memory."""
    base: object = data
    while base is not None and not isinstance(base, MappedFile):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return base


def release(data: Array | memoryview) -> None:
    """Releases the pages of ``data`` if they belong to a mapped file; a later read loads them again. Other
    memory is left alone.
    """
    file = mapped_file(data) if data.nbytes >= mmap.PAGESIZE else None
    if file is None:
        return
    low, high = np.lib.array_utils.byte_bounds(np.asarray(data))
    start = low - _address(file)
    first = start - start % mmap.PAGESIZE
    file.madvise(mmap.MADV_DONTNEED, first, min(high - low + start - first, len(file) - first))


def equal_bytes(a: Array, b: Array) -> bool:
    """Whether two u8 arrays of equal size are equal. Releases pages while comparing."""
    parts = (slice(start, start + _COMPARED) for start in range(0, a.size, _COMPARED))
    return all(_equal_parts(a[part], b[part]) for part in parts)


def _equal_parts(a: Array, b: Array) -> bool:
    equal = bool(np.array_equal(a, b))
    release(a)
    release(b)
    return equal


def _address(file: MappedFile) -> int:
    address: int = np.frombuffer(file, np.uint8).__array_interface__["data"][0]
    return address

"""Reads FlatBuffers, as far as the ORT format uses them (flatbuffers.dev/internals).

A table begins with the distance to its list of fields, which has an offset for each field that is present.
Strings, vectors and other tables are at a distance behind the field. Files may be damaged: all positions are
checked.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from graphwright.ir.nesting import MAX_DEPTH

_INT, _LONG, _FLOAT, _BYTE = "<i", "<q", "<f", "<b"


class DamagedError(Exception):
    """The bytes are not a FlatBuffer, or are truncated."""


class Buffer:
    """The bytes, and how many more tables may be read: if tables refer to one table many times, these are not
    limited by the size of the file.
    """

    def __init__(self, data: memoryview) -> None:
        self.data, self._tables = data, len(data)

    def root(self) -> Table:
        return Table(self, self.distance(0), 0)

    def take_table(self) -> None:
        self._tables -= 1
        if self._tables < 0:
            raise DamagedError("its tables repeat")

    def number(self, code: str, at: int) -> int | float:
        if not 0 <= at <= len(self.data) - struct.calcsize(code):
            raise DamagedError("it is truncated")
        found: int | float = struct.unpack_from(code, self.data, at)[0]
        return found

    def distance(self, at: int) -> int:
        """The position that the distance at ``at`` leads to."""
        return at + int(self.number("<I", at))

    def sized(self, at: int, item: int = 1) -> memoryview:
        """The elements of the vector at ``at``, each of ``item`` bytes."""
        start, size = at + 4, int(self.number("<I", at)) * item
        if size > len(self.data) - start:
            raise DamagedError("it is truncated")
        return self.data[start : start + size]


class Table:
    """One table. Fields are named by their number, in the order of the schema."""

    def __init__(self, buffer: Buffer, at: int, depth: int) -> None:
        buffer.take_table()
        if depth > MAX_DEPTH:
            raise DamagedError(f"its tables nest deeper than {MAX_DEPTH} levels")
        self._buffer, self._at, self._depth = buffer, at, depth
        self._fields = at - int(buffer.number(_INT, at))
        self._size = int(buffer.number("<H", self._fields))

    def _find(self, field: int) -> int | None:
        """The position of a field; None if it is absent."""
        entry = 4 + 2 * field
        offset = int(self._buffer.number("<H", self._fields + entry)) if entry + 2 <= self._size else 0
        return self._at + offset if offset else None

    def _number(self, code: str, field: int) -> int | float:
        at = self._find(field)
        return 0 if at is None else self._buffer.number(code, at)

    def int32(self, field: int) -> int:
        return int(self._number(_INT, field))

    def int64(self, field: int) -> int:
        return int(self._number(_LONG, field))

    def int8(self, field: int) -> int:
        return int(self._number(_BYTE, field))

    def float32(self, field: int) -> float:
        return float(self._number(_FLOAT, field))

    def table(self, field: int) -> Table | None:
        at = self._find(field)
        return None if at is None else Table(self._buffer, self._buffer.distance(at), self._depth + 1)

    def data(self, field: int) -> memoryview:
        """A string or a vector of bytes; empty if it is absent."""
        at = self._find(field)
        return memoryview(b"") if at is None else self._buffer.sized(self._buffer.distance(at))

    def int64s(self, field: int) -> list[int]:
        return self._vector(field, "<q")

    def float32s(self, field: int) -> list[float]:
        return self._vector(field, "<f")

    def _vector(self, field: int, code: str) -> list[Any]:
        at, size = self._find(field), struct.calcsize(code)
        if at is None:
            return []
        return [
            value
            for (value,) in struct.iter_unpack(code, self._buffer.sized(self._buffer.distance(at), size))
        ]

    def _positions(self, field: int) -> Iterator[int]:
        """The positions of the elements of a vector of strings or tables."""
        at = self._find(field)
        if at is not None:
            start = self._buffer.distance(at)
            for index in range(len(self._buffer.sized(start, 4)) // 4):
                yield self._buffer.distance(start + 4 + 4 * index)

    def tables(self, field: int) -> Iterator[Table]:
        for at in self._positions(field):
            yield Table(self._buffer, at, self._depth + 1)

    def strings(self, field: int) -> list[bytes]:
        return [bytes(self._buffer.sized(at)) for at in self._positions(field)]

"""Writes libraries of two kinds of content: a shared object that is the same for all models, and named parts
with the data of one model.

The file begins with the shared object. The parts follow, each at a multiple of 4096 bytes, then the index of
the parts, and a last line with the offset of the index. ``runtime/native/contents.c`` reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import BinaryIO, Final

from graphwright.package.hashes import Piece

PAGE: Final = 4096
Part = Piece | Callable[[BinaryIO], None]
"""Its bytes, or what writes them to a file, from its current position."""


def write_library(file: BinaryIO, code: bytes, parts: Mapping[str, Part]) -> None:
    """Writes the shared object ``code`` and the parts, by name, to a new file."""
    end = file.write(code)
    index = []
    for name, part in parts.items():
        start = -(-end // PAGE) * PAGE
        file.write(bytes(start - end))
        end = start + _write_part(file, part)
        index.append(f"{start} {end - start} {name}")
    file.write(text_part(index) + b"graphwright %019d\n" % end)


def text_part(lines: Iterable[str]) -> bytes:
    """A part that is a text."""
    return "".join(f"{line}\n" for line in lines).encode()


def _write_part(file: BinaryIO, part: Part) -> int:
    """Writes one part; returns its number of bytes."""
    if not callable(part):
        file.write(part)
        return len(part)
    start = file.tell()
    part(file)
    return file.tell() - start

"""Shared by the kernels of data movement: row copies for elements of 1, 2, 4, 8 or 16 bytes, and the grid.

Each of these kernels takes the grid as an argument and divides its own blocks evenly among the units, since
the number of blocks depends on which axes are merged at run time.
"""

from __future__ import annotations

from typing import Final

from graphwright.ir.symbols import Dim, ceildiv, minimum
from graphwright.kernels.movement import strided
from graphwright.targets.cpu.isa import Isa

MAX_RANK: Final = 8
"""The most axes of a strided operand."""
ELEMENT_SIZES: Final = (1, 2, 4, 8, 16)
"""The supported element sizes in bytes; kernels know nothing else about the dtype."""
_UNIT_BYTES: Final = 1 << 14
_MAX_UNITS: Final = 256
UNITS: Final = (0, _MAX_UNITS)
"""The range of the argument ``units``, the grid."""


def unit_count(byte_count: Dim) -> Dim:
    """The grid of a kernel that writes ``byte_count`` bytes."""
    return minimum(ceildiv(byte_count, _UNIT_BYTES), _MAX_UNITS)


def pad_left(dims: tuple[Dim, ...], fill: Dim) -> tuple[Dim, ...]:
    """``dims`` extended to ``MAX_RANK`` dims by leading ``fill``. Raises ValueError if there are more."""
    if len(dims) > MAX_RANK:
        raise ValueError(f"{len(dims)} axes: the copy kernels take at most {MAX_RANK}")
    return (fill,) * (MAX_RANK - len(dims)) + dims


def c_text(isa: Isa) -> str:
    """The C code that ``rows.h`` includes: shuffles for each size."""
    return "\n".join(
        ['#include "movement/elements.h"\n', *(strided.c_text(size, isa) for size in ELEMENT_SIZES[:-1])]
    )

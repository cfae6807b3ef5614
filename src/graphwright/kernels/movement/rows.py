"""What the kernels that move elements share: rows of elements of 1, 2, 4, 8 or 16 bytes as C, and how much
of the work a unit of the grid has.

Each of these kernels takes the grid as an argument and splits its own blocks evenly over it, because how many
blocks there are depends on which axes merge at run time.
"""

from __future__ import annotations

from typing import Final

from graphwright.ir.symbols import Dim, ceildiv, minimum
from graphwright.kernels.movement import strided
from graphwright.targets.cpu.isa import Isa

MAX_RANK: Final = 8
"""Axes of a strided operand."""
ELEMENT_SIZES: Final = (1, 2, 4, 8, 16)
"""Bytes of an element: all that the kernels know of it."""
_SHARE_BYTES: Final = 1 << 14
_MAX_SHARES: Final = 256
SHARES: Final = (0, _MAX_SHARES)
"""What the grid of a kernel that takes it as an argument may be."""


def shares(byte_count: Dim) -> Dim:
    """The grid of a kernel that writes ``byte_count`` bytes."""
    return minimum(ceildiv(byte_count, _SHARE_BYTES), _MAX_SHARES)


def pad_left(dims: tuple[Dim, ...], fill: Dim) -> tuple[Dim, ...]:
    """``MAX_RANK`` dims, ``fill`` before those given. Raises ValueError where there are more."""
    if len(dims) > MAX_RANK:
        raise ValueError(f"{len(dims)} axes: the copy kernels take at most {MAX_RANK}")
    return (fill,) * (MAX_RANK - len(dims)) + dims


def c_text(isa: Isa) -> str:
    """The shuffles that ``rows.h`` takes, for each size that vectors have."""
    return "\n".join(
        ['#include "movement/elements.h"\n', *(strided.c_text(size, isa) for size in ELEMENT_SIZES[:-1])]
    )

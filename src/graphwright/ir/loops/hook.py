"""Hooks: kernels that the kernel of a contraction calls on each finished tile, to compute its epilogue.

The first parameter of a hook is the tile, a buffer of level cache. Its element (r, c) is element (batch,
row0 + r, col0 + c) of the result. If the kernel computes two results, each row of the tile consists of a row
of the first result and a row of the second.
"""

from __future__ import annotations

from typing import Final

from graphwright.ir.loops.nodes import Buffer, Level
from graphwright.ir.symbols import symbol
from graphwright.ir.types import DType

HOOK_SIZES: Final = ("batch", "row0", "rows", "col0", "cols", "ld")
"""The position and size of a tile, which are arguments of every hook. ``ld`` is the row stride in
elements.
"""


def tile_of(dtype: DType, results: int) -> Buffer:
    """The first parameter of a hook: a tile [rows, cols], or [rows, results, cols] for several
    ``results``.
    """
    rows, cols, ld = symbol("rows"), symbol("cols"), symbol("ld")
    if results == 1:
        return Buffer("tile", dtype, (rows, cols), Level.CACHE, (ld, 1))
    return Buffer("tile", dtype, (rows, results, cols), Level.CACHE, (ld, ld // results, 1))

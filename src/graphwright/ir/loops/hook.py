"""Hooks: kernels that another kernel calls on each finished tile of its result, as the epilogue of a product.

The first parameter of a hook is the tile, a buffer of level cache; element (r, c) of it stands at (batch,
row0 + r, col0 + c) of the result. Of two results that are computed side by side, each row of the tile has a
row of the first, then one of the second.
"""

from __future__ import annotations

from typing import Final

from graphwright.ir.loops.nodes import Buffer, Level
from graphwright.ir.symbols import symbol
from graphwright.ir.types import DType

HOOK_SIZES: Final = ("batch", "row0", "rows", "col0", "cols", "ld")
"""Sizes of a tile, which the caller passes by themselves; ``ld`` elements lie between its rows."""


def tile_of(dtype: DType, results: int) -> Buffer:
    """The first parameter of a hook: a tile [rows, cols]; of several ``results`` [rows, results, cols]."""
    rows, cols, ld = symbol("rows"), symbol("cols"), symbol("ld")
    if results == 1:
        return Buffer("tile", dtype, (rows, cols), Level.CACHE, (ld, 1))
    return Buffer("tile", dtype, (rows, results, cols), Level.CACHE, (ld, ld // results, 1))

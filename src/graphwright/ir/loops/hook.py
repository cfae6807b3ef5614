"""Hooks: kernels that another kernel calls on each finished tile of its result, as the epilogue of a product.

The first parameter of a hook is the tile, a buffer of level cache; element (r, c) of it stands at (batch,
row0 + r, col0 + c) of the result.
"""

from __future__ import annotations

from typing import Final

HOOK_SIZES: Final = ("batch", "row0", "rows", "col0", "cols", "ld")
"""Sizes of a tile, which the caller passes by themselves; ``ld`` elements lie between its rows."""

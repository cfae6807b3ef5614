"""Sizes of tiles with Intel AMX (``amx_tile.h``)."""

from __future__ import annotations

from typing import Final

AMX_TILE_ROWS: Final = 32
"""The most rows of a tile: two registers."""


def c_text() -> str:
    """The sizes as C."""
    return f"#define AMX_TILE_ROWS {AMX_TILE_ROWS}\n"

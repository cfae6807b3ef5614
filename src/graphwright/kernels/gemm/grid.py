"""How many units of work a product has."""

from __future__ import annotations

from typing import Final

from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum

UNIT_PANELS: Final = 2
"""Panels of columns of a unit at most."""
_PART_TILES: Final = 2
"""Tiles of rows that a unit has at least."""
_ENOUGH_UNITS: Final = 8
"""Units that threads can share evenly."""


def units(batches: Dim, row_blocks: Dim, row_tiles: Dim, columns: Dim, panel_columns: int) -> Dim:
    """Parts of rows times pairs of panels, in each batch.

    The parts are the blocks of rows that are computed together, or smaller ones where these make too few
    units; a thread that gets several joins them to a block again.
    """
    others = batches * ceildiv(columns, UNIT_PANELS * panel_columns)
    wanted = minimum(floordiv(row_tiles, _PART_TILES), ceildiv(_ENOUGH_UNITS, maximum(others, 1)))
    return others * maximum(row_blocks, wanted)


def c_text() -> str:
    """What ``block.h`` needs."""
    return f"""
#define UNIT_PANELS {UNIT_PANELS}
#define PART_TILES {_PART_TILES} /* of rows, that a unit has at least */
#define ENOUGH_UNITS {_ENOUGH_UNITS}"""

"""The number of units of work of a product."""

from __future__ import annotations

from typing import Final

from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum

UNIT_PANELS: Final = 2
"""The most panels of columns per unit."""
_PART_TILES: Final = 2
"""The fewest row tiles per unit."""
_ENOUGH_UNITS: Final = 8
"""The number of units that threads can share evenly."""


def units(batches: Dim, row_blocks: Dim, row_tiles: Dim, columns: Dim, panel_columns: int) -> Dim:
    """The number of units: parts of the rows times pairs of panels, for each batch. The parts are the row
    blocks that are computed together; if these give too few units, they are divided. A thread that receives
    several parts joins them to a block again.
    """
    others = batches * ceildiv(columns, UNIT_PANELS * panel_columns)
    wanted = minimum(floordiv(row_tiles, _PART_TILES), ceildiv(_ENOUGH_UNITS, maximum(others, 1)))
    return others * maximum(row_blocks, wanted)


def c_text() -> str:
    """The C code that ``block.h`` includes."""
    return f"""
#define UNIT_PANELS {UNIT_PANELS}
#define PART_TILES {_PART_TILES} /* of rows, that a unit has at least */
#define ENOUGH_UNITS {_ENOUGH_UNITS}"""

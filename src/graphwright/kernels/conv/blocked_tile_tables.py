"""C tables of the tiles of convolutions with channel-blocked results (module ``blocked_tile``): all widths up
to the widest, for each kind of input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from graphwright.kernels.conv.blocked_tile import BlockedTile, BlockedTileAssembly, Family
from graphwright.targets.cpu.isa import Isa

STEPS: Final = (1, 2)
"""The strides of convolutions along the width for which there are tiles."""


def widest(isa: Isa) -> tuple[int, ...]:
    """The most pixels of a tile with 1, 2, ... output blocks, such that accumulators, weights and one pixel
    fill the registers. Nearly square tiles need the fewest loads.
    """
    return (14, 14, 9, 6) if isa.vector_bytes == 64 else (8, 6, 4)


def _tiles(isa: Isa) -> list[BlockedTile]:
    """The tiles of every width up to :func:`widest`."""
    most = enumerate(widest(isa), 1)
    return [BlockedTile(pixels, blocks) for blocks, width in most for pixels in range(1, width + 1)]


def families(isa: Isa) -> str:
    """``static const tile_fn blocked[step - 1][blocks - 1][pixels]`` and ``planar``, with their functions."""
    kinds = (("blocked", isa.lanes), ("planar", 1))
    return "\n".join(_assembled(kind, [Family(isa, lanes, step) for step in STEPS]) for kind, lanes in kinds)


def pair_families(isa: Isa) -> str:
    """The tables ``pairs`` (for CPUs with AVX512-BF16) and ``halves`` (for all), like :func:`families`."""
    families = [Family(isa, isa.lanes, step, pairs=True) for step in STEPS]
    halves = _table(
        "halves", families, [_halves(family, tile) for family in families for tile in _tiles(isa)], _halved
    )
    return halves if isa.vector_bytes < 64 else halves + _assembled("pairs", families)


def _assembled(kind: str, families: Sequence[Family]) -> str:
    tiles = [BlockedTileAssembly(family, tile) for family in families for tile in _tiles(family.isa)]
    return _table(kind, families, [tile.text() for tile in tiles], Family.tile_name)


def _table(
    kind: str, families: Sequence[Family], texts: Sequence[str], name: Callable[[Family, BlockedTile], str]
) -> str:
    entries = (
        f"    [{family.step - 1}][{tile.blocks - 1}][{tile.pixels}] = {name(family, tile)},"
        for family in families
        for tile in _tiles(family.isa)
    )
    table = f"static const tile_fn {kind}[STEPS][MAX_BLOCKS][WIDEST + 1] = {{"
    return "\n".join([*texts, table, *entries, "};", ""])


def _halves(family: Family, tile: BlockedTile) -> str:
    """A tile of pairs for CPUs without instructions for pairs."""
    size = f"{tile.pixels}, {tile.blocks}, {family.step}"
    return f"static void {_halved(family, tile)}(const struct tile *t) {{ tile_of_halves(t, {size}); }}"


def _halved(family: Family, tile: BlockedTile) -> str:
    return f"halves_{family.tile_name(tile)}"

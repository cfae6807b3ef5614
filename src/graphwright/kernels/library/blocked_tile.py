"""C text of the register tile that the kernels on blocked activations share.

A tile is some pixels times some output blocks of VL channels. Its sums stay in registers for all taps and
input channels that a call is given: each step loads one vector of weights per output block and broadcasts one
channel of each pixel (Georganas et al., "Anatomy of High-Performance Deep Learning Convolutions on SIMD
Architectures", 2018). Every sum is formed in the order input block, tap, channel in the block; tiles too
small to keep the FMA units busy split it over several sums, so equal bits take equal tiles.

A step of a matrix product of blocked operands, as in Winograd's transform domain, is a tile of one tap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from graphwright.kernels.library.isa import Isa

_LATENCY_BOUND: Final = 8
"""Independent sums that keep two FMA units of latency 4 busy."""

_UNROLL: Final = 4
"""Channels per turn of the inner loop; most channel counts are multiples of it."""

_AHEAD: Final = 512
"""How far ahead weights are fetched to L1, in elements: 32 steps of AVX-512."""


@dataclass(frozen=True)
class Tile:
    """``rows`` of ``pixels`` each, times ``blocks`` of VL output channels."""

    rows: int
    pixels: int
    blocks: int

    @property
    def count(self) -> int:
        """Pixels of all rows."""
        return self.rows * self.pixels


MAX_BLOCKS: Final = 3
"""Output blocks of a tile at most: one alone waits for the loads of x, so three serve better than 2 + 1."""


def widest(isa: Isa, blocks: int) -> int:
    """Most pixels of a tile: sums, weights and a broadcast value fill the registers."""
    return (28 if isa.vector_bytes == 64 else 12) // blocks


def row_tiles(isa: Isa) -> list[Tile]:
    """One row of every width up to :func:`widest`, of 1 to :data:`MAX_BLOCKS` blocks."""
    return [
        Tile(1, pixels, blocks)
        for blocks in range(1, MAX_BLOCKS + 1)
        for pixels in range(1, widest(isa, blocks) + 1)
    ]


STRUCT: Final = """
/* Tiles side by side in a row of pixels.
   Channel c of input block b of pixel p of row r at tap t:
   x[at + b * x_block + r * x_row + taps[t] + p * LANES + c], LANES channels a block.
   Its VL weights for output block o: w[o * w_out + b * w_in + (t * LANES + c) * VL].
   Sums begin as `from` plus `add` (unless null); act (0 none, 1 relu, 2 clip) is applied and they go to `to`.
   Blocks lie *_block apart, pixels VL, those of a second row coming next; where from_pixel is 0, not VL,
   `from` is the same for all pixels. */
struct tile {
    const float *x;
    int64_t at, x_block, x_row;
    const int64_t *taps;
    int64_t tap_count, channels;
    const float *w;
    int64_t w_in, w_out;
    const float *from;
    int64_t from_block, from_pixel;
    const float *add;
    int64_t add_block;
    float *to;
    int64_t to_block;
    int64_t far; /* 1 if `to` is not in the caches: then what the next tile writes is fetched, else 0 */
    int64_t act;
    float lo, hi;
};

/* Runs count tiles, each to the right of the last; tiles of several rows only one by one. */
typedef void (*tile_fn)(const struct tile *t, int64_t count);

/* Steps stay apart: mixed together by the compiler they need more registers than there are. */
#define KEEP_ORDER __asm__ volatile("" ::: "memory")

/* The larger and the smaller of the two, NaN where x is: one instruction, where a selection takes three. */
GW_INLINE vf at_least(vf lo, vf x) {
    vf y;
    __asm__("vmaxps %2, %1, %0" : "=v"(y) : "v"(lo), "v"(x));
    return y;
}
GW_INLINE vf at_most(vf hi, vf x) {
    vf y;
    __asm__("vminps %2, %1, %0" : "=v"(y) : "v"(hi), "v"(x));
    return y;
}
"""
"""``struct tile`` and ``tile_fn``; stands once before the functions that :func:`tile_functions` writes."""


def tile_functions(kind: str, lanes: int, tiles: list[Tile]) -> str:
    """Functions ``KIND_ROWSxPIXELSxBLOCKS(const struct tile *, int64_t count)`` for each of ``tiles``.

    ``lanes`` is the input channels per block: VL on a blocked input, 1 on a planar one (where every channel
    is a block). :func:`tile_table` writes the table of a family of one-row tiles.
    """
    return "\n".join(_function(kind, lanes, tile) for tile in tiles)


def tile_name(kind: str, tile: Tile) -> str:
    """The function's name in C."""
    return f"{kind}_{tile.rows}x{tile.pixels}x{tile.blocks}"


def tile_table(isa: Isa, kind: str) -> str:
    """``static const tile_fn KIND_of[MAX_BLOCKS][...]``: by blocks - 1 and pixels, of :func:`row_tiles`."""
    size = widest(isa, 1) + 1
    rows = [
        ", ".join(
            f"[{tile.pixels}] = {tile_name(kind, tile)}" for tile in row_tiles(isa) if tile.blocks == blocks
        )
        for blocks in range(1, MAX_BLOCKS + 1)
    ]
    return f"static const tile_fn {kind}_of[{MAX_BLOCKS}][{size}] = {{{{{'}, {'.join(rows)}}}}};\n"


def _function(kind: str, lanes: int, tile: Tile) -> str:
    """Small tiles split the channels over several sets of sums, else they would wait for each FMA."""
    cells = [(p, b) for p in range(tile.count) for b in range(tile.blocks)]
    splits = min(4, -(-_LATENCY_BOUND // len(cells)))
    taps = _planar_taps(tile, splits) if lanes == 1 else _blocked_taps(lanes, tile, splits)
    sums = [f"c{p}_{b}_0" for p, b in cells]
    extra = [f"c{p}_{b}_{s} = {{0}}" for s in range(1, splits) for p, b in cells]
    starts = [f"start{b} = vf_load(from + {b} * t->from_block)" for b in range(tile.blocks)]

    def at(pointer: str) -> list[tuple[str, str]]:
        """Each sum and where it stands in the rows of pixels at ``pointer``."""
        places = [f"{pointer}{b} + {p} * VL" for p, b in cells]
        return list(zip(sums, places, strict=True))

    def rows(pointer: str) -> str:
        """Pointers to each block of the tile."""
        pointers = ", ".join(
            f"*{pointer}{b} = {pointer} + {b} * t->{pointer}_block" for b in range(tile.blocks)
        )
        return f"{'' if pointer == 'to' else 'const '}float {pointers};"

    lines = [
        f"static void {tile_name(kind, tile)}(const struct tile *t, int64_t count) {{",
        "    const float *from = t->from, *add = t->add;",
        "    float *to = t->to;",
        f"    for (int64_t at = t->at; count > 0; count--, at += {tile.pixels * lanes}) {{",
        f"        vf {', '.join([*sums, *extra])};",
        "        if (t->from_pixel) {",
        f"            {rows('from')}",
        *(f"            {c} = vf_load({place});" for c, place in at("from")),
        f"            from += {tile.count} * VL;",
        "        } else {",
        f"            const vf {', '.join(starts)};",
        *(f"            {c} = start{b};" for c, (_, b) in zip(sums, cells, strict=True)),
        "        }",
        "        if (add) {",
        f"            {rows('add')}",
        *(f"            {c} += vf_load({place});" for c, place in at("add")),
        f"            add += {tile.count} * VL;",
        *(f"            __builtin_prefetch({place} + {tile.count} * VL);" for _, place in at("add")),
        "        }",
        f"        for (int64_t b = 0; b < t->far * {tile.blocks}; b++)",
        f"            for (int64_t p = 0; p < {tile.count}; p++)",
        f"                __builtin_prefetch(to + b * t->to_block + ({tile.count} + p) * VL, 1);",
        "        const float *x = t->x, *w = t->w;",
        f"        for (int64_t left = t->channels; left > 0; left -= {lanes}) {{",
        *(f"            const float *w{b} = w + {b} * t->w_out;" for b in range(tile.blocks)),
        *(f"            {line}" for line in taps),
        "            x += t->x_block;",
        "            w += t->w_in;",
        "        }",
        *(f"        c{p}_{b}_0 += c{p}_{b}_{s};" for s in range(1, splits) for p, b in cells),
        f"        {rows('to')}",
        "        if (t->act == 0) {",
        *(f"            vf_store({place}, {c});" for c, place in at("to")),
        "        } else if (t->act == 1) {",
        *(f"            vf_store({place}, at_least((vf){{0}}, {c}));" for c, place in at("to")),
        "        } else {",
        "            const vf lo = vf_set1(t->lo), hi = vf_set1(t->hi);",
        *(f"            vf_store({place}, at_most(hi, at_least(lo, {c})));" for c, place in at("to")),
        "        }",
        f"        to += {tile.count} * VL;",
        "    }",
        "}",
        "",
    ]
    return "\n".join(lines)


def _blocked_taps(lanes: int, tile: Tile, splits: int) -> list[str]:
    """The FMAs of all taps of one input block.

    Each step fetches to L1 weights to come and one pixel of the next input block, or of the next tile: from
    L2 they would come too late.
    """
    next_x = f"(left > {lanes} ? x + t->x_block : t->x + {tile.pixels * lanes})"
    return [
        "for (int64_t k = 0; k < t->tap_count; k++) {",
        "    const float *a = x + (at + t->taps[k]);",
        f"    const float *a_next = {next_x} + (at + t->taps[k]);",
        f"    const int64_t n = left < {lanes} ? left : {lanes};",
        "    int64_t i = 0;",
        f"    for (; i + {_UNROLL} <= n; i += {_UNROLL}) {{",
        *(f"        {line}" for k in range(_UNROLL) for line in _step(lanes, tile, f"i + {k}", k % splits)),
        "    }",
        "    for (; i < n; i++) {",
        *(f"        {line}" for line in _step(lanes, tile, "i", 0)),
        "    }",
        *(f"    w{b} += {lanes} * VL;" for b in range(tile.blocks)),
        "}",
    ]


def _planar_taps(tile: Tile, splits: int) -> list[str]:
    """The FMAs of all taps of one channel; its few weights are in L1 by themselves."""

    def turn(count: int) -> list[str]:
        steps = [
            ["{", f"    const float *a = x + (at + t->taps[k + {k}]);", *_step(1, tile, f"{k}", k), "}"]
            for k in range(count)
        ]
        advance = [f"w{b} += {count} * VL;" for b in range(tile.blocks)]
        return [f"    {line}" for line in [*(line for step in steps for line in step), *advance]]

    loop = [f"for (; k + {splits} <= t->tap_count; k += {splits}) {{", *turn(splits), "}"]
    rest = ["for (; k < t->tap_count; k++) {", *turn(1), "}"]
    return ["int64_t k = 0;", *loop, *(rest if splits > 1 else [])]


def _step(lanes: int, tile: Tile, channel: str, split: int) -> list[str]:
    """The FMAs of one channel of a blocked input or one tap of a planar one, into the sums of ``split``."""
    lines = ["{", "    KEEP_ORDER;"]
    for b in range(tile.blocks):
        at = f"w{b} + ({channel}) * VL"
        lines += [f"    const vf k{b} = vf_load({at});"]
        lines += [f"    __builtin_prefetch({at} + {_AHEAD});"] if lanes > 1 else []
    if lanes > 1:
        lines += [f"    __builtin_prefetch(a_next + ({channel}) * {lanes});"]
    for p in range(tile.count):
        row, pixel = divmod(p, tile.pixels)
        at = " + ".join(
            [*([f"{row} * t->x_row"] if row else []), f"{pixel * lanes}", *([channel] if lanes > 1 else [])]
        )
        lines += [f"    const vf a{p} = vf_set1(a[{at}]);"]
        lines += [f"    c{p}_{b}_{split} = vf_fma(a{p}, k{b}, c{p}_{b}_{split});" for b in range(tile.blocks)]
    return [*lines, "}"]

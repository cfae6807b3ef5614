"""Scaled dot-product attention in one launch, f32, any strides: softmax(scale * q @ k^T + mask) @ v.

The algorithm is that of FlashAttention (Dao et al., 2022): keys are processed in blocks, and scores stay in
the L1 cache. An online softmax combines the blocks (Milakov and Gimelshein, "Online normalizer calculation
for softmax", 2018). A unit of the grid is ``UNIT_TILES`` tiles of rows of one batch and one key head. The
rows of all query heads that share this key head are stacked. Consecutive units of a chunk are computed
together, so that they share each packed block of keys. Sizes of tiles and blocks depend only on the sizes of
the operands, so every division into chunks gives the same bits.

In bf16 both products multiply pairs of adjacent elements along the summed axis (``library/pairs.h``). Scaled
queries, keys, exponentials and values are rounded when they are packed; everything else, including sums, is
f32. Keys and values may be stored as bf16.

Trailing keys that a mask of -inf hides from all rows of a unit are not read. So with a preallocated key-value
cache, the time of a step grows with the filled part of the cache. The result has the same bits as if all keys
were read.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final

from graphwright.cost.machine import FMA_SUMS
from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum, symbol
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.bits import double_bits
from graphwright.kernels.library.extent import BITS, FLAG, SIGNED, Extent, Reach, arguments, within
from graphwright.kernels.library.tile import PAIR_TARGET
from graphwright.kernels.library.transpose import transpose
from graphwright.records import dataclass, replace
from graphwright.targets.cpu.isa import Isa
from graphwright.targets.cpu.vmath import vmath

SYMBOL: Final = "gw_attention_f32"
BF16_SYMBOL: Final = "gw_attention_bf16"
BF16_ARGS: Final = ("k_single", "v_single")
"""Additional arguments of the bf16 kernel: whether keys and values are f32 instead of bf16."""

KEY_BLOCK: Final = 256
"""The most keys per block; longer sequences are cut into blocks of nearly equal length."""
_PITCH: Final = KEY_BLOCK + 16
"""Elements between rows of scores and of packed queries; the padding moves rows to different cache sets."""
_UNIT_TILES: Final = 4
_RUN_UNITS: Final = 16
"""The most units that are computed together; the accumulators have room for these."""
_VECTORS_AT_ONCE: Final = 4
"""Vectors of scores whose exponentials are computed in parallel."""
_ROWS_AHEAD: Final = 12
"""The prefetch distance, in rows, while values are copied."""

_FLOORED: Final = (("n", "vf_fraction(x)"),)
"""The step to the fraction n of x in [0, 1)."""
_MAGIC: Final = "12583039.0f"
"""A sum with it is rounded to an integer, and its low bits are the exponent bits of a power of 2."""
_ROUNDED: Final = (
    ("x", "vf_larger(vf_set1(-127.0f), x)"),  # whose exponent bits are those of 0
    ("y", f"x + {_MAGIC}"),
    ("n", f"x - (y - {_MAGIC})"),
    ("x", "y"),
)
"""Steps to x, rounded, and the rest n in [-0.5, 0.5]."""
_FRACTION: Final = (
    "0.00021565972f", "0.001248229f", "0.009673775f", "0.055486184f", "0.24022909f", "0.69314706f",
)  # fmt: skip
"""Coefficients of 2^n for n in [0, 1), highest power first, without the last, 1
(``benchmarks.vmath_coefficients``).
"""
_CENTERED: Final = (
    "0.00015326463f", "0.0013390806f", "0.009618506f", "0.0555036f", "0.24022648f", "0.6931472f",
)  # fmt: skip
"""The same for n in [-0.5, 0.5]."""

Four = tuple[Dim, Dim, Dim, Dim]


class Guard(IntEnum):
    """How a row is handled whose softmax is NaN."""

    NONE = 0
    NAN = 1
    """NaN becomes 0, whatever its cause."""
    EMPTY = 2
    """Only rows whose scores are all -inf become 0."""


_STRIDES: Final = {
    x: tuple(f"{x}_{axis}" for axis in ("batch", "head", "row", "col")) for x in ("q", "k", "v", "mask", "y")
}
_STRIDE_NAMES: Final = tuple(name for names in _STRIDES.values() for name in names)
ABI: Final = Abi(
    "attention",
    tuple(_STRIDES),
    (
        *("batch", "heads", "kv_heads", "queries", "keys", "depth", "width"),
        *_STRIDE_NAMES,
        *("double scale", "double softcap", "causal", "offset", "guard", "fill"),
    ),
)
"""``mask`` is added to the scores; with ``fill``, it replaces them where it is not 0. It may be absent."""


@dataclass(frozen=True)
class Attention:
    """Sizes and strides (in elements) of one call; strides are ordered batch, head, row, feature."""

    batch: Dim
    heads: Dim
    kv_heads: Dim
    """A divisor of ``heads``: query head h reads key-value head ``h // (heads // kv_heads)``."""
    queries: Dim
    keys: Dim
    depth: Dim
    width: Dim
    """Features per value."""
    q_strides: Four
    k_strides: Four
    v_strides: Four
    y_strides: Four
    mask_strides: Four = (0, 0, 0, 0)
    """Ordered batch, head, query, key; 0 broadcasts."""
    scale: float = 1.0
    softcap: float = 0.0
    """Unless 0, scores become ``softcap * tanh(score / softcap)`` before the mask is applied."""
    causal: bool = False
    """Whether query i sees only keys up to ``i + offset``."""
    offset: Dim = 0
    guard: Guard = Guard.NONE
    fill: bool = False
    """Whether the mask replaces scores where it is not 0; otherwise it is added to them."""

    @property
    def args(self) -> tuple[Dim, ...]:
        """The arguments, in the order of the call."""
        strides = {
            "q": self.q_strides,
            "k": self.k_strides,
            "v": self.v_strides,
            "mask": self.mask_strides,
            "y": self.y_strides,
        }
        named = (zip(_STRIDES[x], given, strict=True) for x, given in strides.items())
        return ABI.values(
            batch=self.batch,
            heads=self.heads,
            kv_heads=self.kv_heads,
            queries=self.queries,
            keys=self.keys,
            depth=self.depth,
            width=self.width,
            scale=double_bits(self.scale),
            softcap=double_bits(self.softcap),
            causal=int(self.causal),
            offset=self.offset,
            guard=int(self.guard),
            fill=int(self.fill),
            **{name: stride for pairs in named for name, stride in pairs},
        )

    @property
    def _rows(self) -> Dim:
        """The rows of queries that share a key head."""
        return floordiv(self.heads, self.kv_heads) * self.queries

    def grid(self, isa: Isa) -> Dim:
        """The number of units of work: groups of query tiles, for each batch and key head."""
        return self.batch * self.kv_heads * ceildiv(ceildiv(self._rows, tile_rows(isa)), _UNIT_TILES)

    def scratch_bytes(self, isa: Isa) -> Dim:
        """The bytes of a packed block of keys and values, of tiles of queries and scores, and of the
        accumulators.
        """
        tile, panel, in_run = tile_rows(isa), panel_columns(isa), _RUN_UNITS * _UNIT_TILES
        keys = minimum(ceildiv(self.keys, panel) * panel, KEY_BLOCK)
        width = ceildiv(self.width, panel) * panel
        rows = minimum(self._rows, in_run * tile) + tile
        tiles = (maximum(ceildiv(self.depth, KEY_BLOCK), 1) + 1) * tile
        sums = ceildiv(self.width, KEY_BLOCK) * rows
        lanes = minimum(ceildiv(self._rows, tile), in_run) * isa.lanes
        return 4 * (keys * (self.depth + width) + (tiles + sums) * _PITCH + 2 * rows + 2 * lanes + 16)

    def work_ns(self, isa: Isa, in_bf16: bool = False) -> Dim:
        """The predicted time on one core, in nanoseconds: both products, the exponentials, and reading keys
        and values.
        """
        scores = floordiv(self.batch * self.heads * self.queries * self.keys, 1 + int(self.causal))
        read = self.batch * self.kv_heads * self.keys * (self.depth + self.width)
        fmas, cycles = scores * (self.depth + self.width), floordiv(25 * scores, isa.lanes)
        pairs = fmas if in_bf16 and isa.vector_bytes == 64 else 0
        work = Work(fmas=fmas - pairs, pair_fmas=pairs, efficiency=85, cycles=cycles, moved=4 * read)
        return predict(work, isa.machine)


def tile_rows(isa: Isa) -> int:
    """Rows of a tile: 12 x 2 accumulators fill 24 of 32 registers, 6 x 2 fill 12 of 16."""
    return 12 if isa.vector_bytes == 64 else 6


def panel_columns(isa: Isa) -> int:
    """Columns of a tile, which are also those of a panel of keys or values."""
    return 2 * isa.lanes


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that :data:`SYMBOL` accesses."""
    a = arguments(*ABI.args)
    sizes = {
        "q": (a.batch, a.heads, a.queries, a.depth),
        "k": (a.batch, a.kv_heads, a.keys, a.depth),
        "v": (a.batch, a.kv_heads, a.keys, a.width),
        "mask": (a.batch, a.heads, a.queries, a.keys),
        "y": (a.batch, a.heads, a.queries, a.width),
    }
    strides = {x: tuple(getattr(a, name) for name in names) for x, names in _STRIDES.items()}
    reaches = {
        x: Reach(4, tuple(zip(sizes[x], strides[x], strict=True)), optional=x == "mask") for x in sizes
    }
    call = Attention(
        *(a.batch, a.heads, a.kv_heads, a.queries, a.keys, a.depth, a.width),
        *((0, 0, 0, 0),) * 4,
    )
    extent = Extent(
        SYMBOL,
        ABI.args,
        ABI.ordered(**reaches),
        grid=call.grid(isa),
        scratch=call.scratch_bytes(isa),
        bounds=within(SIGNED, *_STRIDE_NAMES, "offset") | within(BITS, "scale", "softcap"),
    )
    flags = {x: symbol(f"{x}_single") for x in ("k", "v")}
    halves = reaches | {x: replace(reaches[x], item=2 + 2 * flag) for x, flag in flags.items()}
    in_bf16 = replace(
        extent,
        symbol=BF16_SYMBOL,
        args=(*ABI.args, *BF16_ARGS),
        operands=ABI.ordered(**halves),
        bounds={**(extent.bounds or {}), **within(FLAG, *BF16_ARGS)},
    )
    return extent, in_bf16


def _product(rows: int, vectors: int, pairs: bool) -> str:
    """A C function for c[rows][vectors * VL] (+)= a[rows][k] @ b[k][NR], with accumulators in registers. Rows
    of a and c are PITCH elements apart. If there are few rows, k is split over several sets of accumulators,
    as each FMA would otherwise wait for the one before.
    """
    splits = min(4, -(-FMA_SUMS // (rows * vectors)))
    turn = max(splits, 2)
    cells = [(r, v) for r in range(rows) for v in range(vectors)]
    name = f"{'pair_' * pairs}product_{rows}x{vectors}"
    lines = [
        f"{PAIR_TARGET * pairs}static void {name}(int64_t k, const float *a, const float *b, float *c,",
        "    int add) {",
        "    vf x;",
        *(f"    vf c{r}_{v}_{s} = {{0}};" for r, v in cells for s in range(splits)),
        f"    for (; k >= {turn}; k -= {turn}, a += {turn}, b += {turn} * NR) {{",
        *(line for step in range(turn) for line in _step(rows, vectors, step, step % splits, pairs)),
        "    }",
        "    for (; k > 0; k--, a++, b += NR) {",
        *_step(rows, vectors, 0, 0, pairs),
        "    }",
        *(f"    c{r}_{v}_0 += c{r}_{v}_{s};" for s in range(1, splits) for r, v in cells),
        "    if (add) {",
        *(f"        c{r}_{v}_0 += vf_load(c + {r} * PITCH + {v} * VL);" for r, v in cells),
        "    }",
        *(f"    vf_store(c + {r} * PITCH + {v} * VL, c{r}_{v}_0);" for r, v in cells),
    ]
    return "\n".join([*lines, "}", ""])


def _step(rows: int, vectors: int, step: int, split: int, pairs: bool) -> list[str]:
    """The FMAs for the value of k that is ``step`` ahead."""
    multiply = "ACCUMULATE_PAIRS" if pairs else "ACCUMULATE"
    lines = ["        {"]
    lines += [f"            const vf b{v} = vf_load(b + {step} * NR + {v} * VL);" for v in range(vectors)]
    for r in range(rows):
        lines += [f"            BROADCAST(x, a[{r} * PITCH + {step}]);"]
        lines += [f"            {multiply}(c{r}_{v}_{split}, x, b{v});" for v in range(vectors)]
    return [*lines, "        }"]


def _products(tile: int, pairs: bool) -> str:
    """``product_of[rows - 1][vectors - 1]``, or ``pair_product_of``."""
    kind, sizes = "pair_" * pairs, range(1, tile + 1)
    functions = "".join(_product(rows, vectors, pairs) for rows in sizes for vectors in (1, 2))
    rows = ",\n".join(f"    {{{kind}product_{r}x1, {kind}product_{r}x2}}" for r in sizes)
    return f"""\
{functions}
static const product {kind}product_of[MR][2] = {{
{rows},
}};
"""


def _reductions(isa: Isa, name: str, combined: str) -> str:
    """C function that combines the lanes of each of ``isa.lanes`` vectors: lane r of the result is that of
    vector r. Each step combines the halves of all rows, and puts the results of two vectors in one.
    """
    count = isa.lanes
    lines = [f"GW_INLINE vf {name}(const vf *rows) {{"]
    lines += [f"    vf x{r} = rows[{r}];" for r in range(count)]
    lines += ["    vf x, y;"]
    while count > 1:
        half = count // 2
        lower = [
            block % 2 * isa.lanes + block // 2 * count + lane
            for block in range(isa.lanes // half)
            for lane in range(half)
        ]
        first, second = (", ".join(str(lane + ahead) for lane in lower) for ahead in (0, half))
        for r in range(half):
            both = f"x{r}, x{r + half}"
            lines += [f"    x = __builtin_shufflevector({both}, {first});"]
            lines += [f"    y = __builtin_shufflevector({both}, {second});"]
            lines += [f"    x{r} = {combined};"]
        count = half
    return "\n".join([*lines, "    return x0;", "}", ""])


def _powers(isa: Isa, name: str, count: int) -> str:
    """A C function for 2^x with x <= 0, which keeps NaN. It processes several vectors in parallel to hide
    latency. With AVX2, subnormal results are 0.
    """
    v4 = isa.vector_bytes == 64
    reduced = _FLOORED if v4 else _ROUNDED
    first, second, *others = _FRACTION if v4 else _CENTERED
    steps = (
        *reduced,
        ("y", f"n * {first} + {second}"),
        *(("y", f"y * n + {c}") for c in (*others, "1.0f")),
        ("x", f"scale_f32x{isa.lanes}(y, x)" if v4 else "y * (vf)((vi)x << 23)"),
    )
    one = count == 1
    lines = [f"GW_INLINE {'vf' if one else 'void'} {name}(vf {'x0' if one else '*x'}) {{"]
    lines += [f"    vf x{i} = x[{i}];" for i in range(count) if not one]
    lines += [f"    vf {', '.join(f'n{i}, y{i}' for i in range(count))};"]
    for result, expression in steps:
        numbered = [re.sub(r"\b([nxy])\b", rf"\g<1>{i}", expression) for i in range(count)]
        lines += [f"    {result}{i} = {text};" for i, text in enumerate(numbered)]
    lines += ["    return x0;"] if one else [f"    x[{i}] = x{i};" for i in range(count)]
    return "\n".join([*lines, "}", ""])


def header(isa: Isa) -> str:
    """The generated header of ``attention.c``."""
    tile = tile_rows(isa)
    constants = f"""
#define MR {tile} /* rows of a tile */
#define NR {panel_columns(isa)} /* columns of a tile, and of a panel */
#define KEY_BLOCK {KEY_BLOCK}
#define PITCH {_PITCH}
#define UNIT_TILES {_UNIT_TILES}
#define RUN_UNITS {_RUN_UNITS}
#define SCORES {_VECTORS_AT_ONCE * isa.lanes} /* whose exponentials are computed at once */
#define ROWS_AHEAD {_ROWS_AHEAD}
enum {{ {", ".join(f"GUARD_{guard.name} = {guard.value}" for guard in Guard)} }};

#include "attention/registers.h"

typedef void (*product)(int64_t k, const float *a, const float *b, float *c, int add);
"""
    products = _products(tile, pairs=False) + (_products(tile, pairs=True) if isa.vector_bytes == 64 else "")
    reductions = _reductions(isa, "vf_maxima", "vf_larger(x, y)") + _reductions(isa, "vf_totals", "x + y")
    powers = _powers(isa, "vf_power", 1) + _powers(isa, "vf_powers", _VECTORS_AT_ONCE)
    unrolled = [products, transpose(isa), reductions, powers]
    helpers = ("scale", "tanh") if isa.vector_bytes == 64 else ("tanh",)
    return "\n".join([ABI.c_text(), constants, vmath(isa, helpers), *unrolled])

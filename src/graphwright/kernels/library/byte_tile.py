"""C text of the register tile of products of bytes: C[rows, cols] += A[rows, k] * B[k, cols], s32 and exact.

One operand is unsigned, the other signed. Four values of k lie side by side in a *quad* of 4 bytes; a step
multiplies a quad of each row of A with a vector of quads of B. With AVX512-VNNI that is one instruction
(``vpdpbusd``); without it bytes are widened to 16 bits, even and odd ones apart, whose pairs of products
``vpmaddwd`` adds in 32 bits (``vpmaddubsw`` would saturate). Sums wrap like any s32: every way gives the same
bits.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

Array = npt.NDArray[Any]

QUAD: Final = 4
"""Values of k in a lane."""

RUN: Final = 64
"""Bytes of a row of A that lie side by side; then come those of the tile's next row."""

TILE_ROWS: Final = 8
"""Rows of a packed tile of A."""

_UNROLL: Final = 4
"""Quads per turn of a tile's loop."""


@dataclass(frozen=True)
class ByteTile:
    """The largest tile that is computed at once; ``vnni``: by AVX512-VNNI."""

    rows: int
    vectors: int
    vnni: bool


def vectors_of(isa: Isa) -> int:
    """Vectors of quads in a panel of B."""
    return 3 if isa.vector_bytes == 64 else 2


def panel_columns(isa: Isa) -> int:
    """Columns of a panel of B."""
    return vectors_of(isa) * isa.lanes


def tile_bytes(quads: int) -> int:
    """Bytes of a packed tile of A with so many quads a row."""
    return -(-quads * QUAD // RUN) * RUN * TILE_ROWS


def as_signed(x: Array) -> Array:
    """u8 or s8 as s8: what is unsigned is moved down by 128."""
    return x if x.dtype == np.int8 else (x ^ np.uint8(0x80)).view(np.int8)


def entries(text: str, symbol: str, wide: str) -> str:
    """The function of the ABI that ``text`` defines, twice: ``symbol``, by VNNI where the CPU has it, and
    ``wide``, never."""
    named = ((symbol, "!has_vnni()"), (wide, "1"))
    return "".join(text.replace("@SYMBOL@", name).replace("@WIDE@", way) for name, way in named)


def byte_tiles(isa: Isa, *, a_signed: bool) -> str:
    """``run_byte_tile(wide, rows, vectors, quads, a, b, &t)`` for up to :data:`TILE_ROWS` rows of packed A.

    ``a_signed``: A is the signed operand, B the unsigned one; else the other way round. ``wide``: without
    VNNI even where the CPU has it.
    """
    columns = vectors_of(isa)
    plain = ByteTile(4, columns, vnni=False)
    tiles = [plain] + ([ByteTile(TILE_ROWS, columns, vnni=True)] if isa.vector_bytes == 64 else [])
    text = [_COMMON.replace("@RUN@", str(RUN)).replace("@TILE_ROWS@", str(TILE_ROWS))]
    text += [_table(tile, a_signed) for tile in tiles]
    text += [_RUN_WIDE]
    text += [_RUN_VNNI if isa.vector_bytes == 64 else _RUN_PLAIN]
    return "\n".join(text)


_COMMON: Final = """\
#define RUN @RUN@ /* bytes of a row of A that lie side by side */
#define TILE_ROWS @TILE_ROWS@ /* rows of a packed tile of A */
#define PANEL_ROW (NR * 4) /* bytes of a panel of B per quad */

typedef int16_t vs __attribute__((vector_size(sizeof(vi))));
typedef uint16_t vu __attribute__((vector_size(sizeof(vi))));
typedef uint32_t vq __attribute__((vector_size(sizeof(vi))));

/* A tile starts from one number per row, or from one per column, and is stored to ``to``. */
struct byte_tile {
    const int32_t *from;
    int32_t *to;
    int64_t to_ld;
    int from_rows;
};

/* c += products of unsigned with signed bytes; DOT_AT: with one quad at p for all lanes. */
#define DOT(c, unsigned_, signed_) \\
    __asm__("vpdpbusd %2, %1, %0" : "+v"(c) : "v"(unsigned_), "v"(signed_))
#define DOT_AT(c, unsigned_, p) \\
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(c) : "v"(unsigned_), "m"(*(const struct quad_bytes *)(p)))
struct quad_bytes {
    uint8_t x[4];
};

GW_INLINE uint32_t quad_at(const uint8_t *p) {
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}
GW_INLINE vi quad_all(const uint8_t *p) { return (vi)(quad_at(p) - (vq){0}); }
GW_INLINE vi quads_at(const uint8_t *p) { return *(const vi_any *)p; }
GW_INLINE vi pairs_dot(vs a, vs b) {
    vi c;
    __asm__("vpmaddwd %2, %1, %0" : "=v"(c) : "v"(a), "v"(b));
    return c;
}
/* Even and odd bytes in 16 bits each. */
GW_INLINE vs even_unsigned(vi x) { return (vs)((vu)x & 0xff); }
GW_INLINE vs odd_unsigned(vi x) { return (vs)((vu)x >> 8); }
GW_INLINE vs even_signed(vi x) { return (vs)((vu)x << 8) >> 8; }
GW_INLINE vs odd_signed(vi x) { return (vs)x >> 8; }
/* Sums of the bytes of each quad. */
GW_INLINE vi quad_sums(vi x) {
    const vs one = (vs){0} + 1;
    return pairs_dot(even_unsigned(x), one) + pairs_dot(odd_unsigned(x), one);
}

/* tile[r][c] -= of_row[r] * of_column[c] */
static void subtract_products(int32_t *tile, int64_t ld, int64_t rows, int64_t vectors, const int32_t *of_row,
                              const int32_t *of_column) {
    for (int64_t r = 0; r < rows; r++, tile += ld) {
        const vq factor = (vq)vi_set1(of_row[r]);
        for (int64_t v = 0; v < vectors * VL; v += VL)
            vi_store(tile + v, (vi)((vq)vi_load(tile + v) - factor * (vq)vi_load(of_column + v)));
    }
}

/* A zero point as the tile sees it: `moved` like what it belongs to. */
static int32_t zero_at(const uint8_t *zero, int64_t i, int64_t is_signed, int moved) {
    if (!zero)
        return moved;
    return (is_signed ? (int32_t)(int8_t)zero[i] : (int32_t)zero[i]) + moved;
}

/* The first cols columns of rows of a tile. */
static void store_tile(const int32_t *tile, int64_t rows, int64_t cols, int32_t *to, int64_t to_ld) {
    for (int64_t r = 0; r < rows; r++)
        memcpy(to + r * to_ld, tile + r * NR, (size_t)cols * sizeof *to);
}
"""


def _table(tile: ByteTile, a_signed: bool) -> str:
    kind = "vnni" if tile.vnni else "wide"
    functions = [
        _function(tile, f"{kind}_{r}x{v}", r, v, a_signed)
        for r in range(1, tile.rows + 1)
        for v in range(1, tile.vectors + 1)
    ]
    rows = ",\n".join(
        "    {" + ", ".join(f"{kind}_{r}x{v}" for v in range(1, tile.vectors + 1)) + "}"
        for r in range(1, tile.rows + 1)
    )
    return (
        "\n".join(functions)
        + f"\ntypedef void (*{kind}_fn)(int64_t quads, const uint8_t *a, const uint8_t *b,\n"
        f"                        const struct byte_tile *t);\n"
        f"static const {kind}_fn {kind}_of[{tile.rows}][{tile.vectors}] = {{\n{rows},\n}};\n"
    )


def _function(tile: ByteTile, name: str, rows: int, vectors: int, a_signed: bool) -> str:
    cells = [(r, v) for r in range(rows) for v in range(vectors)]
    target = '__attribute__((target("avx512vnni"))) ' if tile.vnni else ""
    step = _vnni_step if tile.vnni else _wide_step
    lines = [
        f"{target}static void {name}(int64_t quads, const uint8_t *a, const uint8_t *b,",
        "                      const struct byte_tile *t) {",
        f"    vi {', '.join(f'c{r}_{v}' for r, v in cells)};",
        "    if (t->from_rows) {",
        *(f"        c{r}_{v} = vi_set1(t->from[{r}]);" for r, v in cells),
        "    } else {",
        *(f"        c{r}_{v} = vi_load(t->from + {v} * VL);" for r, v in cells),
        "    }",
        f"    for (; quads > 0; a += TILE_ROWS * RUN - RUN, quads -= RUN / {QUAD}) {{",
        f"        int64_t left = quads < RUN / {QUAD} ? quads : RUN / {QUAD};",
        "        const uint8_t *end = a + RUN;",
        f"        for (; left >= {_UNROLL}; left -= {_UNROLL}) {{",
        *(line for number in range(_UNROLL) for line in step(number, rows, vectors, a_signed)),
        f"            a += {_UNROLL * QUAD}, b += {_UNROLL} * PANEL_ROW;",
        "        }",
        f"        for (; left > 0; left--, a += {QUAD}, b += PANEL_ROW) {{",
        *step(0, rows, vectors, a_signed),
        "        }",
        "        a = end;",
        "    }",
        *(f"    vi_store(t->to + {r} * t->to_ld + {v} * VL, c{r}_{v});" for r, v in cells),
        "}",
    ]
    return "\n".join([*lines, ""])


def _vnni_step(number: int, rows: int, vectors: int, a_signed: bool) -> list[str]:
    """The instruction itself can broadcast its signed operand from memory: a third of the rows of a signed A
    save their broadcast that way, which leaves the load ports idle a quarter of the time."""
    unsigned, signed = ("x{v}", "y") if a_signed else ("y", "x{v}")
    lines = ["            {"]
    lines += [
        f"                const vi x{v} = quads_at(b + {number} * PANEL_ROW + {v} * sizeof(vi));"
        for v in range(vectors)
    ]
    for r in range(rows):
        place = f"a + {r} * RUN + {number * QUAD}"
        if a_signed and rows > 2 and r % 3 == 0:
            lines += [f"                DOT_AT(c{r}_{v}, x{v}, {place});" for v in range(vectors)]
            continue
        lines += [f"                {{ const vi y = quad_all({place});"]
        lines += [
            f"                DOT(c{r}_{v}, {unsigned.format(v=v)}, {signed.format(v=v)});"
            for v in range(vectors)
        ]
        lines += ["                }"]
    return [*lines, "            }"]


def _wide_step(number: int, rows: int, vectors: int, a_signed: bool) -> list[str]:
    of_a, of_b = ("signed", "unsigned") if a_signed else ("unsigned", "signed")
    lines = ["            {"]
    for v in range(vectors):
        lines += [
            f"                const vi x{v} = quads_at(b + {number} * PANEL_ROW + {v} * sizeof(vi));",
            f"                const vs even{v} = even_{of_b}(x{v}), odd{v} = odd_{of_b}(x{v});",
        ]
    for r in range(rows):
        lines += [
            f"                {{ const vi y = quad_all(a + {r} * RUN + {number * QUAD});",
            f"                const vs even = even_{of_a}(y), odd = odd_{of_a}(y);",
        ]
        lines += [
            f"                c{r}_{v} += pairs_dot(even, even{v}) + pairs_dot(odd, odd{v});"
            for v in range(vectors)
        ]
        lines += ["                }"]
    return [*lines, "            }"]


_RUN_WIDE: Final = """\
static void run_wide(int64_t rows, int64_t vectors, int64_t quads, const uint8_t *a, const uint8_t *b,
                     const struct byte_tile *t) {
    for (int64_t r = 0; r < rows; r += 4) {
        struct byte_tile part = *t;
        part.from += t->from_rows ? r : 0;
        part.to += r * t->to_ld;
        wide_of[(rows - r < 4 ? rows - r : 4) - 1][vectors - 1](quads, a + r * RUN, b, &part);
    }
}
"""

_RUN_PLAIN: Final = """\
GW_INLINE void run_byte_tile(int wide, int64_t rows, int64_t vectors, int64_t quads, const uint8_t *a,
                             const uint8_t *b, const struct byte_tile *t) {
    (void)wide;
    run_wide(rows, vectors, quads, a, b, t);
}
GW_INLINE int has_vnni(void) { return 0; }
"""

_RUN_VNNI: Final = """\
GW_INLINE void run_byte_tile(int wide, int64_t rows, int64_t vectors, int64_t quads, const uint8_t *a,
                             const uint8_t *b, const struct byte_tile *t) {
    if (wide)
        run_wide(rows, vectors, quads, a, b, t);
    else
        vnni_of[rows - 1][vectors - 1](quads, a, b, t);
}

/* Whether the CPU has AVX512-VNNI: CPUID leaf 7, ECX bit 11, asked once, since a virtual machine traps it. */
static int has_vnni(void) {
    static int known; /* 0 not asked yet, 1 no, 2 yes: every thread finds the same */
    int found = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!found) {
        uint32_t a, b, c = 0, d;
        found = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c >> 11 & 1) ? 2 : 1;
        __atomic_store_n(&known, found, __ATOMIC_RELAXED);
    }
    return found == 2;
}
"""

"""C text of the register tile of byte products: C[rows, cols] += A[rows, k] * B[k, cols], s32 and exact.

One operand is unsigned, the other signed. Four consecutive values of k form a *quad* of 4 bytes; a step
multiplies a quad of each row of A by a vector of quads of B. AVX512-VNNI has an instruction for this
(``vpdpbusd``). Without it, even and odd bytes are widened to 16 bits separately, and ``vpmaddwd`` adds pairs
of their products in 32 bits (``vpmaddubsw`` would saturate). Sums wrap like any s32, so both variants give
the same bits.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from graphwright.kernels.library import amx
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

Array = npt.NDArray[Any]

QUAD: Final = 4
"""Values of k per lane."""

RUN: Final = 64
"""Contiguous bytes of a row of A; those of the next row of the tile follow."""

TILE_ROWS: Final = 8
"""The rows of a packed tile of A."""

_UNROLL: Final = 4
"""Quads per iteration of a tile's loop."""


@dataclass(frozen=True)
class ByteTile:
    """The largest register tile; ``vnni``: it uses AVX512-VNNI."""

    rows: int
    vectors: int
    vnni: bool


def vectors_of(isa: Isa) -> int:
    """Vectors of quads per panel of B."""
    return 3 if isa.vector_bytes == 64 else 2


def panel_columns(isa: Isa) -> int:
    """The columns of a panel of B."""
    return vectors_of(isa) * isa.lanes


def tile_bytes(quads: int) -> int:
    """The bytes of a packed tile of A with ``quads`` quads per row."""
    return -(-quads * QUAD // RUN) * RUN * TILE_ROWS


def as_signed(x: Array) -> Array:
    """u8 or s8 as s8; u8 is shifted by -128."""
    return x if x.dtype == np.int8 else (x ^ np.uint8(0x80)).view(np.int8)


def byte_tiles(isa: Isa, *, a_signed: bool) -> str:
    """The micro-kernels of ``run_byte_tile(unit, rows, vectors, quads, a, b, &t)``, for up to
    :data:`TILE_ROWS` rows of packed A. ``a_signed``: A is the signed operand and B the unsigned one; else the
    reverse. Those with AMX are in ``amx_byte_tile.h``.
    """
    columns = vectors_of(isa)
    plain = ByteTile(4, columns, vnni=False)
    tiles = [plain] + ([ByteTile(TILE_ROWS, columns, vnni=True)] if isa.vector_bytes == 64 else [])
    constants = f"#define RUN {RUN}\n#define TILE_ROWS {TILE_ROWS}\n#define A_SIGNED {int(a_signed)}\n"
    tables = (_table(tile, a_signed) for tile in tiles)
    return "\n".join([constants, amx.c_text(), '#include "library/byte_tile.h"\n', *tables])


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
    target = "VNNI_TARGET " if tile.vnni else ""
    step = _vnni_step if tile.vnni else _wide_step
    lines = [
        f"{target}static void {name}(int64_t quads, const uint8_t *a, const uint8_t *b,",
        "                      const struct byte_tile *t) {",
        f"    vi {', '.join(f'c{r}_{v}' for r, v in cells)};",
        "    const uint8_t *ahead = t->ahead;",
        "    if (t->from_rows) {",
        *(f"        c{r}_{v} = vi_set1(t->from[{r}]);" for r, v in cells),
        "    } else {",
        *(f"        c{r}_{v} = vi_load(t->from + {v} * VL);" for r, v in cells),
        "    }",
        f"    for (; quads > 0; a += TILE_ROWS * RUN - RUN, quads -= RUN / {QUAD}) {{",
        f"        int64_t left = quads < RUN / {QUAD} ? quads : RUN / {QUAD};",
        "        const uint8_t *end = a + RUN;",
        "        for (int64_t line = 0; line < t->ahead_lines; line++, ahead += 64)",
        "            __builtin_prefetch(ahead, 0, 2);",
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
    """One step with VNNI. The instruction can broadcast its signed operand from memory; a third of the rows
    of a signed A do so, which saves their broadcasts and leaves the load ports idle a quarter of the time.
    """
    unsigned, signed = ("x{v}", "y") if a_signed else ("y", "x{v}")
    lines = ["            {"]
    lines += [
        f"                const vi x{v} = quads_at(b + {number} * PANEL_ROW + {v} * sizeof(vi));"
        for v in range(vectors)
    ]
    for r in range(rows):
        quad = f"a + {r} * RUN + {number * QUAD}"
        if a_signed and rows > 2 and r % 3 == 0:
            lines += [f"                DOT_AT(c{r}_{v}, x{v}, {quad});" for v in range(vectors)]
            continue
        lines += [f"                {{ const vi y = quad_all({quad});"]
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
            f"                c{r}_{v} = wrapping_sum(c{r}_{v}, wrapping_sum(pairs_dot(even, even{v}),"
            f" pairs_dot(odd, odd{v})));"
            for v in range(vectors)
        ]
        lines += ["                }"]
    return [*lines, "            }"]

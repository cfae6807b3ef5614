"""C functions that run tiles of any size: tables of all tiles up to the largest, and sums of partial sums."""

from __future__ import annotations

from graphwright.kernels.library import amx
from graphwright.kernels.library.tile import CHAIN, K_RUN, TileAssembly, TileShape
from graphwright.targets.cpu.isa import Isa


def tiles(shape: TileShape, isa: Isa) -> str:
    """The micro-kernels ``run_tile(rows, vectors, k, a, b, ldb, &t)`` for every tile up to ``shape``."""
    return '#include "library/tile.h"\n\n' + _table(shape, isa, in_place=False)


def tiles_in_place(shape: TileShape, isa: Isa) -> str:
    """The micro-kernels ``run_tile_in_place(rows, vectors, k, a, lda, b, ldb, &t)``. As :func:`tiles`, whose
    text must precede this one, but A is not packed: its rows are dense and ``lda`` elements apart.
    """
    return _table(shape, isa, in_place=True)


def pair_tiles(shape: TileShape, isa: Isa) -> str:
    """:func:`tiles` and :func:`tiles_in_place` for pairs of bf16."""
    own = isa.vector_bytes == 64
    texts = (
        _table(shape, isa, in_place=x, pairs=True) if own else _run_halves(shape, x) for x in (False, True)
    )
    return "\n".join([amx.c_text(), '#include "library/pair_tile.h"\n', *texts])


def _run_halves(shape: TileShape, in_place: bool) -> str:
    """The tiles for an ISA that never has instructions for pairs."""
    suffix, lda = ("_in_place", "int64_t lda, ") if in_place else ("", "")
    return f"""\
static void run_tile{suffix}(int64_t rows, int64_t vectors, int64_t k, const float *a, {lda}const float *b,
                     int64_t ldb, const struct tile *t) {{
    {_halves(shape, in_place)}
}}
"""


def _halves(shape: TileShape, in_place: bool) -> str:
    rows = "lda, K_RUN" if in_place else f"{shape.a_row}, {shape.a_skip + K_RUN * shape.a_k}"
    return f"tile_of_halves(rows, vectors, k, a, {rows}, b, ldb, t);"


def _other_units(shape: TileShape, in_place: bool) -> str:
    """Returns from the function if pairs are not multiplied with AVX512-BF16. AMX only reads packed A."""
    with_fma = f"""\
    if (t->unit == WITH_FMA) {{
        {_halves(shape, in_place)}
        return;
    }}
"""
    with_amx = """\
#ifdef AMX_TARGET
    if (t->unit == WITH_AMX) {
        pair_tile_with_amx(rows, vectors, k, a, b, ldb, t);
        return;
    }
#endif
"""
    return with_fma + ("" if in_place else with_amx)


def _table(shape: TileShape, isa: Isa, *, in_place: bool, pairs: bool = False) -> str:
    sizes = [[(r, v) for v in range(1, shape.vectors + 1)] for r in range(1, shape.rows + 1)]
    variants = [[TileAssembly(shape, isa, r, v, in_place, pairs) for r, v in row] for row in sizes]
    others = _other_units(shape, in_place) if pairs else ""
    functions = "".join(variant.text() for row in variants for variant in row)
    table = ",\n".join(f"    {{{', '.join(variant.name for variant in row)}}}" for row in variants)
    suffix, lda, value = ("_in_place", "int64_t lda, ", "lda, ") if in_place else ("", "", "")
    chains = "" if pairs else _chains(shape, value, in_place=in_place)
    return f"""\
{functions}
typedef void (*tile{suffix}_fn)(int64_t k, const float *a, {lda}const float *b, int64_t ldb,
                        const struct tile *t);
static const tile{suffix}_fn tile{suffix}_of[{shape.rows}][{shape.vectors}] = {{
{table},
}};

static void run_tile{suffix}(int64_t rows, int64_t vectors, int64_t k, const float *a, {lda}const float *b,
                     int64_t ldb, const struct tile *t) {{
{others}    const tile{suffix}_fn run = tile{suffix}_of[rows - 1][vectors - 1];
{chains}    run(k, a, {value}b, ldb, t);
}}
"""


def _chains(shape: TileShape, lda: str, *, in_place: bool) -> str:
    """Computes all partial sums of a long sum but the last one, for which ``k``, ``a``, ``b`` and ``t`` are
    set.
    """
    step = CHAIN if in_place else CHAIN * shape.a_k + CHAIN // K_RUN * shape.a_skip
    return f"""\
    struct tile part;
    if (k > {CHAIN}) {{
        part = *t;
        part.row = part.column = part.clip = NULL;
        part.relu = 0;
        for (; k > {CHAIN}; k -= {CHAIN}, a += {step}, b += {CHAIN} * ldb) {{
            run({CHAIN}, a, {lda}b, ldb, &part);
            part.added = part.to;
            part.added_ld = part.to_ld;
            if (part.ahead)
                part.ahead += {CHAIN // 2} * part.ahead_step + {CHAIN // K_RUN} * part.ahead_skip;
        }}
        part.row = t->row;
        part.column = t->column;
        part.relu = t->relu;
        part.clip = t->clip;
        t = &part;
    }}
"""

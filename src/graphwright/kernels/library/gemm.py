"""GEMM: C[b0, b1, M, N] = act(A[b0, b1, M, K] @ B[b0, b1, K, N] + bias), f32, any strides.

Two symbols, alike but for B: :data:`PACKED` takes B in panels of :func:`panel_columns` columns, zero padded
(``pack.gemm_panels``, ``pack.gemm_layout``); :data:`UNPACKED` takes B with strides and packs one panel at a
time.

Two batch axes, since the heads of attention ([batch, sequence, head, feature] read as [batch, head, ...])
cannot be flattened to one stride. A stride of 0 broadcasts.

Loops: a unit of the grid is one block of rows and one or two panels of columns; neighbouring units of a
chunk are computed together, so that a packed block of A serves all of them. Blocks of K, tiles of rows and
panels of columns depend on the sizes alone, so any chunking gives the same bits.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from graphwright.ir.symbols import Dim, ceildiv, maximum, minimum
from graphwright.kernels.library.isa import Isa, prelude
from graphwright.kernels.library.tile import HELPERS, TileShape, tiles, transpose

PACKED: Final = "gw_gemm_f32_packed"
UNPACKED: Final = "gw_gemm_f32"

OPERANDS: Final = ("a", "b", "bias", "c")
"""``bias`` may be absent; ``c`` is ignored when there is a hook. The hook, or a null pointer, comes next."""

K_BLOCK: Final = 512
"""Longest block of K; longer ones are cut into blocks of equal length."""
_A_PITCH: Final = K_BLOCK + 16
"""Elements between rows of packed A: rows fall into different cache sets."""
_UNIT_PANELS: Final = 2
_RUN_PANELS: Final = 16
"""Panels computed together at most: what the sums between blocks of K have room for."""


class GemmArgs(NamedTuple):
    """The kernel's args in ABI order; strides in elements. A packed B has strides of the batch axes alone."""

    batch0: Dim
    batch1: Dim
    m: Dim
    n: Dim
    k: Dim
    a_batch0: Dim
    a_batch1: Dim
    a_m: Dim
    a_k: Dim
    b_batch0: Dim
    b_batch1: Dim
    b_k: Dim
    b_n: Dim
    bias_m: Dim
    bias_n: Dim
    c_batch0: Dim
    c_batch1: Dim
    c_m: Dim
    c_n: Dim
    act: Dim
    """0 none, 1 relu."""


def tile_shape(isa: Isa) -> TileShape:
    """12 x 2 vectors fill 24 of 32 registers, 6 x 2 fill 12 of 16."""
    return TileShape(rows=12 if isa.vector_bytes == 64 else 6, vectors=2, a_row=_A_PITCH, a_k=1)


def panel_columns(isa: Isa) -> int:
    """Columns per panel of packed B (``nr``)."""
    return tile_shape(isa).columns(isa)


def _block_rows(isa: Isa) -> int:
    """192 rows of A per unit: B is read (and packed, where it is not) once for so many rows."""
    return 192 // tile_shape(isa).rows * tile_shape(isa).rows


def grid(isa: Isa, args: GemmArgs) -> Dim:
    """Units of work: blocks of rows times pairs of panels, in each batch."""
    columns = _UNIT_PANELS * panel_columns(isa)
    blocks = ceildiv(args.m, _block_rows(isa))
    return args.batch0 * args.batch1 * blocks * ceildiv(args.n, columns)


def scratch_bytes(isa: Isa, args: GemmArgs, *, packed: bool) -> Dim:
    """Packed A, then one panel of B, then the sums between blocks of K."""
    shape, width = tile_shape(isa), panel_columns(isa)
    rows = minimum(ceildiv(args.m, shape.rows) * shape.rows, _block_rows(isa))
    panels = minimum(ceildiv(args.n, width), _RUN_PANELS)
    panel = 0 if packed else minimum(args.k, K_BLOCK) * width
    sums = minimum(maximum(args.k - K_BLOCK, 0), 1) * rows * panels * width
    return 4 * (rows * _A_PITCH + panel + sums)


def work_ns(isa: Isa, args: GemmArgs) -> Dim:
    """Time on one core: bound by FMAs (100 or 60 GFLOP/s) or by reading B (10 GB/s)."""
    speed = 100 if isa.vector_bytes == 64 else 60
    elements = args.batch0 * args.batch1 * args.k * args.n
    return maximum(ceildiv(2 * args.m * elements, speed), ceildiv(4 * elements, 10))


def source(isa: Isa) -> str:
    """One C11 file with both symbols."""
    shape = tile_shape(isa)
    constants = f"""
#define MR {shape.rows} /* rows of a tile */
#define NR {shape.columns(isa)} /* columns of a tile, and of a panel of B */
#define K_BLOCK {K_BLOCK}
#define A_PITCH {_A_PITCH}
#define BLOCK_TILES {_block_rows(isa) // shape.rows} /* tiles of rows of a unit */
#define UNIT_PANELS {_UNIT_PANELS}
#define RUN_PANELS {_RUN_PANELS}
#define ARGS {len(GemmArgs._fields)}
#define OPERANDS {len(OPERANDS)}
"""
    fields = f"struct args {{\n    int64_t {', '.join(GemmArgs._fields)};\n}};\n"
    entries = "".join(
        _ENTRY.replace("@SYMBOL@", symbol).replace("@PACKED@", str(int(packed)))
        for symbol, packed in ((UNPACKED, False), (PACKED, True))
    )
    return "\n".join([prelude(isa), constants, fields, HELPERS, tiles(shape), transpose(isa), _BODY, entries])


_BODY: Final = """
struct gemm {
    struct args s;
    const float *a, *b, *bias;
    float *c;
    gw_hook hook;
    void *const *hook_buf;
    const int64_t *hook_arg;
    int packed; /* B lies in panels already */
};

/* A block of the output: rows of tiles [tile0, tile1) and panels [panel0, panel1) of one batch. */
struct block {
    int64_t batch0, batch1, tile0, tile1, panel0, panel1;
};

/* to[r][j] = a[r][j] with rows A_PITCH apart. */
static void pack_a(const float *a, int64_t a_m, int64_t a_k, int64_t rows, int64_t k, float *to) {
    if (a_k == 1) {
        for (int64_t r = 0; r < rows; r++)
            copy_row(a + r * a_m, k, to + r * A_PITCH);
        return;
    }
    for (int64_t j = 0; j < k; j++)
        for (int64_t r = 0; r < rows; r++)
            to[r * A_PITCH + j] = a[r * a_m + j * a_k];
}

/* One panel to[k][NR] of the first cols columns of b, zeros after them. */
static void pack_b(const float *b, int64_t b_k, int64_t b_n, int64_t k, int64_t cols, float *to) {
    if (b_n == 1 && cols == NR) {
        for (int64_t j = 0; j < k; j++)
            for (int v = 0; v < NR; v += VL)
                vf_store(to + j * NR + v, vf_load(b + j * b_k + v));
        return;
    }
    if (b_k == 1) {
        for (int64_t v = 0; v < NR; v += VL)
            for (int64_t j = 0; j < k; j += VL)
                transpose(b + v * b_n + j, b_n, smaller(VL, cols - v), smaller(VL, k - j), to + j * NR + v,
                          NR);
        return;
    }
    for (int64_t j = 0; j < k; j++)
        for (int64_t i = 0; i < NR; i++)
            to[j * NR + i] = i < cols ? b[j * b_k + i * b_n] : 0;
}

/* The bias as the start of a tile; in strides that a tile cannot read it goes through room. */
static void start_from_bias(const struct gemm *g, int64_t row, int64_t rows, int64_t col, int64_t cols,
                            float *room, struct tile *t) {
    if (!g->bias) {
        t->from_kind = FROM_ZERO;
        return;
    }
    t->from = g->bias + row * g->s.bias_m + col * g->s.bias_n;
    t->from_ld = g->s.bias_m;
    t->from_kind = g->s.bias_n == 0 ? FROM_ROWS : FROM_TILE;
    if (g->s.bias_n == 0 || (g->s.bias_n == 1 && cols % VL == 0))
        return;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < NR; i++)
            room[r * NR + i] = i < cols ? t->from[r * g->s.bias_m + i * g->s.bias_n] : 0;
    t->from = room;
    t->from_ld = NR;
}

static void store_tile(const float *tile, int64_t rows, int64_t cols, float *c, int64_t c_m, int64_t c_n) {
    for (int64_t r = 0; r < rows; r++, tile += NR, c += c_m) {
        if (c_n == 1)
            copy_row(tile, cols, c);
        else
            for (int64_t i = 0; i < cols; i++)
                c[i * c_n] = tile[i];
    }
}

/* One tile of the last block of K: starts from t, ends in the output or in the hook. */
static int32_t finish_tile(const struct gemm *g, const struct block *o, int64_t row, int64_t rows,
                           int64_t col, int64_t cols, int64_t k, const float *a, const float *b, int64_t ldb,
                           struct tile *t) {
    float out[MR * NR] __attribute__((aligned(64)));
    const int64_t vectors = parts(cols, VL);
    const int64_t batch = o->batch0 * g->s.batch1 + o->batch1;
    float *c = g->hook ? NULL : g->c + o->batch0 * g->s.c_batch0 + o->batch1 * g->s.c_batch1;
    c = c ? c + row * g->s.c_m + col * g->s.c_n : NULL;
    const int direct = c && g->s.c_n == 1 && cols % VL == 0;
    t->relu = g->s.act == 1;
    t->to = direct ? c : out;
    t->to_ld = direct ? g->s.c_m : NR;
    run_tile(rows, vectors, k, a, b, ldb, t);
    if (g->hook)
        return g->hook(g->hook_buf, g->hook_arg, out, NR, batch, row, rows, col, cols);
    if (!direct)
        store_tile(out, rows, cols, c, g->s.c_m, g->s.c_n);
    return 0;
}

static int32_t run_block(const struct gemm *g, const struct block *o, float *scratch) {
    const int64_t m = g->s.m, n = g->s.n, k = g->s.k, tiles = parts(m, MR);
    const int64_t block_rows = smaller(tiles, BLOCK_TILES) * MR;
    const int64_t k_blocks = k > K_BLOCK ? parts(k, K_BLOCK) : 1;
    const float *a0 = g->a + o->batch0 * g->s.a_batch0 + o->batch1 * g->s.a_batch1;
    const float *b0 = g->b + o->batch0 * g->s.b_batch0 + o->batch1 * g->s.b_batch1;
    float *a_tiles = scratch;
    float *b_panel = a_tiles + block_rows * A_PITCH;
    float *sums = b_panel + (g->packed ? 0 : smaller(k, K_BLOCK) * NR);
    float room[MR * NR];
    int64_t row_of[BLOCK_TILES + 1]; /* where each tile of rows begins */
    const int64_t count = o->tile1 - o->tile0;
    for (int64_t i = 0; i <= count; i++)
        row_of[i] = cut(m, o->tile0 + i, tiles);
    for (int64_t kb = 0; kb < k_blocks; kb++) {
        const int64_t k0 = cut(k, kb, k_blocks), depth = cut(k, kb + 1, k_blocks) - k0;
        for (int64_t i = 0; i < count; i++)
            pack_a(a0 + row_of[i] * g->s.a_m + k0 * g->s.a_k, g->s.a_m, g->s.a_k, row_of[i + 1] - row_of[i],
                   depth, a_tiles + i * MR * A_PITCH);
        for (int64_t p = o->panel0; p < o->panel1; p++) {
            const int64_t col = p * NR, cols = smaller(n - col, NR);
            const float *b;
            int64_t ldb = NR;
            if (g->packed) {
                b = b0 + (p * k + k0) * NR;
            } else {
                b = b0 + k0 * g->s.b_k + col * g->s.b_n;
                if (g->s.b_n == 1 && cols % VL == 0 && count == 1) {
                    ldb = g->s.b_k; /* packing would cost as much as the product */
                } else {
                    pack_b(b, g->s.b_k, g->s.b_n, depth, cols, b_panel);
                    b = b_panel;
                }
            }
            for (int64_t i = 0; i < count; i++) {
                const int64_t row = row_of[i], rows = row_of[i + 1] - row;
                const float *a = a_tiles + i * MR * A_PITCH;
                float *sum = sums + ((p - o->panel0) * count + i) * MR * NR;
                struct tile t = {.from_kind = FROM_TILE, .from = sum, .from_ld = NR, .to = sum, .to_ld = NR};
                /* four tiles fetch the next packed panel, a quarter each */
                t.ahead = g->packed && i < 4 && p + 1 < o->panel1 ? b + k * NR + i * (depth / 2 * 16) : a;
                if (kb == 0)
                    start_from_bias(g, row, rows, col, cols, room, &t);
                if (kb < k_blocks - 1) {
                    run_tile(rows, parts(cols, VL), depth, a, b, ldb, &t);
                    continue;
                }
                const int32_t error = finish_tile(g, o, row, rows, col, cols, depth, a, b, ldb, &t);
                if (error)
                    return error;
            }
        }
    }
    return 0;
}

static int32_t run_units(const struct gemm *g, int64_t begin, int64_t end, float *scratch) {
    const int64_t tiles = parts(g->s.m, MR), panels = parts(g->s.n, NR);
    const int64_t m_blocks = parts(tiles, BLOCK_TILES), n_units = parts(panels, UNIT_PANELS);
    while (begin < end) {
        const int64_t n_unit = begin % n_units, outer = begin / n_units;
        const int64_t m_block = outer % m_blocks, batch = outer / m_blocks;
        const int64_t run = smaller(smaller(end - begin, n_units - n_unit), RUN_PANELS / UNIT_PANELS);
        const struct block o = {
            .batch0 = batch / g->s.batch1,
            .batch1 = batch % g->s.batch1,
            .tile0 = cut(tiles, m_block, m_blocks),
            .tile1 = cut(tiles, m_block + 1, m_blocks),
            .panel0 = n_unit * UNIT_PANELS,
            .panel1 = smaller(panels, (n_unit + run) * UNIT_PANELS),
        };
        const int32_t error = run_block(g, &o, scratch);
        if (error)
            return error;
        begin += run;
    }
    return 0;
}
"""

_ENTRY: Final = """
GW_EXPORT int32_t @SYMBOL@(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    struct gemm g = {
        .a = buf[0],
        .b = buf[1],
        .bias = buf[2],
        .c = buf[3],
        .hook_buf = buf + OPERANDS + 1,
        .hook_arg = arg + ARGS,
        .packed = @PACKED@,
    };
    memcpy(&g.s, arg, sizeof g.s);
    memcpy(&g.hook, &buf[OPERANDS], sizeof g.hook);
    return run_units(&g, begin, end, scratch);
}
"""

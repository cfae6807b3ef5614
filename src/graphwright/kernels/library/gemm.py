"""GEMM: C[b0, b1, M, N] = act(scale * A[b0, b1, M, K] @ B[b0, b1, K, N] + bias + residual), f32.

All operands may have any strides.

Symbols are alike but for B: :data:`PACKED` takes B in panels of :func:`panel_columns` columns, zero padded
(``pack.gemm_panels``, ``pack.gemm_layout``); :data:`UNPACKED` takes B with strides and packs one panel at a
time; :data:`CODES` takes it as codes of few bits (see :mod:`~graphwright.kernels.library.nbits`).

Two batch axes, since the heads of attention ([batch, sequence, head, feature] read as [batch, head, ...])
cannot be flattened to one stride. A stride of 0 broadcasts.

Loops: a unit of the grid is one block of rows and one or two panels of columns; neighbouring units of a
chunk are computed together, so that a block of A in the second-level cache serves all of them; it is read in
place where its rows are dense and vectors long, else packed. With no more rows than a tile has and a packed
B, what counts is to read B once at the speed of the memory: several panels are read side by side. Blocks of
K, tiles of rows and panels of columns depend on the sizes alone, so any chunking gives the same bits.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum, mod, symbol
from graphwright.kernels.library import gemv, nbits
from graphwright.kernels.library.extent import BITS, FLAG, SIGNED, Extent, Reach, Tiles, dense, within
from graphwright.kernels.library.tile import (
    HELPERS,
    K_RUN,
    TileShape,
    stream_cells,
    streams,
    tiles,
    tiles_in_place,
    transpose,
)
from graphwright.records import replace
from graphwright.targets.cpu.isa import Isa, args_struct, prelude

PACKED: Final = "gw_gemm_f32_packed"
UNPACKED: Final = "gw_gemm_f32"
CODES: Final = "gw_gemm_f32_codes"

OPERANDS: Final = ("a", "b", "bias", "residual", "c")
"""``bias`` and ``residual`` may be absent; ``c`` is ignored when there is a hook. The hook, or a null
pointer, comes next."""
CODES_OPERANDS: Final = ("a", "codes", "scales", "zeros", "bias", "residual", "c")
""":data:`CODES` has these instead; ``zeros`` may be absent."""

K_BLOCK: Final = 768
"""Longest block of K; longer ones are cut into blocks of equal length."""
_A_PITCH: Final = K_BLOCK + 16
"""Columns of A that a packed tile has room for: a store of a vector may reach behind the last."""
_FEW_ROWS: Final = 16
"""Rows up to which reading a packed B takes longer than the arithmetic."""
_STREAM_K_BLOCK: Final = 2048
"""Longest block of K where B is streamed: the few rows of A stay in the second-level cache."""
_STREAM_AHEAD: Final = 768
"""Elements that each stream of B is fetched ahead."""
_SHARED_BYTES: Final = 8192
"""Of each stream of B that several groups of rows read in turns: they stay in the first-level cache."""
_BLOCK_ROWS: Final = 144
"""Rows of A per unit: B is read (and packed, where it is not) once for so many rows."""
DOT_LENGTH: Final = 32
"""Elements of K from which dot products take less time than tiles: two vectors of the widest kind."""
_UNIT_PANELS: Final = 2
_RUN_PANELS: Final = 16
"""Panels computed together at most: what the sums between blocks of K have room for."""
_GROUP_PANELS: Final = 64
"""The same where there is one block of K: all blocks of rows take them before the next panels are read from
beyond the third-level cache."""


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
    r_batch0: Dim
    """Strides of the residual."""
    r_batch1: Dim
    r_m: Dim
    r_n: Dim
    act: Dim
    """0 none, 1 relu, 2 clip; NaN stays NaN."""
    lo: Dim
    """The bits of the f32 bounds of a clip (``bits.single_bits``)."""
    hi: Dim
    scale: Dim
    """The bits of an f32 factor of A @ B."""


class CodesArgs(NamedTuple):
    """What follows the args of :data:`CODES`, whose strides of B are 0."""

    bits: int
    block: int
    """Elements of K that share a scale: at least 16, and a power of two."""
    floats: int
    """Whether zero points are f32, not u8."""


def tile_shape(isa: Isa) -> TileShape:
    """9 x 3 vectors fill 27 of 32 registers, 6 x 2 fill 12 of 16."""
    if isa.vector_bytes == 64:
        return TileShape(rows=9, vectors=3, a_row=K_RUN, a_k=1, a_skip=8 * K_RUN)
    return TileShape(rows=6, vectors=2, a_row=K_RUN, a_k=1, a_skip=5 * K_RUN, unroll=4)


def panel_columns(isa: Isa) -> int:
    """Columns per panel of packed B (``nr``)."""
    return tile_shape(isa).columns(isa)


def is_narrow(n: Dim, k: Dim) -> bool:
    """Whether a constant B is better not packed but laid along K, so that cells are dot products."""
    return isinstance(n, int) and n <= gemv.NARROW and isinstance(k, int) and k >= DOT_LENGTH


def _group_rows(isa: Isa) -> int:
    """As many as a tile has."""
    return tile_shape(isa).rows


def grid(isa: Isa, args: GemmArgs) -> Dim:
    """Units of work: blocks of rows times pairs of panels, in each batch."""
    columns = _UNIT_PANELS * panel_columns(isa)
    blocks = ceildiv(args.m, _BLOCK_ROWS)
    return args.batch0 * args.batch1 * blocks * ceildiv(args.n, columns)


def scratch_bytes(isa: Isa, args: GemmArgs, *, packed: bool) -> Dim:
    """Packed A, then one panel of B, then the sums between blocks of K."""
    shape, width = tile_shape(isa), panel_columns(isa)
    rows = minimum(ceildiv(args.m, shape.rows) * shape.rows, _BLOCK_ROWS)
    panels = minimum(ceildiv(args.n, width), _RUN_PANELS)
    panel = 0 if packed else minimum(args.k, K_BLOCK) * width
    sums = minimum(maximum(args.k - K_BLOCK, 0), 1) * rows * panels * width
    return 4 * (rows * _A_PITCH + panel + sums)


def codes_scratch_bytes(isa: Isa, args: GemmArgs, codes: CodesArgs) -> Dim:
    """As without panels; few rows need the sums of A over blocks."""
    sums = 4 * nbits.stream_rows(isa) * ceildiv(args.k, codes.block)
    return maximum(scratch_bytes(isa, args, packed=False), sums)


def codes_work_ns(isa: Isa, args: GemmArgs, codes: CodesArgs) -> Dim:
    """As :func:`work_ns`, with codes to read, and each to be decoded for every block of rows."""
    speed = 125 if isa.vector_bytes == 64 else 70
    elements = args.k * args.n
    return maximum(ceildiv(2 * args.m * elements, speed), ceildiv(elements * codes.bits, 80))


def work_ns(isa: Isa, args: GemmArgs) -> Dim:
    """Time on one core: bound by FMAs (135 or 75 GFLOP/s) or by reading B (10 GB/s)."""
    speed = 135 if isa.vector_bytes == 64 else 75
    elements = args.batch0 * args.batch1 * args.k * args.n
    return maximum(ceildiv(2 * args.m * elements, speed), ceildiv(4 * elements, 10))


def extents(isa: Isa) -> tuple[Extent, ...]:
    """How far the three kernels reach."""
    a = GemmArgs(*map(symbol, GemmArgs._fields))
    batch, width = ((a.batch0, a.b_batch0), (a.batch1, a.b_batch1)), panel_columns(isa)
    panels = Reach(4, (*batch, (ceildiv(a.n, width) * width * a.k, 1)))
    plain = Reach(4, (*batch, (a.k, a.b_k), (a.n, a.b_n)))
    return (
        _extent(isa, PACKED, (panels,), scratch_bytes(isa, a, packed=True)),
        _extent(isa, UNPACKED, (plain,), scratch_bytes(isa, a, packed=False)),
        _codes_extent(isa),
    )


def _extent(isa: Isa, name: str, b: tuple[Reach, ...], scratch: Dim) -> Extent:
    """Of a kernel that takes ``b`` in whatever form."""
    a = GemmArgs(*map(symbol, GemmArgs._fields))
    matrix = ((a.batch0, a.a_batch0), (a.batch1, a.a_batch1), (a.m, a.a_m), (a.k, a.a_k))
    residual = ((a.batch0, a.r_batch0), (a.batch1, a.r_batch1), (a.m, a.r_m), (a.n, a.r_n))
    result = ((a.batch0, a.c_batch0), (a.batch1, a.c_batch1), (a.m, a.c_m), (a.n, a.c_n))
    return Extent(
        name,
        GemmArgs._fields,
        (
            Reach(4, matrix),
            *b,
            Reach(4, ((a.m, a.bias_m), (a.n, a.bias_n)), optional=True),
            Reach(4, residual, optional=True),
            Reach(4, result, unhooked=True),
        ),
        grid=grid(isa, a),
        scratch=scratch,
        bounds=within(SIGNED, *GemmArgs._fields[5:23]) | within(BITS, "lo", "hi", "scale"),
        tiles=Tiles(a.batch0 * a.batch1, a.m, a.n),
    )


def _codes_extent(isa: Isa) -> Extent:
    """Of :data:`CODES`: blocks are whole words of codes."""
    a = GemmArgs(*map(symbol, GemmArgs._fields))
    bits, block, floats = map(symbol, CodesArgs._fields)
    columns, blocks = ceildiv(a.n, panel_columns(isa)) * panel_columns(isa), ceildiv(a.k, block)
    words = dense(4, columns, blocks, floordiv(block * bits, nbits.WORD))
    zeros = dense(1 + 3 * floats, columns, blocks, optional=True)
    sums = 4 * nbits.stream_rows(isa) * blocks
    scratch = maximum(scratch_bytes(isa, a, packed=False), sums)
    made = _extent(isa, CODES, (words, dense(4, columns, blocks), zeros), scratch)
    return replace(
        made,
        args=(*made.args, *CodesArgs._fields),
        bounds={**(made.bounds or {}), "block": (nbits.WORD // min(nbits.WIDTHS), 1 << 31), "floats": FLAG},
        choices={"bits": nbits.WIDTHS},
        multiples=(mod(block, nbits.WORD // min(nbits.WIDTHS)),),
    )


def source(isa: Isa) -> str:
    """One C11 file with both symbols."""
    shape = tile_shape(isa)
    constants = f"""
#define MR {shape.rows} /* rows of a tile */
#define NR {shape.columns(isa)} /* columns of a tile, and of a panel of B */
#define K_BLOCK {K_BLOCK}
#define UNROLL {shape.unroll}
#define STREAM_AHEAD {_STREAM_AHEAD}
#define FEW_ROWS {_FEW_ROWS}
#define GROUP_ROWS {_group_rows(isa)} /* of few rows, those that are computed together */
#define STREAM_K_BLOCK {_STREAM_K_BLOCK}
#define SHARED_K_BLOCK {_SHARED_BYTES // (4 * shape.columns(isa))}
#define A_PITCH {_A_PITCH}
#define BLOCK_TILES {_BLOCK_ROWS // shape.rows} /* tiles of rows of a unit */
#define UNIT_PANELS {_UNIT_PANELS}
#define RUN_PANELS {_RUN_PANELS}
#define GROUP_PANELS {_GROUP_PANELS}
#define K_RUN {K_RUN}
#define SET_PERIOD 1024 /* elements after which addresses meet in a set of the first-level cache */
#define SET_APART 4 /* elements beyond that which put the rows of a tile in several sets */
#define STREAM_CELLS {stream_cells(shape, isa)} /* the most that a tile of few rows has */
#define ARGS {len(GemmArgs._fields)}
#define OPERANDS {len(OPERANDS)}
#define CODES_ARGS {len(CodesArgs._fields)}
#define CODES_OPERANDS {len(CODES_OPERANDS)}
#define CODES_ROWS {nbits.stream_rows(isa)} /* as many are computed without decoding B to memory */
"""
    fields = args_struct(GemmArgs._fields) + args_struct(CodesArgs._fields, "codes_args")
    entries = "".join(
        _ENTRY.replace("@SYMBOL@", symbol).replace("@PACKED@", str(int(packed)))
        for symbol, packed in ((UNPACKED, False), (PACKED, True))
    )
    text = [
        prelude(isa),
        constants,
        fields,
        HELPERS,
        tiles(shape, isa),
        tiles_in_place(shape, isa),
        streams(shape, isa),
        transpose(isa),
        nbits.source_text(isa, shape),
    ]
    body = _BODY.replace("@LINES@", gemv.c_text())
    return "\n".join([*text, body, entries, _CODES_ENTRY.replace("@SYMBOL@", CODES)])


_BODY: Final = """
struct gemm {
    struct args s;
    const float *a, *b, *bias, *residual;
    float *c;
    gw_hook hook;
    void *const *hook_buf;
    const int64_t *hook_arg;
    float scale, clip[2];
    int packed; /* B lies in panels already */
    const struct codes *codes; /* or as codes of few bits */
};

/* A block of the output: rows of tiles [tile0, tile1) and panels [panel0, panel1) of one batch. */
struct block {
    int64_t batch0, batch1, tile0, tile1, panel0, panel1;
};

/* A tile of dense rows, all read side by side; all lanes of a row's last vector are written. */
static void pack_rows(const float *a, int64_t a_m, int64_t rows, int64_t k, float scale, float *to) {
    const vf factor = vf_set1(scale);
    for (; k >= K_RUN; k -= K_RUN, a += K_RUN, to += MR * K_RUN)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = 0; i < K_RUN; i += VL)
                vf_store(to + r * K_RUN + i, factor * vf_load(a + r * a_m + i));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < k; i += VL)
            vf_store(to + r * K_RUN + i, factor * vf_load_n(a + r * a_m + i, smaller(k - i, VL)));
}

/* A tile to[j / K_RUN][r][j % K_RUN] = scale * a[r][j]. */
static void pack_a(const float *a, int64_t a_m, int64_t a_k, int64_t rows, int64_t k, float scale,
                   float *to) {
    if (a_k == 1) {
        pack_rows(a, a_m, rows, k, scale, to);
        return;
    }
    for (int64_t j = 0; j < k; j += K_RUN, to += MR * K_RUN) {
        const int64_t run = smaller(K_RUN, k - j);
        const float *from = a + j * a_k;
        if (a_m == 1)
            for (int64_t i = 0; i < run; i += VL)
                transpose(from + i * a_k, a_k, smaller(VL, run - i), rows, to + i, K_RUN);
        else
            for (int64_t r = 0; r < rows; r++)
                for (int64_t i = 0; i < run; i++)
                    to[r * K_RUN + i] = from[r * a_m + i * a_k];
        for (int64_t i = 0; scale != 1 && i < rows * K_RUN; i += VL)
            vf_store(to + i, vf_load(to + i) * vf_set1(scale));
    }
}

/* As many as there are of n elements, zeros after them. */
GW_INLINE vf load_most(const float *p, int64_t n) { return n < VL ? vf_load_n(p, n) : vf_load(p); }

/* One panel to[k][NR] of the first cols columns of b, zeros after them to the end of a vector. */
static void pack_b(const float *b, int64_t b_k, int64_t b_n, int64_t k, int64_t cols, float *to) {
    if (b_n == 1) {
        for (int64_t j = 0; j < k; j++)
            for (int64_t v = 0; v < cols; v += VL)
                vf_store(to + j * NR + v, load_most(b + j * b_k + v, cols - v));
        return;
    }
    if (b_k == 1) {
        for (int64_t v = 0; v < cols; v += VL)
            for (int64_t j = 0; j < k; j += VL)
                transpose(b + v * b_n + j, b_n, smaller(VL, cols - v), smaller(VL, k - j), to + j * NR + v,
                          NR);
        return;
    }
    for (int64_t j = 0; j < k; j++)
        for (int64_t i = 0; i < NR; i++)
            to[j * NR + i] = i < cols ? b[j * b_k + i * b_n] : 0;
}

/* to[r][i] += from[r * ld + i * step], of tiles with rows pitch apart. */
static void add_rows(const float *from, int64_t ld, int64_t step, int64_t rows, int64_t cols, float *to,
                     int64_t pitch) {
    for (int64_t r = 0; r < rows; r++, from += ld, to += pitch) {
        int64_t i = 0;
        for (; step == 1 && i + VL <= cols; i += VL)
            vf_store(to + i, vf_load(to + i) + vf_load(from + i));
        for (; i < cols; i++)
            to[i] += from[i * step];
    }
}

/* Bias and residual as the start of a tile; what a tile cannot read as it lies goes through room. whole: the
   tile's vectors end at cols. */
static void start_tile(const struct gemm *g, const struct block *o, int64_t row, int64_t rows, int64_t col,
                       int64_t cols, int whole, float *room, int64_t pitch, struct tile *t) {
    const float *bias = g->bias ? g->bias + row * g->s.bias_m + col * g->s.bias_n : NULL;
    const float *residual = g->residual;
    t->from_kind = bias || residual ? FROM_TILE : FROM_ZERO;
    if (residual)
        residual += o->batch0 * g->s.r_batch0 + o->batch1 * g->s.r_batch1 + row * g->s.r_m + col * g->s.r_n;
    if (!residual && (!bias || g->s.bias_n == 0)) {
        t->from_kind = bias ? FROM_ROWS : FROM_ZERO;
        t->from = bias;
        t->from_ld = g->s.bias_m;
    } else if (!residual && whole && g->s.bias_n == 1) {
        t->from = bias;
        t->from_ld = g->s.bias_m;
    } else if (!bias && whole && g->s.r_n == 1) {
        t->from = residual;
        t->from_ld = g->s.r_m;
    } else {
        memset(room, 0, (size_t)(rows * pitch) * sizeof *room);
        if (bias)
            add_rows(bias, g->s.bias_m, g->s.bias_n, rows, cols, room, pitch);
        if (residual)
            add_rows(residual, g->s.r_m, g->s.r_n, rows, cols, room, pitch);
        t->from = room;
        t->from_ld = pitch;
    }
}

static void store_tile(const float *tile, int64_t pitch, int64_t rows, int64_t cols, float *c, int64_t c_m,
                       int64_t c_n) {
    for (int64_t r = 0; r < rows; r++, tile += pitch, c += c_m) {
        if (c_n == 1)
            copy_row(tile, cols, c);
        else
            for (int64_t i = 0; i < cols; i++)
                c[i * c_n] = tile[i];
    }
}

/* Where the last block of K leaves a tile: in the output itself, or in out. */
static void aim_tile(const struct gemm *g, const struct block *o, int64_t row, int64_t col, int whole,
                     float *out, int64_t pitch, struct tile *t) {
    t->relu = g->s.act == 1;
    t->clip = g->s.act == 2 ? g->clip : NULL;
    t->to = out;
    t->to_ld = pitch;
    if (g->hook || g->s.c_n != 1 || !whole)
        return;
    t->to = g->c + o->batch0 * g->s.c_batch0 + o->batch1 * g->s.c_batch1 + row * g->s.c_m + col;
    t->to_ld = g->s.c_m;
}

/* Takes a tile that is not in the output yet to the hook or there. */
static int32_t deliver_tile(const struct gemm *g, const struct block *o, int64_t row, int64_t rows,
                            int64_t col, int64_t cols, float *out, int64_t pitch, const struct tile *t) {
    if (g->hook)
        return g->hook(g->hook_buf, g->hook_arg, out, pitch, o->batch0 * g->s.batch1 + o->batch1, row, rows,
                       col, cols);
    if (t->to == out)
        store_tile(out, pitch, rows, cols,
                   g->c + o->batch0 * g->s.c_batch0 + o->batch1 * g->s.c_batch1 + row * g->s.c_m +
                       col * g->s.c_n,
                   g->s.c_m, g->s.c_n);
    return 0;
}

/* Where panel p begins: every NR columns; where B does not lie in panels, so that they are nearly alike. */
static int64_t column(const struct gemm *g, int64_t p) {
    if (g->packed || g->codes)
        return smaller(p * NR, g->s.n);
    return smaller(cut(parts(g->s.n, VL), p, parts(g->s.n, NR)) * VL, g->s.n);
}

/* Rows of A are read as they lie, unless they need a factor or meet in one set of the first-level cache. A
   tile of short vectors is bound by its instructions: reading in place takes more than packing saves. */
static int reads_in_place(const struct gemm *g) {
    const int64_t past = g->s.a_m & (SET_PERIOD - 1);
    return VL == 16 && g->s.a_k == 1 && g->scale == 1 && past >= SET_APART && past <= SET_PERIOD - SET_APART;
}

/* Fetches the rows of A that come next: of each, a cache line per run of k. */
static void fetch_a(const struct gemm *g, const float *a, struct tile *t) {
    if (g->s.a_k != 1)
        return;
    t->ahead = a;
    t->ahead_step = g->s.a_m;
    t->ahead_skip = K_RUN - K_RUN / 2 * g->s.a_m;
}

/* Tile i of count fetches its part of the next panel of B. */
static void fetch_b(const struct gemm *g, const float *next, int64_t i, int64_t count, int64_t depth,
                    struct tile *t) {
    const int64_t lines = K_RUN / 2 + 1; /* per run */
    if (g->packed) {
        t->ahead = next + quotient(depth * NR * i, count);
        t->ahead_step = t->ahead_skip = parts(K_RUN * NR, lines * count);
        return;
    }
    const int64_t k = i / (NR / 16) * (depth / K_RUN * lines); /* part of a column of cache lines */
    if (g->s.b_n != 1 || k >= depth)
        return;
    t->ahead = next + k * g->s.b_k + i % (NR / 16) * 16;
    t->ahead_step = t->ahead_skip = g->s.b_k;
}

static int32_t run_block(const struct gemm *g, const struct block *o, float *scratch) {
    const int64_t m = g->s.m, k = g->s.k, tiles = parts(m, MR);
    const int64_t block_rows = smaller(tiles, BLOCK_TILES) * MR;
    const int64_t k_blocks = k > K_BLOCK ? parts(k, K_BLOCK) : 1;
    const float *a0 = g->a + o->batch0 * g->s.a_batch0 + o->batch1 * g->s.a_batch1;
    const float *b0 = g->b + o->batch0 * g->s.b_batch0 + o->batch1 * g->s.b_batch1;
    float *a_tiles = scratch;
    float *b_panel = a_tiles + block_rows * A_PITCH;
    float *sums = b_panel + (g->packed ? 0 : smaller(k, K_BLOCK) * NR);
    float room[MR * NR] __attribute__((aligned(64))), out[MR * NR] __attribute__((aligned(64)));
    int64_t row_of[BLOCK_TILES + 1]; /* where each tile of rows begins */
    const int64_t count = o->tile1 - o->tile0;
    const int in_place = reads_in_place(g);
    for (int64_t i = 0; i <= count; i++)
        row_of[i] = cut(m, o->tile0 + i, tiles);
    for (int64_t kb = 0; kb < k_blocks; kb++) {
        const int64_t k0 = cut(k, kb, k_blocks), depth = cut(k, kb + 1, k_blocks) - k0;
        for (int64_t p = o->panel0; p < o->panel1; p++) {
            const int64_t col = column(g, p), cols = column(g, p + 1) - col;
            const int whole = cols % VL == 0;
            const float *b, *next; /* what follows this panel */
            int64_t ldb = NR;
            if (g->packed) {
                b = b0 + (p * k + k0) * NR;
                next = p + 1 < o->panel1 ? b + k * NR : b0 + (o->panel0 * k + k0 + depth) * NR;
            } else if (g->codes) {
                unpack_codes[g->codes->width](g->codes, p, k0, depth, b_panel);
                b = next = b_panel;
            } else {
                b = b0 + k0 * g->s.b_k + col * g->s.b_n;
                next = b + cols * g->s.b_n;
                if (g->s.b_n == 1 && whole && count == 1) {
                    ldb = g->s.b_k; /* packing would cost as much as the product */
                } else {
                    pack_b(b, g->s.b_k, g->s.b_n, depth, cols, b_panel);
                    b = b_panel;
                }
            }
            for (int64_t i = 0; i < count; i++) {
                const int64_t row = row_of[i], rows = row_of[i + 1] - row;
                const float *a_row = a0 + row * g->s.a_m + k0 * g->s.a_k;
                float *a = a_tiles + i * MR * A_PITCH;
                if (p == o->panel0 && !in_place) /* right before its first use */
                    pack_a(a_row, g->s.a_m, g->s.a_k, rows, depth, g->scale, a);
                float *sum = sums + ((p - o->panel0) * count + i) * MR * NR;
                struct tile t = {.from_kind = FROM_TILE, .from = sum, .from_ld = NR, .to = sum, .to_ld = NR};
                if (p == o->panel0 && i + 1 < count)
                    fetch_a(g, a_row + rows * g->s.a_m, &t);
                else
                    fetch_b(g, next, i, count, depth, &t);
                if (kb == 0)
                    start_tile(g, o, row, rows, col, cols, whole, room, NR, &t);
                if (kb == k_blocks - 1)
                    aim_tile(g, o, row, col, whole, out, NR, &t);
                if (in_place)
                    run_tile_in_place(rows, parts(cols, VL), depth, a_row, g->s.a_m, b, ldb, &t);
                else
                    run_tile(rows, parts(cols, VL), depth, a, b, ldb, &t);
                if (kb < k_blocks - 1)
                    continue;
                const int32_t error = deliver_tile(g, o, row, rows, col, cols, out, NR, &t);
                if (error)
                    return error;
            }
        }
    }
    return 0;
}

/* A block of few rows: packed B is read once, several panels side by side, for all groups of rows. The sums
   between blocks of K lie where A would be packed. */
static int32_t run_few_rows(const struct gemm *g, const struct block *o, float *sums) {
    const int64_t m = g->s.m, k = g->s.k, groups = parts(m, GROUP_ROWS);
    const int64_t k_block = groups > 1 ? SHARED_K_BLOCK : STREAM_K_BLOCK;
    const int64_t k_blocks = k > k_block ? parts(k, k_block) : 1, width = stream_panels[parts(m, groups) - 1];
    const float *a = g->a + o->batch0 * g->s.a_batch0 + o->batch1 * g->s.a_batch1;
    const float *b = g->b + o->batch0 * g->s.b_batch0 + o->batch1 * g->s.b_batch1;
    float room[STREAM_CELLS] __attribute__((aligned(64))), out[STREAM_CELLS] __attribute__((aligned(64)));
    for (int64_t p = o->panel0, now; p < o->panel1; p += now) {
        now = o->panel1 - p < width ? 1 : width;
        const int64_t pitch = now * NR, col = p * NR, cols = smaller(g->s.n - col, pitch);
        for (int64_t kb = 0; kb < k_blocks; kb++) {
            const int64_t k0 = cut(k, kb, k_blocks), depth = cut(k, kb + 1, k_blocks) - k0;
            const float *b_at = b + (p * k + k0) * NR;
            for (int64_t i = 0; i < groups; i++) { /* each fetches its part of what comes next */
                const int64_t row = cut(m, i, groups), rows = cut(m, i + 1, groups) - row;
                float *sum = sums + row * pitch;
                struct tile t = {.from_kind = FROM_TILE, .from = sum, .to = sum, .from_ld = pitch};
                t.to_ld = pitch;
                const float *next = kb + 1 < k_blocks ? b_at + depth * NR : b + (p + now) * k * NR;
                t.ahead = groups > 1 ? next + depth * NR / groups * i : b_at + STREAM_AHEAD;
                t.ahead_lines = parts(UNROLL * NR / 16, groups);
                if (kb == 0)
                    start_tile(g, o, row, rows, col, cols, cols == pitch, room, pitch, &t);
                if (kb == k_blocks - 1)
                    aim_tile(g, o, row, col, cols == pitch, out, pitch, &t);
                stream_of[rows - 1][now > 1](depth, a + row * g->s.a_m + k0, g->s.a_m, b_at, k * NR, &t);
                if (kb < k_blocks - 1)
                    continue;
                const int32_t error = deliver_tile(g, o, row, rows, col, cols, out, pitch, &t);
                if (error)
                    return error;
            }
        }
    }
    return 0;
}

/* Few rows: codes are decoded in registers. */
static int32_t run_few_rows_of_codes(const struct gemm *g, const struct block *o, float *sums) {
    const struct codes *q = g->codes;
    const int64_t m = g->s.m, k = g->s.k;
    float room[CODES_ROWS * NR] __attribute__((aligned(64)));
    float out[CODES_ROWS * NR] __attribute__((aligned(64)));
    for (int64_t i = 0; q->zeros && i < m * q->blocks; i++) {
        const int64_t row = i / q->blocks, k0 = i % q->blocks * q->block, k1 = smaller(k, k0 + q->block);
        vf total = {0};
        for (int64_t j = k0; j < k1; j += VL)
            total += load_most(g->a + row * g->s.a_m + j, k1 - j);
        sums[i] = vf_sum(total);
    }
    for (int64_t p = o->panel0; p < o->panel1; p++) {
        const int64_t col = p * NR, cols = smaller(g->s.n - col, NR);
        struct tile t = {.from_kind = FROM_ZERO};
        start_tile(g, o, 0, m, col, cols, cols == NR, room, NR, &t);
        aim_tile(g, o, 0, col, cols == NR, out, NR, &t);
        stream_codes[q->width][m - 1](q, p, k, g->a, g->s.a_m, sums, &t);
        const int32_t error = deliver_tile(g, o, 0, m, col, cols, out, NR, &t);
        if (error)
            return error;
    }
    return 0;
}

@LINES@
static int32_t run_units(const struct gemm *g, int64_t begin, int64_t end, float *scratch) {
    const int64_t tiles = parts(g->s.m, MR), panels = parts(g->s.n, NR);
    const int64_t m_blocks = parts(tiles, BLOCK_TILES), n_units = parts(panels, UNIT_PANELS);
    const int few = g->packed && g->s.m <= FEW_ROWS && g->s.a_k == 1 && g->scale == 1;
    const int few_of_codes = g->codes && g->s.m <= CODES_ROWS && g->s.a_k == 1 && g->scale == 1;
    const int64_t most = (g->s.k > K_BLOCK ? RUN_PANELS : GROUP_PANELS) / UNIT_PANELS;
    const int line = is_line(g), is_flat = !line && is_short(g);
    const int64_t group = few || few_of_codes || line ? n_units : most;
    while (begin < end) {
        const int64_t batch = begin / (m_blocks * n_units), outer = begin % (m_blocks * n_units);
        const int64_t first = outer / (m_blocks * group) * group, width = smaller(n_units - first, group);
        const int64_t inner = outer - first * m_blocks;
        const int64_t m_block = inner / width, n_unit = first + inner % width;
        const int64_t run = smaller(end - begin, first + width - n_unit);
        const struct block o = {
            .batch0 = batch / g->s.batch1,
            .batch1 = batch % g->s.batch1,
            .tile0 = cut(tiles, m_block, m_blocks),
            .tile1 = cut(tiles, m_block + 1, m_blocks),
            .panel0 = n_unit * UNIT_PANELS,
            .panel1 = smaller(panels, (n_unit + run) * UNIT_PANELS),
        };
        const int32_t error = line           ? run_line(g, &o)
                              : is_flat      ? run_short(g, &o)
                              : few          ? run_few_rows(g, &o, scratch)
                              : few_of_codes ? run_few_rows_of_codes(g, &o, scratch)
                                             : run_block(g, &o, scratch);
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
        .residual = buf[3],
        .c = buf[4],
        .hook_buf = buf + OPERANDS + 1,
        .hook_arg = arg + ARGS,
        .packed = @PACKED@,
    };
    memcpy(&g.s, arg, sizeof g.s);
    memcpy(&g.hook, &buf[OPERANDS], sizeof g.hook);
    memcpy(&g.scale, &g.s.scale, sizeof g.scale);
    memcpy(&g.clip[0], &g.s.lo, sizeof g.clip[0]);
    memcpy(&g.clip[1], &g.s.hi, sizeof g.clip[1]);
    return run_units(&g, begin, end, scratch);
}
"""

_CODES_ENTRY: Final = """
GW_EXPORT int32_t @SYMBOL@(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    struct codes_args own;
    memcpy(&own, arg + ARGS, sizeof own);
    struct gemm g = {
        .a = buf[0],
        .b = buf[2],
        .bias = buf[4],
        .residual = buf[5],
        .c = buf[6],
        .hook_buf = buf + CODES_OPERANDS + 1,
        .hook_arg = arg + ARGS + CODES_ARGS,
    };
    memcpy(&g.s, arg, sizeof g.s);
    memcpy(&g.hook, &buf[CODES_OPERANDS], sizeof g.hook);
    memcpy(&g.scale, &g.s.scale, sizeof g.scale);
    memcpy(&g.clip[0], &g.s.lo, sizeof g.clip[0]);
    memcpy(&g.clip[1], &g.s.hi, sizeof g.clip[1]);
    const int64_t blocks = parts(g.s.k, own.block);
    const struct codes codes = {
        .words = buf[1],
        .scales = buf[2],
        .zeros = buf[3],
        .width = own.bits == 2 ? 0 : own.bits == 4 ? 1 : 2,
        .block = own.block,
        .blocks = blocks,
        .panel_words = blocks * (own.block * own.bits / 32),
        .floats = own.floats,
    };
    g.codes = &codes;
    return run_units(&g, begin, end, scratch);
}
"""

/* GEMM of bytes (int8 and uint8): see byte_gemm.py. */

#include "library/hook.h"
#include "library/sizes.h"

#include "gemm/byte_gemm.gen.h"

#include "gemm/block.h"

#include "library/run_byte_tile.h"

struct gemm {
    struct byte_gemm_args s;
    const uint8_t *a, *b, *a_zero, *b_zero;
    int32_t *c;
    struct hook hook;
    enum byte_unit unit;
};

/* The rows that are packed together. */
static int64_t tile_rows(const struct gemm *g) { return g->unit == WITH_AMX ? MOST_TILE_ROWS : TILE_ROWS; }

/* Packs a tile: to[j / RUN][r][j % RUN] = a[r][j] ^ flip, padded with zeros; `step` bytes are between runs.
 */
static void pack_rows(const uint8_t *a, int64_t a_m, int64_t rows, int64_t k, uint8_t flip, int64_t step,
                      uint8_t *to) {
    const vi flips = vi_set1((int32_t)(0x01010101u * flip));
    for (int64_t r = 0; r < rows; r++, a += a_m, to += RUN) {
        int64_t j = 0;
        for (; j + RUN <= k; j += RUN)
            for (int64_t i = 0; i < RUN; i += (int64_t)sizeof(vi))
                vi_store((int32_t *)(void *)(to + j / RUN * step + i), quads_at(a + j + i) ^ flips);
        if (j < k) {
            uint8_t last[RUN];
            memset(last, flip, sizeof last);
            memcpy(last, a + j, (size_t)(k - j));
            for (int64_t i = 0; i < RUN; i += (int64_t)sizeof(vi))
                vi_store((int32_t *)(void *)(to + j / RUN * step + i), quads_at(last + i) ^ flips);
        }
    }
}

/* Sums of the rows of a packed tile. */
static void sum_rows(const uint8_t *tile, int64_t rows, int64_t k, int64_t step, int32_t *sums) {
    for (int64_t r = 0; r < rows; r++, tile += RUN) {
        vq total = {0}; /* sums wrap */
        for (int64_t j = 0; j < k; j += RUN)
            for (int64_t i = 0; i < RUN; i += (int64_t)sizeof(vi))
                total += (vq)quad_sums(quads_at(tile + j / RUN * step + i));
        sums[r] = (int32_t)lanes_sum((vi)total);
    }
}

/* The operands of a batch. */
struct batch {
    const uint8_t *a, *b, *a_zero, *b_zero;
    int32_t *c;
};

static struct batch batch_of(const struct gemm *g, const struct block *o) {
    const struct byte_gemm_args *s = &g->s;
    struct batch p = {
        .a = g->a + o->batch0 * s->a_batch0 + o->batch1 * s->a_batch1,
        .b = g->b + o->batch0 * s->b_batch0 + o->batch1 * s->b_batch1,
        .a_zero = g->a_zero,
        .b_zero = g->b_zero,
    };
    p.a_zero += p.a_zero ? o->batch0 * s->za_batch0 + o->batch1 * s->za_batch1 : 0;
    p.b_zero += p.b_zero ? o->batch0 * s->zb_batch0 + o->batch1 * s->zb_batch1 : 0;
    p.c = g->hook.call ? NULL : g->c + o->batch0 * s->c_batch0 + o->batch1 * s->c_batch1;
    return p;
}

static int32_t zero_of_row(const struct byte_gemm_args *s, const struct batch *p, int64_t row) {
    return zero_at(p->a_zero, row * s->za_m, s->a_signed, s->a_signed ? 128 : 0);
}

static int32_t zero_of_column(const struct byte_gemm_args *s, const struct batch *p, int64_t col) {
    return zero_at(p->b_zero, col * s->zb_n, s->b_signed, s->b_signed ? 0 : -128);
}

/* Whether columns can have non-zero zero points. */
static int shifts(const struct byte_gemm_args *s, const struct batch *p) { return p->b_zero || !s->b_signed; }

/* Per panel: the start values of its tiles, the sums of its columns, and its zero points unless all are 0. */
struct columns {
    int32_t start[NR], sums[NR], zeros[NR];
    int shifted;
};

static void read_columns(const struct byte_gemm_args *s, const struct batch *p, const uint8_t *panel,
                         int64_t col, int64_t cols, struct columns *to) {
    const vq zero = (vq)vi_set1(s->za_m == 0 ? zero_of_row(s, p, 0) : 0);
    memcpy(to->sums, panel, sizeof to->sums);
    for (int64_t v = 0; v < NR; v += VL)
        vi_store(to->start + v, (vi)((vq){0} - zero * (vq)vi_load(to->sums + v)));
    to->shifted = 0;
    for (int64_t i = 0; shifts(s, p) && i < NR; i++) {
        to->zeros[i] = i < cols ? zero_of_column(s, p, col + i) : 0;
        to->shifted |= to->zeros[i] != 0;
    }
}

/* Subtracts the contribution of the zero points of rows (unless all rows share one) and of columns from a
 * tile. row_sums: sums of the rows of A. */
static void shift_tile(const struct byte_gemm_args *s, const struct batch *p, const struct columns *columns,
                       struct area at, const int32_t *row_sums, const struct byte_tile *t) {
    const int64_t vectors = ceildiv(at.cols, VL);
    int32_t zeros[MOST_TILE_ROWS], sums[MOST_TILE_ROWS];
    for (int64_t r = 0; r < at.rows; r++)
        zeros[r] = zero_of_row(s, p, at.row + r);
    if (s->za_m)
        subtract_products(t->to, t->to_ld, at.rows, vectors, zeros, columns->sums);
    if (!columns->shifted)
        return;
    for (int64_t r = 0; r < at.rows; r++)
        sums[r] = (int32_t)((uint32_t)row_sums[r] - (uint32_t)s->k * (uint32_t)zeros[r]);
    subtract_products(t->to, t->to_ld, at.rows, vectors, sums, columns->zeros);
}

/* Stores the first cols columns of the rows of a tile. */
static void store_tile(const int32_t *tile, int64_t rows, int64_t cols, int32_t *to, int64_t to_ld) {
    for (int64_t r = 0; r < rows; r++)
        memcpy(to + r * to_ld, tile + r * NR, (size_t)cols * sizeof *to);
}

/* Passes a finished tile to the hook, or stores it if it is not in the output yet. */
static int32_t deliver_tile(const struct gemm *g, const struct block *o, const struct batch *p,
                            struct area at, int32_t *out, const struct byte_tile *t) {
    if (g->hook.call)
        return call_hook(&g->hook, out, NR, o->batch0 * g->s.batch1 + o->batch1, at);
    if (t->to == out)
        store_tile(out, at.rows, at.cols, p->c + at.row * g->s.c_m + at.col, g->s.c_m);
    return 0;
}

/* The rows of A that a block computes, packed: `count` tiles, the first row of each and the one after the
 * last, and the sums of their rows. */
struct packed_rows {
    int64_t count, height, step, tile_bytes;
    int64_t row_of[MOST_TILES + 1];
    uint8_t *tiles;
    int32_t *sums;
};

static void pack_block(const struct gemm *g, const struct block *o, const struct batch *p, uint8_t *scratch,
                       int64_t most_tiles, struct packed_rows *to) {
    const struct byte_gemm_args *s = &g->s;
    to->height = tile_rows(g);
    to->step = to->height * RUN;
    to->tile_bytes = ceildiv(s->k, RUN) * to->step;
    to->tiles = scratch;
    const int64_t most_rows = smaller(s->m, most_tiles * TILE_ROWS);
    to->sums = (int32_t *)(void *)(scratch + ceildiv(most_rows, to->height) * to->tile_bytes);
    to->count = cut_rows(o, s->m, TILE_ROWS, to->height, to->row_of);
    for (int64_t i = 0; i < to->count; i++) {
        const int64_t row = to->row_of[i], rows = to->row_of[i + 1] - row;
        uint8_t *tile = to->tiles + i * to->tile_bytes;
        pack_rows(p->a + row * s->a_m, s->a_m, rows, s->k, s->a_signed ? 0x80 : 0, to->step, tile);
        if (shifts(s, p))
            sum_rows(tile, rows, s->k, to->step, to->sums + i * to->height);
    }
}

/* Computes the tiles of a panel of B. They prefetch the next panel if `fetches`. */
static int32_t run_panel(const struct gemm *g, const struct block *o, const struct batch *p,
                         const struct packed_rows *a, int64_t panel, int fetches) {
    const struct byte_gemm_args *s = &g->s;
    const int64_t quads = ceildiv(s->k, 4), panel_bytes = (1 + quads) * PANEL_ROW;
    const int64_t col = panel * NR, cols = smaller(s->n - col, NR), vectors = ceildiv(cols, VL);
    const int64_t lines = fetches ? ceildiv(RUN / 4 * PANEL_ROW / 64, a->count) : 0; /* per run of a tile */
    const uint8_t *b = p->b + panel * panel_bytes;
    int32_t out[MOST_TILE_ROWS * NR];
    struct columns columns;
    read_columns(s, p, b, col, cols, &columns);
    for (int64_t i = 0; i < a->count; i++) {
        const int64_t row = a->row_of[i], rows = a->row_of[i + 1] - row;
        const struct area at = {row, rows, col, cols};
        struct byte_tile t = {.from = columns.start, .to = out, .to_ld = NR, .ahead_lines = lines};
        t.ahead = b + panel_bytes + i * ceildiv(quads * 4, RUN) * lines * 64; /* a share of the next panel */
        if (!g->hook.call && cols % VL == 0) {
            t.to = p->c + row * s->c_m + col;
            t.to_ld = s->c_m;
        }
        run_byte_tile(g->unit, a->height, rows, vectors, quads, a->tiles + i * a->tile_bytes, b + PANEL_ROW,
                      &t);
        if (s->za_m || columns.shifted)
            shift_tile(s, p, &columns, at, a->sums + i * a->height, &t);
        const int32_t error = deliver_tile(g, o, p, at, out, &t);
        if (error)
            return error;
    }
    return 0;
}

static int32_t run_block(const struct gemm *g, const struct block *o, uint8_t *scratch, int64_t most_tiles) {
    const struct batch p = batch_of(g, o);
    struct packed_rows a;
    pack_block(g, o, &p, scratch, most_tiles, &a);
    int32_t error = 0;
    for (int64_t panel = o->panel0; panel < o->panel1 && !error; panel++) {
        const int fetches =
            a.count > 1 && panel + 1 < o->panel1; /* one tile reads as fast as memory allows */
        error = run_panel(g, o, &p, &a, panel, fetches);
    }
    return error;
}

static int64_t block_tiles(int64_t k) {
    const int64_t tiles = BLOCK_BYTES / (TILE_ROWS * (k > 1 ? k : 1));
    return tiles < LEAST_TILES ? LEAST_TILES : smaller(tiles, MOST_TILES);
}

static int32_t run_units(const struct gemm *g, int64_t begin, int64_t end, uint8_t *scratch) {
    const int64_t tiles = ceildiv(g->s.m, TILE_ROWS), panels = ceildiv(g->s.n, NR),
                  most = block_tiles(g->s.k);
    const int64_t n_units = ceildiv(panels, UNIT_PANELS), batches = g->s.batch0 * g->s.batch1;
    const int64_t m_parts = row_parts(ceildiv(g->s.m, most * TILE_ROWS), tiles, batches * n_units);
    while (begin < end) {
        const int64_t batch = begin / (m_parts * n_units), inner = begin % (m_parts * n_units);
        const int64_t m_part = inner / n_units, n_unit = inner % n_units;
        const int64_t run = smaller(end - begin, n_units - n_unit);
        const int64_t whole = run == n_units ? (end - begin) / n_units : 1;
        const struct part rows = joined(m_part, smaller(m_part + whole, m_parts), m_parts, tiles, most);
        const struct block o = block_of(batch, g->s.batch1, tiles, rows, panels, n_unit, run);
        const int32_t error = run_block(g, &o, scratch, most);
        if (error)
            return error;
        begin += run * (rows.end - rows.at);
    }
    return 0;
}

/* The fewest rows that AMX multiplies faster than VNNI. */
enum { AMX_LEAST_ROWS = 9 };

GW_INLINE int32_t run(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch,
                      enum byte_unit most) {
    struct gemm g = {
        .a = buf[BYTE_GEMM_A],
        .b = buf[BYTE_GEMM_B],
        .a_zero = buf[BYTE_GEMM_A_ZERO],
        .b_zero = buf[BYTE_GEMM_B_ZERO],
        .c = buf[BYTE_GEMM_C],
        .hook = hook_after(buf, BYTE_GEMM_OPERANDS, arg, BYTE_GEMM_ARGS),
    };
    memcpy(&g.s, arg, sizeof g.s);
    g.unit = byte_unit_up_to(g.s.m < AMX_LEAST_ROWS && most == WITH_AMX ? WITH_VNNI : most);
    start_byte_tiles(g.unit, tile_rows(&g));
    const int32_t error = run_units(&g, begin, end, scratch);
    end_byte_tiles(g.unit);
    return error;
}

GW_KERNEL(gw_gemm_bytes) { return run(buf, arg, begin, end, scratch, WITH_AMX); }

GW_KERNEL(gw_gemm_bytes_vnni) { return run(buf, arg, begin, end, scratch, WITH_VNNI); }

GW_KERNEL(gw_gemm_bytes_wide) { return run(buf, arg, begin, end, scratch, AS_16_BITS); }

/* Packs one panel of a matrix [k, n]: first the sums of columns, then rows in quads. */
static void pack_panel(const uint8_t *b, int64_t k, int64_t n, int64_t cols, uint8_t flip, uint8_t *to) {
    int32_t sums[NR] = {0};
    uint8_t *quad = to + PANEL_ROW;
    for (int64_t j = 0; j < k; j += 4, quad += PANEL_ROW) {
        const int64_t rows = smaller(4, k - j);
        if (rows < 4 || cols < NR)
            memset(quad, 0, PANEL_ROW);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t c = 0; c < cols; c++) {
                const uint8_t x = b[(j + i) * n + c] ^ flip;
                quad[c * 4 + i] = x;
                sums[c] += (int8_t)x;
            }
    }
    memcpy(to, sums, sizeof sums);
}

GW_KERNEL(gw_pack_bytes) {
    struct byte_pack_args s;
    (void)scratch;
    memcpy(&s, arg, sizeof s);
    const int64_t panels = ceildiv(s.n, NR), panel_bytes = (1 + ceildiv(s.k, 4)) * PANEL_ROW;
    for (int64_t i = begin; i < end; i++) {
        const int64_t col = i % panels * NR;
        pack_panel((const uint8_t *)buf[BYTE_PACK_B] + i / panels * s.k * s.n + col, s.k, s.n,
                   smaller(s.n - col, NR), s.b_signed ? 0 : 0x80,
                   (uint8_t *)buf[BYTE_PACK_PANELS] + i * panel_bytes);
    }
    return 0;
}

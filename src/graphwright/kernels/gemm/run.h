/* The loops of a GEMM, for any type of operands. The including file says how operands are read: it defines
 * tile_rows, reads_in_place, fetch_a, pack_tile, pack_panel and next_panel. */

#ifndef GW_GEMM_RUN_H
#define GW_GEMM_RUN_H

#include "gemm/problem.h"

/* The rows of a tile, at most MOST_TILE_ROWS. */
static int64_t tile_rows(const struct gemm *g);
/* Whether tiles read the rows of A in place, without packing. */
static int reads_in_place(const struct gemm *g);
/* Prefetches the rows of A from `row` on, which the next tile reads. */
static void fetch_a(const struct gemm *g, const struct block *o, int64_t row, int64_t k0, struct tile *t);
/* Packs a tile of rows of A to to[j / K_RUN][r][j % K_RUN], for `depth` values of k. */
static void pack_tile(const struct gemm *g, const struct block *o, int64_t row, int64_t rows, int64_t k0,
                      int64_t depth, float *to);
/* Panel p of an unpacked B: packed to `to`, or in place with leading dimension *ldb. */
static const float *pack_panel(const struct gemm *g, const struct block *o, int64_t p, int64_t k0,
                               int64_t depth, float *to, int64_t *ldb);
/* The panel after panel p at b, or b if it is not worth prefetching. */
static const float *next_panel(const struct gemm *g, const struct block *o, int64_t p, int64_t k0,
                               const float *b);

/* The number of products that share A and are computed together. A row of their tiles holds one row of each
 * product, one after the other. */
static int results_of(const struct gemm *g) { return g->second ? 2 : 1; }

/* Panel p of the packed B of a product, from k0 on. */
static const float *packed_panel(const struct gemm *g, const struct block *o, int result, int64_t p,
                                 int64_t k0) {
    const float *b = result ? g->second : g->b;
    return b + o->batch0 * g->s.b_batch0 + o->batch1 * g->s.b_batch1 + (p * g->s.k + k0) * NR;
}

/* The panel that is read after panel p of a product, in a block of K of `depth` values. */
static const float *panel_after(const struct gemm *g, const struct block *o, int result, int64_t p,
                                int64_t k0, int64_t depth) {
    if (result + 1 < results_of(g))
        return packed_panel(g, o, result + 1, p, k0);
    return p + 1 < o->panel1 ? packed_panel(g, o, 0, p + 1, k0)
                             : packed_panel(g, o, 0, o->panel0, k0 + depth);
}

/* Sets tile i of `count` to prefetch its share of the next panel of B. */
static void fetch_b(const struct gemm *g, const float *next, int64_t i, int64_t count, int64_t depth,
                    struct tile *t) {
    const int64_t lines = K_RUN / 2 + 1; /* prefetched per K_RUN values of k */
    if (g->packed) {
        t->ahead = next + quotient(depth * NR * i, count);
        t->ahead_step = t->ahead_skip = ceildiv(K_RUN * NR, lines * count);
        return;
    }
    const int64_t k = i / (NR / 16) * (depth / K_RUN * lines); /* where a column of lines begins */
    if (g->s.b_n != 1 || k >= depth)
        return;
    t->ahead = next + k * g->s.b_k + i % (NR / 16) * 16;
    t->ahead_step = t->ahead_skip = g->s.b_k;
}

enum { FETCHED_DEPTH = 512 }; /* a load from memory takes as long as this many values of k */

/* How the tiles of a block are computed, and where. */
struct walk {
    int64_t count;                   /* row tiles */
    int64_t tile_rows;               /* the most rows of one */
    int64_t row_of[BLOCK_TILES + 1]; /* the first row of each row tile */
    int64_t k_blocks;
    int64_t held;    /* tiles that are delivered together */
    int64_t pitch;   /* elements between rows of these tiles */
    int64_t fetched; /* the residual is prefetched this many tiles ahead; 0 without one */
    int in_place;
    float *a_tiles, *b_panel, *sums, *room, *out;
};

/* Prefetches the residual of the tile that is w->fetched tiles after tile i of panel p. */
static void fetch_later_residual(const struct gemm *g, const struct block *o, const struct walk *w, int64_t p,
                                 int64_t i) {
    const int64_t at = (p - o->panel0) * w->count + i + w->fetched; /* tile by tile */
    const int64_t later = o->panel0 + at / w->count, j = at % w->count;
    if (later < o->panel1)
        fetch_residual(g, o, w->row_of[j], w->row_of[j + 1] - w->row_of[j], column(g, later));
}

/* Computes one block of K of panel p of a product, for all row tiles. Results are delivered after the last
 * block of K of the last product. */
static int32_t run_panel(const struct gemm *g, const struct block *o, const struct walk *w, int64_t kb,
                         int64_t p, int result) {
    const int64_t k0 = part_begin(g->s.k, kb, w->k_blocks),
                  depth = part_begin(g->s.k, kb + 1, w->k_blocks) - k0;
    const int64_t col = column(g, p), cols = column(g, p + 1) - col, count = w->count;
    const int whole = cols % VL == 0, results = results_of(g);
    const int is_first = p == o->panel0 && result == 0, is_last = result == results - 1;
    const float *b, *next; /* next: the panel to prefetch */
    int64_t ldb = NR;
    if (g->packed) {
        b = packed_panel(g, o, result, p, k0);
        next = panel_after(g, o, result, p, k0, depth);
    } else {
        b = pack_panel(g, o, p, k0, depth, w->b_panel, &ldb);
        next = next_panel(g, o, p, k0, b);
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = w->row_of[i], rows = w->row_of[i + 1] - row, first = w->row_of[i - i % w->held];
        const struct area at = {row, rows, col, cols};
        const struct room out = {w->out + (row - first) * w->pitch + result * NR, w->pitch};
        float *a = w->a_tiles + i * w->tile_rows * A_PITCH;
        if (is_first && !w->in_place) /* right before the first use, so that it is in the cache */
            pack_tile(g, o, row, rows, k0, depth, a);
        float *sum = w->sums + (((p - o->panel0) * results + result) * count + i) * w->tile_rows * NR;
        struct tile t = {.to = sum, .to_ld = NR, .unit = g->unit};
        if (is_first && i + 1 < count)
            fetch_a(g, o, row + rows, k0, &t);
        else
            fetch_b(g, next, i, count, depth, &t);
        if (kb == 0 || kb == w->k_blocks - 1)
            set_addends(g, o, at, whole, (struct room){w->room, NR}, &t);
        add_partial_sums(sum, NR, kb == 0, kb == w->k_blocks - 1, &t);
        if (kb == 0 && w->fetched)
            fetch_later_residual(g, o, w, p, i);
        if (kb == w->k_blocks - 1)
            set_destination(g, o, at, whole, out, &t);
        if (w->in_place)
            run_tile_in_place(rows, ceildiv(cols, VL), depth, row_of_a(g, o, row, k0), g->s.a_m, b, ldb, &t);
        else
            run_tile(rows, ceildiv(cols, VL), depth, a, b, ldb, &t);
        const int is_held = (i + 1) % w->held && i + 1 < count;
        if (kb < w->k_blocks - 1 || !is_last || is_held)
            continue;
        const struct area held = {first, row + rows - first, col, cols};
        const int32_t error = deliver_tile(g, o, held, (struct room){w->out, w->pitch}, &t);
        if (error)
            return error;
    }
    return 0;
}

static int32_t run_block(const struct gemm *g, const struct block *o, float *scratch) {
    const int64_t m = g->s.m, k = g->s.k, height = tile_rows(g);
    const int64_t block_rows = ceildiv(smaller(m, BLOCK_TILES * MR), height) * height;
    const int results = results_of(g);
    float room[(MOST_TILE_ROWS + 1) * NR] __attribute__((aligned(64)));
    float out[2 * BLOCK_TILES * MR * NR] __attribute__((aligned(64)));
    struct walk w = {
        .tile_rows = height,
        .k_blocks = k > K_BLOCK ? ceildiv(k, K_BLOCK) : 1,
        /* With several products, all row tiles are delivered together. */
        .held = results > 1    ? BLOCK_TILES
                : g->hook.call ? HELD
                               : 1,
        .pitch = results * NR,
        /* With a short sum, one tile ahead would be too late. */
        .fetched = g->residual && g->s.r_n == 1 ? 1 + FETCHED_DEPTH / (k + 1) : 0,
        .in_place = reads_in_place(g),
        .a_tiles = scratch,
        .b_panel = scratch + block_rows * A_PITCH,
        .room = room,
        .out = out,
    };
    w.sums = w.b_panel + (g->packed ? 0 : smaller(k, K_BLOCK) * NR);
    w.count = cut_rows(o, m, MR, height, w.row_of);
    for (int64_t kb = 0; kb < w.k_blocks; kb++)
        for (int64_t p = o->panel0; p < o->panel1; p++)
            for (int result = 0; result < results; result++) {
                const int32_t error = run_panel(g, o, &w, kb, p, result);
                if (error)
                    return error;
            }
    return 0;
}

#ifdef STREAM_CELLS
/* Computes a block of few rows, which are lda elements apart from a on. Packed B is read once for all groups
 * of rows, several panels at a time. Partial sums between blocks of K are in scratch. */
static int32_t run_few_rows(const struct gemm *g, const struct block *o, const float *a, int64_t lda,
                            float *sums) {
    enum { MOST_GROUPS = (FEW_ROWS + GROUP_ROWS - 1) / GROUP_ROWS };
    const int64_t m = g->s.m, k = g->s.k, groups = ceildiv(m, GROUP_ROWS);
    const int64_t k_block = groups > 1 ? SHARED_K_BLOCK : STREAM_K_BLOCK;
    const int64_t k_blocks = k > k_block ? ceildiv(k, k_block) : 1,
                  width = stream_panels[ceildiv(m, groups) - 1];
    const int results = results_of(g);
    float room[2 * STREAM_CELLS] __attribute__((aligned(64)));
    float out[2 * MOST_GROUPS * STREAM_CELLS] __attribute__((aligned(64)));
    for (int64_t p = o->panel0, now; p < o->panel1; p += now) {
        now = o->panel1 - p < width ? 1 : width;
        const int64_t span = now * NR, pitch = results * span, col = p * NR;
        const int64_t cols = smaller(g->s.n - col, span);
        for (int result = 0; result < results; result++) {
            const int is_last = result == results - 1;
            const float *behind =
                is_last ? packed_panel(g, o, 0, p + now, 0) : packed_panel(g, o, result + 1, p, 0);
            for (int64_t kb = 0; kb < k_blocks; kb++) {
                const int64_t k0 = part_begin(k, kb, k_blocks), depth = part_begin(k, kb + 1, k_blocks) - k0;
                const float *b = packed_panel(g, o, result, p, k0);
                for (int64_t i = 0; i < groups; i++) { /* each prefetches its share */
                    const int64_t row = part_begin(m, i, groups), rows = part_begin(m, i + 1, groups) - row;
                    const struct area at = {row, rows, col, cols};
                    const struct room to = {out + row * pitch, pitch};
                    float *sum = sums + row * span;
                    struct tile t = {.to = sum, .to_ld = span};
                    const float *next = kb + 1 < k_blocks ? b + depth * NR : behind;
                    t.ahead = groups > 1 ? next + depth * NR / groups * i : b + STREAM_AHEAD;
                    t.ahead_lines = ceildiv(UNROLL * NR / 16, groups);
                    if (kb == 0 || kb == k_blocks - 1)
                        set_addends(g, o, at, cols == span, (struct room){room, span}, &t);
                    add_partial_sums(sum, span, kb == 0, kb == k_blocks - 1, &t);
                    if (kb == k_blocks - 1)
                        set_destination(g, o, at, cols == span, (struct room){to.at + result * span, pitch},
                                        &t);
                    stream_of[rows - 1][now > 1](depth, a + row * lda + k0, lda, b, k * NR, &t);
                    if (kb < k_blocks - 1 || !is_last)
                        continue;
                    const int32_t error = deliver_tile(g, o, at, to, &t);
                    if (error)
                        return error;
                }
            }
        }
    }
    return 0;
}
#endif

_Static_assert((2 * PART_TILES - 1) * MR >= FEW_ROWS, "few rows are one part");

typedef int32_t block_fn(const struct gemm *g, const struct block *o, float *scratch);

/* The number of parts of the rows of a product, each of which has n_units units. */
GW_INLINE int64_t m_parts_of(const struct gemm *g, int64_t tiles, int64_t n_units) {
    return row_parts(ceildiv(tiles, BLOCK_TILES), tiles, g->s.batch0 * g->s.batch1 * n_units);
}

/* The number of units of the grid of a product. */
static int64_t units_of(const struct gemm *g) {
    const int64_t n_units = ceildiv(ceildiv(g->s.n, NR), UNIT_PANELS);
    return g->s.batch0 * g->s.batch1 * n_units * m_parts_of(g, ceildiv(g->s.m, MR), n_units);
}

/* Runs units [begin, end) of the grid in blocks. at_once: units that share rows form one block, however many
 * they are. */
static int32_t run_units(const struct gemm *g, int64_t begin, int64_t end, float *scratch, block_fn *run,
                         int at_once) {
    const int64_t tiles = ceildiv(g->s.m, MR), panels = ceildiv(g->s.n, NR);
    const int64_t n_units = ceildiv(panels, UNIT_PANELS), m_parts = m_parts_of(g, tiles, n_units);
    const int64_t most = (g->s.k > K_BLOCK ? RUN_PANELS : GROUP_PANELS) / UNIT_PANELS / results_of(g);
    const int64_t group = at_once ? n_units : most;
    while (begin < end) {
        const int64_t batch = begin / (m_parts * n_units), outer = begin % (m_parts * n_units);
        const int64_t first = outer / (m_parts * group) * group, width = smaller(n_units - first, group);
        const int64_t inner = outer - first * m_parts;
        const int64_t m_part = inner / width, n_unit = first + inner % width;
        const int64_t wide = smaller(end - begin, first + width - n_unit);
        const int64_t whole = wide == width ? (end - begin) / width : 1; /* parts with all panels */
        const struct part rows =
            joined(m_part, smaller(m_part + whole, m_parts), m_parts, tiles, BLOCK_TILES);
        const struct block o = block_of(batch, g->s.batch1, tiles, rows, panels, n_unit, wide);
        const int32_t error = run(g, &o, scratch);
        if (error)
            return error;
        begin += wide * (rows.end - rows.at);
    }
    return 0;
}

/* Reads the arguments of a product; some are the bits of an f32. */
static void read_arguments(struct gemm *g, const int64_t *arg) {
    memcpy(&g->s, arg, sizeof g->s);
    g->scale = float_of(g->s.scale);
    g->clip[0] = float_of(g->s.lo);
    g->clip[1] = float_of(g->s.hi);
}

/* Reads the arguments and operands of a product (a, b, bias, residual, c); those of its hook follow. */
static struct gemm gemm_of(void *const *buf, const int64_t *arg, int64_t args) {
    struct gemm g = {
        .a = buf[GEMM_A],
        .b = buf[GEMM_B],
        .bias = buf[GEMM_BIAS],
        .residual = buf[GEMM_RESIDUAL],
        .c = buf[GEMM_C],
        .hook = hook_after(buf, GEMM_OPERANDS, arg, args),
    };
    read_arguments(&g, arg);
    return g;
}

/* Reads the arguments and operands of two products with the same dense A (a, b, second), and those of a hook.
 */
static struct gemm dual_of(void *const *buf, const int64_t *arg, int64_t args) {
    const struct dual_args *own = dual_args(arg);
    struct gemm g = {
        .s = {.batch0 = 1, .batch1 = 1, .m = own->m, .n = own->n, .k = own->k, .a_m = own->k, .a_k = 1},
        .a = buf[DUAL_A],
        .b = buf[DUAL_B],
        .second = buf[DUAL_SECOND],
        .hook = hook_after(buf, DUAL_OPERANDS, arg, args),
        .scale = 1,
    };
    return g;
}

#endif

/* GEMM: gemm.py says what its arguments mean, and decides the sizes of tiles and blocks. */

#include "gemm/gemv.h"
#include "gemm/problem.h"

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

_Static_assert((2 * PART_TILES - 1) * MR >= FEW_ROWS, "few rows are one part");

static int32_t run_units(const struct gemm *g, int64_t begin, int64_t end, float *scratch) {
    const int64_t tiles = parts(g->s.m, MR), panels = parts(g->s.n, NR);
    const int64_t n_units = parts(panels, UNIT_PANELS);
    const int64_t m_parts = row_parts(parts(tiles, BLOCK_TILES), tiles, g->s.batch0 * g->s.batch1 * n_units);
    const int few = g->packed && g->s.m <= FEW_ROWS && g->s.a_k == 1 && g->scale == 1;
    const int few_of_codes = g->codes && g->s.m <= CODES_ROWS && g->s.a_k == 1 && g->scale == 1;
    const int64_t most = (g->s.k > K_BLOCK ? RUN_PANELS : GROUP_PANELS) / UNIT_PANELS;
    const int line = is_line(g), is_flat = !line && is_short(g);
    const int64_t group = few || few_of_codes || line ? n_units : most;
    while (begin < end) {
        const int64_t batch = begin / (m_parts * n_units), outer = begin % (m_parts * n_units);
        const int64_t first = outer / (m_parts * group) * group, width = smaller(n_units - first, group);
        const int64_t inner = outer - first * m_parts;
        const int64_t m_part = inner / width, n_unit = first + inner % width;
        const int64_t run = smaller(end - begin, first + width - n_unit);
        const int64_t whole = run == width ? (end - begin) / width : 1; /* parts with all of these panels */
        const struct part rows =
            joined(m_part, smaller(m_part + whole, m_parts), m_parts, tiles, BLOCK_TILES);
        const struct block o = block_of(batch, g->s.batch1, tiles, rows, panels, n_unit, run);
        const int32_t error = line           ? run_line(g, &o)
                              : is_flat      ? run_short(g, &o)
                              : few          ? run_few_rows(g, &o, scratch)
                              : few_of_codes ? run_few_rows_of_codes(g, &o, scratch)
                                             : run_block(g, &o, scratch);
        if (error)
            return error;
        begin += run * (rows.end - rows.at);
    }
    return 0;
}

GW_INLINE int32_t run(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch,
                      int packed) {
    struct gemm g = {
        .a = buf[GEMM_A],
        .b = buf[GEMM_B],
        .bias = buf[GEMM_BIAS],
        .residual = buf[GEMM_RESIDUAL],
        .c = buf[GEMM_C],
        .hook_buf = buf + GEMM_OPERANDS + 1,
        .hook_arg = arg + GEMM_ARGS,
        .packed = packed,
    };
    memcpy(&g.s, arg, sizeof g.s);
    memcpy(&g.hook, &buf[GEMM_OPERANDS], sizeof g.hook);
    memcpy(&g.scale, &g.s.scale, sizeof g.scale);
    memcpy(&g.clip[0], &g.s.lo, sizeof g.clip[0]);
    memcpy(&g.clip[1], &g.s.hi, sizeof g.clip[1]);
    return run_units(&g, begin, end, scratch);
}

GW_KERNEL(gw_gemm_f32) { return run(buf, arg, begin, end, scratch, 0); }

GW_KERNEL(gw_gemm_f32_packed) { return run(buf, arg, begin, end, scratch, 1); }

GW_KERNEL(gw_gemm_f32_codes) {
    struct codes_args own;
    memcpy(&own, arg + GEMM_ARGS, sizeof own);
    struct gemm g = {
        .a = buf[CODES_A],
        .b = buf[CODES_SCALES],
        .bias = buf[CODES_BIAS],
        .residual = buf[CODES_RESIDUAL],
        .c = buf[CODES_C],
        .hook_buf = buf + CODES_OPERANDS + 1,
        .hook_arg = arg + GEMM_ARGS + CODES_ARGS,
    };
    memcpy(&g.s, arg, sizeof g.s);
    memcpy(&g.hook, &buf[CODES_OPERANDS], sizeof g.hook);
    memcpy(&g.scale, &g.s.scale, sizeof g.scale);
    memcpy(&g.clip[0], &g.s.lo, sizeof g.clip[0]);
    memcpy(&g.clip[1], &g.s.hi, sizeof g.clip[1]);
    const int64_t blocks = parts(g.s.k, own.block);
    const struct codes codes = {
        .words = buf[CODES_CODES],
        .scales = buf[CODES_SCALES],
        .zeros = buf[CODES_ZEROS],
        .width = own.bits == 2   ? 0
                 : own.bits == 4 ? 1
                                 : 2,
        .block = own.block,
        .blocks = blocks,
        .panel_words = blocks * (own.block * own.bits / 32),
        .floats = own.floats,
    };
    g.codes = &codes;
    return run_units(&g, begin, end, scratch);
}

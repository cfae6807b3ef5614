/* f32 GEMM: gemm.py documents the arguments, and chooses the sizes of tiles and blocks. */

#include "gemm/nbits.h"
#include "library/sizes.h"

#include "gemm/gemm.gen.h"

#include "gemm/gemv.h"
#include "gemm/nbits_dynamic.h"
#include "gemm/pack.h"
#include "gemm/run.h"

static int64_t tile_rows(const struct gemm *g) {
    (void)g;
    return MR;
}

/* Whether tiles read rows of A in place. They are packed if they need a factor, or if they map to the same
 * set of the L1 cache. Tiles of short vectors are bound by instructions: for them, reading in place costs
 * more than packing saves. */
static int reads_in_place(const struct gemm *g) {
    const int64_t past = g->s.a_m & (SET_PERIOD - 1);
    return VL == 16 && g->s.a_k == 1 && g->scale == 1 && past >= SET_APART && past <= SET_PERIOD - SET_APART;
}

/* Prefetches one cache line of each row per run of K_RUN values. */
static void fetch_a(const struct gemm *g, const struct block *o, int64_t row, int64_t k0, struct tile *t) {
    if (g->s.a_k != 1)
        return;
    t->ahead = row_of_a(g, o, row, k0);
    t->ahead_step = g->s.a_m;
    t->ahead_skip = K_RUN - K_RUN / 2 * g->s.a_m;
}

static void pack_tile(const struct gemm *g, const struct block *o, int64_t row, int64_t rows, int64_t k0,
                      int64_t depth, float *to) {
    pack_a(row_of_a(g, o, row, k0), g->s.a_m, g->s.a_k, rows, depth, g->scale, to);
}

static const float *panel_at(const struct gemm *g, const struct block *o, int64_t p, int64_t k0) {
    return g->b + o->batch0 * g->s.b_batch0 + o->batch1 * g->s.b_batch1 + k0 * g->s.b_k +
           column(g, p) * g->s.b_n;
}

static const float *pack_panel(const struct gemm *g, const struct block *o, int64_t p, int64_t k0,
                               int64_t depth, float *to, int64_t *ldb) {
    if (g->codes) {
        unpack_codes[g->codes->width](g->codes, p, k0, depth, to);
        return to;
    }
    const float *b = panel_at(g, o, p, k0);
    const int64_t cols = column(g, p + 1) - column(g, p);
    if (g->s.b_n == 1 && cols % VL == 0 && o->tile1 - o->tile0 == 1) {
        *ldb = g->s.b_k; /* with one tile of rows, packing would cost as much as the product */
        return b;
    }
    pack_b(b, g->s.b_k, g->s.b_n, depth, cols, to);
    return to;
}

static const float *next_panel(const struct gemm *g, const struct block *o, int64_t p, int64_t k0,
                               const float *b) {
    return g->codes ? b : panel_at(g, o, p + 1, k0);
}

static int32_t run_few_dense_rows(const struct gemm *g, const struct block *o, float *scratch) {
    return run_few_rows(g, o, row_of_a(g, o, 0, 0), g->s.a_m, scratch);
}

static int are_bytes(const struct codes *q) { return q->width == 2; }

/* Sums the rows of A over quantization blocks. Returns whether all sums are finite. */
static int sum_blocks(const struct gemm *g, float *sums) {
    const struct codes *q = g->codes;
    float rest = 0;
    for (int64_t i = 0; i < g->s.m * q->blocks; i++) {
        const int64_t row = i / q->blocks, k0 = i % q->blocks * q->block;
        const int64_t k1 = smaller(g->s.k, k0 + q->block);
        vf total = {0};
        for (int64_t j = k0; j < k1; j += VL)
            total += load_most(g->a + row * g->s.a_m + j, k1 - j);
        sums[i] = vf_sum(total);
        rest += sums[i] - sums[i]; /* NaN if the sum is not finite */
    }
    return rest == 0;
}

/* Few rows: packed codes are decoded in registers. `sums` are those of A over blocks. */
static int32_t run_few_rows_of_codes(const struct gemm *g, const struct block *o, float *sums) {
    const struct codes *q = g->codes;
    const int64_t m = g->s.m, k = g->s.k;
    float room[CODES_GROUP * NR] __attribute__((aligned(64)));
    float out[CODES_GROUP * NR] __attribute__((aligned(64)));
    const float *a = g->a;
    int64_t lda = g->s.a_m;
    if (!are_bytes(q)) {
        const int64_t row = q->blocks * q->block;
        float *scaled = sums + m * q->blocks;
        for (int64_t i = 0; i < m; i++)
            scale_row[q->width](g->a + i * lda, k, scaled + i * row);
        a = scaled;
        lda = row;
    }
    for (int64_t p = o->panel0; p < o->panel1; p++) {
        const int64_t col = p * NR, cols = smaller(g->s.n - col, NR);
        for (int64_t row = 0; row < m; row += CODES_GROUP) {
            const int64_t rows = smaller(m - row, CODES_GROUP);
            struct tile t = {.from_kind = FROM_ZERO};
            start_tile(g, o, row, rows, col, cols, cols == NR, room, NR, &t);
            set_destination(g, o, row, col, cols == NR, out, NR, &t);
            stream_codes[q->width][rows - 1](q, p, k, a + row * lda, lda, sums + row * q->blocks, &t);
            const int32_t error = deliver_tile(g, o, row, rows, col, cols, out, NR, &t);
            if (error)
                return error;
        }
    }
    return 0;
}

/* Whether A is quantized to bytes. */
static int quantizes_a(const struct codes *q) {
    return q->dynamic && !are_bytes(q) && (VL == 8 || has_vnni());
}

/* Rows [at, end) of a block. */
struct rows {
    int64_t at, end;
};

/* Quantizes `rows`. bytes: of the rows from `first` on. Returns whether all numbers are finite. */
static int quantize_rows(const struct gemm *g, const struct block *o, struct rows rows, int64_t first,
                         const struct byte_rows *bytes) {
    const struct codes *q = g->codes;
    int finite = 1;
    for (int64_t row = rows.at; row < rows.end; row++) {
        const int64_t i = row - first;
        finite &= quantize_row(q, row_of_a(g, o, row, 0), g->s.k, byte_order[q->width],
                               bytes->bytes + i * bytes->pitch, bytes->scales + i * q->blocks,
                               bytes->sums + i * q->blocks);
    }
    return finite;
}

/* Multiplies quantized rows by panel p. bytes: those of the rows from `first` on. */
static int32_t multiply_bytes(const struct gemm *g, const struct block *o, int64_t p, struct rows rows,
                              int64_t first, const struct byte_rows *bytes) {
    const struct codes *q = g->codes;
    const int64_t col = p * NR, cols = smaller(g->s.n - col, NR);
    float room[CODES_GROUP * NR] __attribute__((aligned(64)));
    float out[CODES_GROUP * NR] __attribute__((aligned(64)));
    for (int64_t row = rows.at; row < rows.end; row += CODES_GROUP) {
        const int64_t count = smaller(rows.end - row, CODES_GROUP), i = row - first;
        const struct byte_rows a = {bytes->bytes + i * bytes->pitch, bytes->scales + i * q->blocks,
                                    bytes->sums + i * q->blocks, bytes->pitch};
        struct tile t = {.from_kind = FROM_ZERO};
        start_tile(g, o, row, count, col, cols, cols == NR, room, NR, &t);
        set_destination(g, o, row, col, cols == NR, out, NR, &t);
        stream_bytes[q->width][count - 1](q, p, &a, &t);
        const int32_t error = deliver_tile(g, o, row, count, col, cols, out, NR, &t);
        if (error)
            return error;
    }
    return 0;
}

/* Quantizes rows of A to bytes, and multiplies them. Row tiles with numbers that are not finite are
 * multiplied as they are. */
static int32_t run_quantized_rows(const struct gemm *g, const struct block *o, float *scratch) {
    const struct codes *q = g->codes;
    const int64_t tiles = ceildiv(g->s.m, MR), first = part_begin(g->s.m, o->tile0, tiles);
    const int64_t most = part_begin(g->s.m, o->tile1, tiles) - first;
    const struct byte_rows bytes = {
        .scales = scratch,
        .sums = scratch + most * q->blocks,
        .bytes = (uint8_t *)(scratch + 2 * most * q->blocks),
        .pitch = q->blocks * q->block,
    };
    struct rows finite[BLOCK_TILES];
    struct block rest[BLOCK_TILES]; /* the other tiles */
    int64_t finites = 0, rests = 0;
    for (int64_t tile = o->tile0; tile < o->tile1; tile++) {
        const struct rows rows = {part_begin(g->s.m, tile, tiles), part_begin(g->s.m, tile + 1, tiles)};
        if (!quantize_rows(g, o, rows, first, &bytes)) {
            rest[rests] = *o;
            rest[rests].tile0 = tile;
            rest[rests++].tile1 = tile + 1;
        } else if (finites && finite[finites - 1].end == rows.at) {
            finite[finites - 1].end = rows.end;
        } else {
            finite[finites++] = rows;
        }
    }
    for (int64_t p = o->panel0; p < o->panel1; p++)
        for (int64_t i = 0; i < finites; i++) {
            const int32_t error = multiply_bytes(g, o, p, finite[i], first, &bytes);
            if (error)
                return error;
        }
    for (int64_t i = 0; i < rests; i++) {
        const int32_t error = run_block(g, &rest[i], scratch);
        if (error)
            return error;
    }
    return 0;
}

static int32_t run(const struct gemm *g, int64_t begin, int64_t end, float *scratch) {
    const int dense = g->s.a_k == 1 && g->scale == 1;
    if (is_line(g))
        return run_units(g, begin, end, scratch, run_line, 1);
    if (is_short(g))
        return run_units(g, begin, end, scratch, run_short, 0);
    if (g->packed && g->s.m <= FEW_ROWS && dense)
        return run_units(g, begin, end, scratch, run_few_dense_rows, 1);
    if (g->codes && dense && quantizes_a(g->codes))
        return run_units(g, begin, end, scratch, run_quantized_rows, 1);
    /* Zero points times sums are subtracted, which would give NaN for infinities. */
    if (g->codes && g->s.m <= CODES_ROWS && dense && sum_blocks(g, scratch))
        return run_units(g, begin, end, scratch, run_few_rows_of_codes, 1);
    return run_units(g, begin, end, scratch, run_block, 0);
}

GW_KERNEL(gw_gemm_f32) {
    const struct gemm g = gemm_of(buf, arg, GEMM_ARGS);
    return run(&g, begin, end, scratch);
}

GW_KERNEL(gw_gemm_f32_packed) {
    struct gemm g = gemm_of(buf, arg, GEMM_ARGS);
    g.packed = 1;
    return run(&g, begin, end, scratch);
}

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
    const int64_t blocks = ceildiv(g.s.k, own.block);
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
        .dynamic = own.dynamic,
    };
    g.codes = &codes;
    return run(&g, begin, end, scratch);
}

GW_KERNEL(gw_gemm_f32_dual) {
    struct gemm g = dual_of(buf, arg, DUAL_ARGS);
    g.packed = 1;
    const int is_few = g.s.m <= FEW_ROWS;
    return run_units(&g, begin, end, scratch, is_few ? run_few_dense_rows : run_block, is_few);
}

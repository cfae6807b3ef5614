/* f32 GEMM: gemm.py documents the arguments, and chooses the sizes of tiles and blocks. */

#include "gemm/nbits.h"
#include "library/sizes.h"

#include "gemm/gemm.gen.h"

#include "gemm/gemv.h"
#include "gemm/grouped.h"
#include "gemm/pack.h"
#include "gemm/run.h"
#include "gemm/run_codes.h"

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
    if (g->codes && g->s.m <= CODES_ROWS && dense && (!reads_sums(g->codes) || sum_blocks(g, scratch)))
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

/* B as codes; zeros may be NULL. */
static struct codes codes_of(const struct codes_args *own, int64_t k, const void *words, const float *scales,
                             const void *zeros) {
    const int64_t blocks = ceildiv(k, own->block);
    return (struct codes){
        .words = words,
        .scales = scales,
        .zeros = zeros,
        .width = own->bits == 2   ? 0
                 : own->bits == 4 ? 1
                                  : 2,
        .block = own->block,
        .blocks = blocks,
        .panel_words = blocks * (own->block * own->bits / 32),
        .floats = own->floats,
        .dynamic = own->dynamic,
    };
}

GW_KERNEL(gw_gemm_f32_codes) {
    struct gemm g = {
        .a = buf[CODES_A],
        .b = buf[CODES_SCALES],
        .bias = buf[CODES_BIAS],
        .residual = buf[CODES_RESIDUAL],
        .c = buf[CODES_C],
        .hook = hook_after(buf, CODES_OPERANDS, arg, GEMM_ARGS + CODES_ARGS),
    };
    read_arguments(&g, arg);
    const struct codes codes =
        codes_of(codes_args(arg + GEMM_ARGS), g.s.k, buf[CODES_CODES], buf[CODES_SCALES], buf[CODES_ZEROS]);
    g.codes = &codes;
    return run(&g, begin, end, scratch);
}

GW_KERNEL(gw_gemm_f32_dual) {
    struct gemm g = dual_of(buf, arg, DUAL_ARGS);
    g.packed = 1;
    const int is_few = g.s.m <= FEW_ROWS;
    return run_units(&g, begin, end, scratch, is_few ? run_few_dense_rows : run_block, is_few);
}

static int32_t run_whole(const struct gemm *g, void *const *buf, const int64_t *arg, int64_t column,
                         float *scratch) {
    (void)buf, (void)arg, (void)column;
    return run(g, 0, units_of(g), scratch);
}

GW_KERNEL(gw_gemm_f32_grouped) {
    const struct stored as = {.packed = 0, .a_bytes = 4, .b_bytes = 4};
    return run_groups(buf, arg, begin, end, scratch, as, run_whole);
}

GW_KERNEL(gw_gemm_f32_grouped_packed) {
    const struct stored as = {.packed = 1, .a_bytes = 4, .b_bytes = 4, .depth = grouped_args(arg)->k};
    return run_groups(buf, arg, begin, end, scratch, as, run_whole);
}

static int32_t run_whole_of_codes(const struct gemm *g, void *const *buf, const int64_t *arg, int64_t column,
                                  float *scratch) {
    const struct codes_args *own = codes_args(arg);
    const int64_t first = column * ceildiv(g->s.k, own->block);
    const float *scales = (const float *)buf[GROUPED_CODES_SCALES] + first, *zeros = buf[GROUPED_CODES_ZEROS];
    if (zeros)
        zeros = element(zeros, own->floats ? 4 : 1, first);
    const struct codes codes = codes_of(own, g->s.k, g->b, scales, zeros);
    struct gemm product = *g;
    product.packed = 0;
    product.codes = &codes;
    return run(&product, 0, units_of(g), scratch);
}

GW_KERNEL(gw_gemm_f32_grouped_codes) {
    const struct grouped_args *own = grouped_args(arg);
    const struct codes codes = codes_of(codes_args(arg + GROUPED_ARGS), own->k, NULL, NULL, NULL);
    const struct stored as = {.packed = 1, .a_bytes = 4, .b_bytes = 4, .depth = codes.panel_words};
    return run_groups(buf, arg, begin, end, scratch, as, run_whole_of_codes);
}

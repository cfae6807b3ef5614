/* bf16 GEMM: see bf16_gemm.py. Here an element of K in run.h is a pair of elements. */

#include "library/sizes.h"

#include "gemm/bf16_gemm.gen.h"

#include "gemm/grouped.h"
#include "gemm/run.h"

/* Both operands before packing, with strides in their own elements. */
struct given {
    struct gemm_args s;
    struct numbers a, b;
};

/* The arguments of the product counted in pairs, and the original ones. g must be the first member: see
 * given_of. */
struct product {
    struct gemm g;
    struct given given;
};

static const struct given *given_of(const struct gemm *g) { return &((const struct product *)g)->given; }

static int64_t tile_rows(const struct gemm *g) { return g->unit == WITH_AMX ? MOST_TILE_ROWS : MR; }

static int reads_in_place(const struct gemm *g) { return g->s.a_k == 1; }

static void fetch_a(const struct gemm *g, const struct block *o, int64_t row, int64_t k0, struct tile *t) {
    if (!reads_in_place(g))
        return;
    t->ahead = row_of_a(g, o, row, k0);
    t->ahead_step = g->s.a_m;
    t->ahead_skip = K_RUN - K_RUN / 2 * g->s.a_m;
}

/* Packs `depth` pairs of a row of A from pair k0 on: K_RUN pairs are contiguous, and the next K_RUN begin
 * `step` elements further. An odd last number is paired with 0. */
static void pack_row(const struct gemm *g, const struct block *o, int64_t row, int64_t k0, int64_t depth,
                     float *to, int64_t step) {
    const struct given *given = given_of(g);
    const struct gemm_args *s = &given->s;
    const struct numbers *x = &given->a;
    const int64_t first = o->batch0 * s->a_batch0 + o->batch1 * s->a_batch1 + row * s->a_m + 2 * k0 * s->a_k;
    const int64_t count = smaller(2 * depth, s->k - 2 * k0);
    const vf factor = vf_set1(g->scale);
    const int is_copied = !x->single && g->scale == 1 && s->a_k == 1;
    for (int64_t j = 0; j < count; j += 2 * K_RUN, to += step) {
        const int64_t now = smaller(count - j, 2 * K_RUN);
        uint16_t *out = (uint16_t *)(void *)to;
        if (is_copied && now == 2 * K_RUN) {
            memcpy(out, (const uint16_t *)x->at + first + j, sizeof(float) * K_RUN);
            continue;
        }
        if (s->a_k != 1) {
            memset(out, 0, sizeof(float) * K_RUN);
            for (int64_t i = 0; i < now; i++)
                out[i] = number_at(x, first + (j + i) * s->a_k, g->scale);
            continue;
        }
        for (int64_t i = 0; i < 2 * K_RUN; i += VL) {
            const vf wide = i < now ? numbers_at(x, first + j + i, now - i) : (vf){0};
            *(vh_any *)(out + i) = rounded(factor * wide, x->native);
        }
    }
}

static void pack_tile(const struct gemm *g, const struct block *o, int64_t row, int64_t rows, int64_t k0,
                      int64_t depth, float *to) {
    for (int64_t r = 0; r < rows; r++)
        pack_row(g, o, row + r, k0, depth, to + r * K_RUN, tile_rows(g) * K_RUN);
}

/* Interleaves two rows of B to pairs, for the first n of VL columns. */
static void pack_pairs(const struct numbers *x, int64_t low, int64_t high, int has_high, int64_t n,
                       float *to) {
    const vw first = __builtin_convertvector(rounded(numbers_at(x, low, n), x->native), vw);
    const vw second =
        has_high ? __builtin_convertvector(rounded(numbers_at(x, high, n), x->native), vw) : (vw){0};
    vf_store(to, (vf)(first | second << 16));
}

static const float *pack_panel(const struct gemm *g, const struct block *o, int64_t p, int64_t k0,
                               int64_t depth, float *to, int64_t *ldb) {
    const struct given *given = given_of(g);
    const struct gemm_args *s = &given->s;
    const int64_t col = column(g, p), cols = column(g, p + 1) - col;
    const int64_t first = o->batch0 * s->b_batch0 + o->batch1 * s->b_batch1 + col * s->b_n;
    for (int64_t j = 0; j < depth; j++, to += NR) {
        const int64_t k = 2 * (k0 + j), low = first + k * s->b_k;
        const int has_high = k + 1 < s->k;
        if (s->b_n == 1) {
            for (int64_t v = 0; v < cols; v += VL)
                pack_pairs(&given->b, low + v, low + s->b_k + v, has_high, smaller(VL, cols - v), to + v);
            continue;
        }
        uint16_t *out = (uint16_t *)(void *)to;
        memset(out, 0, sizeof(float) * NR);
        for (int64_t i = 0; i < cols; i++) {
            out[2 * i] = number_at(&given->b, low + i * s->b_n, 1);
            if (has_high)
                out[2 * i + 1] = number_at(&given->b, low + s->b_k + i * s->b_n, 1);
        }
    }
    *ldb = NR;
    return to - depth * NR;
}

static const float *next_panel(const struct gemm *g, const struct block *o, int64_t p, int64_t k0,
                               const float *b) {
    (void)g, (void)o, (void)p, (void)k0;
    return b;
}

#ifdef STREAM_CELLS
static int32_t run_few(const struct gemm *g, const struct block *o, float *scratch) {
    if (reads_in_place(g))
        return run_few_rows(g, o, row_of_a(g, o, 0, 0), g->s.a_m, scratch);
    const int64_t lda = ceildiv(g->s.k, K_RUN) * K_RUN;
    for (int64_t r = 0; r < g->s.m; r++)
        pack_row(g, o, r, 0, g->s.k, scratch + r * lda, K_RUN);
    return run_few_rows(g, o, scratch, lda, scratch + g->s.m * lda);
}
#endif

/* The fewest rows that AMX multiplies faster than AVX512-BF16. */
enum { AMX_LEAST_ROWS = 5 };

static enum pair_unit best_pair_unit(int64_t rows) {
    if (has_amx() && rows >= AMX_LEAST_ROWS)
        return WITH_AMX;
    return has_bf16() ? WITH_BF16 : WITH_FMA;
}

/* Whether tiles can read pairs of A in place: rows are whole pairs and do not map to the same set of the L1
 * cache. */
static int can_read_in_place(const struct product *p) {
    const struct gemm_args *s = &p->given.s;
    const int64_t past = s->a_m / 2 & (SET_PERIOD - 1);
    return VL == 16 && p->g.unit != WITH_AMX && !p->given.a.single && s->a_k == 1 && p->g.scale == 1 &&
           s->k % 2 == 0 && s->a_m % 2 == 0 && s->a_batch0 % 2 == 0 && s->a_batch1 % 2 == 0 &&
           past >= SET_APART && past <= SET_PERIOD - SET_APART;
}

/* Converts g to a product of pairs; *_single says whether an operand is f32. */
static struct product in_pairs(struct gemm g, int a_single, int b_single, int packed, enum pair_unit unit) {
    struct product p = {.g = g};
    struct gemm_args *s = &p.g.s;
    const int native = unit != WITH_FMA;
    p.g.packed = packed;
    p.g.unit = unit;
    p.given = (struct given){
        .s = *s,
        .a = {g.a, a_single, native},
        .b = {g.b, b_single, native},
    };
    const int in_place = can_read_in_place(&p);
    s->k = ceildiv(s->k, 2);
    s->a_batch0 = in_place ? s->a_batch0 / 2 : 0;
    s->a_batch1 = in_place ? s->a_batch1 / 2 : 0;
    s->a_m = in_place ? s->a_m / 2 : 0;
    s->a_k = in_place;
    if (!packed)
        s->b_batch0 = s->b_batch1 = s->b_k = s->b_n = 0;
    return p;
}

static struct product product_of(void *const *buf, const int64_t *arg, int packed, enum pair_unit most) {
    const int64_t *own = arg + GEMM_ARGS;
    const struct gemm g = gemm_of(buf, arg, BF16_ARGS);
    const enum pair_unit best = best_pair_unit(g.s.m);
    return in_pairs(g, (int)own[0], (int)own[1], packed, best < most ? best : most);
}

static int32_t run_tiles(const struct product *p, int64_t begin, int64_t end, float *scratch) {
#ifdef STREAM_CELLS
    if (p->g.packed && p->g.s.m <= FEW_ROWS && p->g.unit == WITH_BF16)
        return run_units(&p->g, begin, end, scratch, run_few, 1);
#endif
    return run_units(&p->g, begin, end, scratch, run_block, 0);
}

static int32_t run(const struct product *p, int64_t begin, int64_t end, float *scratch) {
#ifdef AMX_TARGET
    if (p->g.unit == WITH_AMX) {
        configure_tiles(AMX_TILE_ROWS);
        const int32_t error = run_tiles(p, begin, end, scratch);
        release_tiles();
        return error;
    }
#endif
    return run_tiles(p, begin, end, scratch);
}

GW_KERNEL(gw_gemm_bf16) {
    const struct product p = product_of(buf, arg, 0, WITH_AMX);
    return run(&p, begin, end, scratch);
}

GW_KERNEL(gw_gemm_bf16_packed) {
    const struct product p = product_of(buf, arg, 1, WITH_AMX);
    return run(&p, begin, end, scratch);
}

GW_KERNEL(gw_gemm_bf16_vectors) {
    const struct product p = product_of(buf, arg, 1, WITH_BF16);
    return run(&p, begin, end, scratch);
}

GW_KERNEL(gw_gemm_bf16_wide) {
    const struct product p = product_of(buf, arg, 1, WITH_FMA);
    return run(&p, begin, end, scratch);
}

GW_KERNEL(gw_gemm_bf16_dual) {
    const int a_single = (int)arg[DUAL_ARGS];
    const struct gemm g = dual_of(buf, arg, BF16_DUAL_ARGS);
    const struct product p = in_pairs(g, a_single, 0, 1, best_pair_unit(g.s.m));
    return run(&p, begin, end, scratch);
}

static int32_t run_whole(const struct gemm *g, void *const *buf, const int64_t *arg, int64_t column,
                         float *scratch) {
    (void)buf, (void)column;
    const struct product p = in_pairs(*g, (int)arg[0], (int)arg[1], g->packed, best_pair_unit(g->s.m));
    return run(&p, 0, units_of(&p.g), scratch);
}

GW_KERNEL(gw_gemm_bf16_grouped) {
    const int64_t *single = arg + GROUPED_ARGS;
    const struct stored as = {.packed = 0, .a_bytes = 2 + 2 * single[0], .b_bytes = 2 + 2 * single[1]};
    return run_groups(buf, arg, begin, end, scratch, as, run_whole);
}

GW_KERNEL(gw_gemm_bf16_grouped_packed) {
    const struct stored as = {
        .packed = 1,
        .a_bytes = 2 + 2 * arg[GROUPED_ARGS],
        .b_bytes = 4,
        .depth = ceildiv(grouped_args(arg)->k, 2),
    };
    return run_groups(buf, arg, begin, end, scratch, as, run_whole);
}

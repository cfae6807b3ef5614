/* One GEMM: its operands, and how its tiles start and are delivered. */

#ifndef GW_GEMM_PROBLEM_H
#define GW_GEMM_PROBLEM_H

#include "library/bits.h"
#include "library/hook.h"
#include "library/sizes.h"
#include "library/tile.h"

#include "gemm/block.h"

struct codes;

struct gemm {
    struct gemm_args s;
    const float *a, *b, *bias, *residual;
    const float *second; /* B of a second product with the same A, or NULL */
    float *c;
    struct hook hook;
    float scale, clip[2];
    int packed;                /* B is packed in panels */
    enum pair_unit unit;       /* for pairs: what multiplies them */
    const struct codes *codes; /* B is quantized */
};

/* Room for a tile, whose rows are `pitch` elements apart. */
struct room {
    float *at;
    int64_t pitch;
};

/* to[r][i] += from[r * ld + i * step] */
static void add_rows(const float *from, int64_t ld, int64_t step, int64_t rows, int64_t cols,
                     struct room room) {
    float *to = room.at;
    for (int64_t r = 0; r < rows; r++, from += ld, to += room.pitch) {
        int64_t i = 0;
        for (; step == 1 && i + VL <= cols; i += VL)
            vf_store(to + i, vf_load(to + i) + vf_load(from + i));
        for (; i < cols; i++)
            to[i] += from[i * step];
    }
}

/* The address of a row of A. */
static const float *row_of_a(const struct gemm *g, const struct block *o, int64_t row, int64_t k0) {
    return g->a + o->batch0 * g->s.a_batch0 + o->batch1 * g->s.a_batch1 + row * g->s.a_m + k0 * g->s.a_k;
}

/* The address of the residual of a tile. */
static const float *residual_at(const struct gemm *g, const struct block *o, int64_t row, int64_t col) {
    return g->residual + o->batch0 * g->s.r_batch0 + o->batch1 * g->s.r_batch1 + row * g->s.r_m +
           col * g->s.r_n;
}

/* Prefetches the residual of a tile: hardware prefetchers do not follow rows that are far apart. */
static void fetch_residual(const struct gemm *g, const struct block *o, int64_t row, int64_t rows,
                           int64_t col) {
    const float *at = residual_at(g, o, row, col);
    for (int64_t r = 0; r < rows; r++, at += g->s.r_m)
        for (int64_t i = 0; i < NR + 15; i += 16) /* a row need not begin at a cache line */
            __builtin_prefetch(at + smaller(i, NR - 1), 0, 3);
}

/* Sets bias and residual as the addends of a tile. What the tile cannot read in place is copied to `room`,
 * which holds one row more than the tile. whole: the tile has no partial vectors. */
static void set_addends(const struct gemm *g, const struct block *o, struct area at, int whole,
                        struct room room, struct tile *t) {
    const float *bias = g->bias ? g->bias + at.row * g->s.bias_m + at.col * g->s.bias_n : NULL;
    const float *residual = g->residual ? residual_at(g, o, at.row, at.col) : NULL;
    if (bias && g->s.bias_n == 0) {
        t->column = bias;
        t->column_ld = g->s.bias_m;
        bias = NULL;
    } else if (bias && g->s.bias_m == 0) {
        t->row = bias;
        if (!whole || g->s.bias_n != 1) {
            memset(room.at, 0, (size_t)room.pitch * sizeof *room.at);
            add_rows(bias, 0, g->s.bias_n, 1, at.cols, room);
            t->row = room.at;
            room.at += room.pitch;
        }
        bias = NULL;
    }
    if (!bias && residual && whole && g->s.r_n == 1) {
        t->added = residual;
        t->added_ld = g->s.r_m;
    } else if (!residual && bias && whole && g->s.bias_n == 1) {
        t->added = bias;
        t->added_ld = g->s.bias_m;
    } else if (bias || residual) {
        memset(room.at, 0, (size_t)(at.rows * room.pitch) * sizeof *room.at);
        if (bias)
            add_rows(bias, g->s.bias_m, g->s.bias_n, at.rows, at.cols, room);
        if (residual)
            add_rows(residual, g->s.r_m, g->s.r_n, at.rows, at.cols, room);
        t->added = room.at;
        t->added_ld = room.pitch;
    }
}

/* Sets the addends of a tile in one of several blocks of K: the bias is added in the last one. sum: where the
 * partial sums are. */
static void add_partial_sums(const float *sum, int64_t ld, int is_first, int is_last, struct tile *t) {
    if (!is_first) {
        t->added = sum;
        t->added_ld = ld;
    }
    if (!is_last)
        t->row = t->column = NULL;
}

static void store_tile(struct room from, int64_t rows, int64_t cols, float *c, int64_t c_m, int64_t c_n) {
    const float *tile = from.at;
    for (int64_t r = 0; r < rows; r++, tile += from.pitch, c += c_m) {
        if (c_n == 1)
            copy_row(tile, cols, c);
        else
            for (int64_t i = 0; i < cols; i++)
                c[i * c_n] = tile[i];
    }
}

/* The address of an element of the output. */
static float *cell_of(const struct gemm *g, const struct block *o, int64_t row, int64_t col) {
    return g->c + o->batch0 * g->s.c_batch0 + o->batch1 * g->s.c_batch1 + row * g->s.c_m + col * g->s.c_n;
}

/* Sets where a tile is stored after the last block of K: directly in the output, or in `out`. */
static void set_destination(const struct gemm *g, const struct block *o, struct area at, int whole,
                            struct room out, struct tile *t) {
    const int direct = !g->hook.call && g->s.c_n == 1 && whole;
    t->relu = g->s.act == 1;
    t->clip = g->s.act == 2 ? g->clip : NULL;
    t->to = direct ? cell_of(g, o, at.row, at.col) : out.at;
    t->to_ld = direct ? g->s.c_m : out.pitch;
}

/* Passes a finished tile to the hook, or stores it if it is not in the output yet. */
static int32_t deliver_tile(const struct gemm *g, const struct block *o, struct area at, struct room out,
                            const struct tile *t) {
    if (g->hook.call)
        return call_hook(&g->hook, out.at, out.pitch, o->batch0 * g->s.batch1 + o->batch1, at);
    if (t->to == out.at)
        store_tile(out, at.rows, at.cols, cell_of(g, o, at.row, at.col), g->s.c_m, g->s.c_n);
    return 0;
}

/* The first column of panel p: every NR columns if B is packed, else such that panels have nearly equal
 * widths. */
static int64_t column(const struct gemm *g, int64_t p) {
    if (g->packed || g->codes)
        return smaller(p * NR, g->s.n);
    return smaller(part_begin(ceildiv(g->s.n, VL), p, ceildiv(g->s.n, NR)) * VL, g->s.n);
}

#endif

/* Products in which M, N or K is very small: gemv.py generates the loops over few rows. */

#ifndef GW_GEMM_GEMV_H
#define GW_GEMM_GEMV_H

#include "gemm/problem.h"

/* Applies the activation to a finished tile. */
static void activate(int64_t rows, int64_t vectors, const struct tile *t) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t v = 0; v < vectors; v++) {
            float *at = t->to + r * t->to_ld + v * VL;
            vf x = vf_load(at);
            if (t->relu)
                x = vf_relu(x);
            if (t->clip)
                x = vf_min(vf_max(x, vf_set1(t->clip[0])), vf_set1(t->clip[1]));
            vf_store(at, x);
        }
}

/* Dot products of q with `count` rows. */
static void dot_products(const float *p, int64_t step, int64_t count, const float *q, int64_t k, float *out) {
    int64_t r = 0;
    for (; r + DOT_ROWS <= count; r += DOT_ROWS)
        dots_4(p + r * step, step, q, k, out + r);
    switch (count - r) {
    case 3: dots_3(p + r * step, step, q, k, out + r); break;
    case 2: dots_2(p + r * step, step, q, k, out + r); break;
    case 1: dots_1(p + r * step, step, q, k, out + r); break;
    }
}

/* out = the sum of k rows at p, each multiplied by its element of x. */
static void sum_rows(const float *p, int64_t step, const float *x, int64_t x_step, int64_t k, int64_t cells,
                     float *out) {
    int64_t j = 0;
    memset(out, 0, (size_t)ceildiv(cells, VL) * VL * sizeof *out);
    for (; j + ADDED <= k; j += ADDED)
        add_8(p + j * step, step, x + j * x_step, x_step, cells, out);
    for (; j < k; j++)
        add_1(p + j * step, step, x + j * x_step, x_step, cells, out);
}

/* A product of a matrix and a vector; cells are the elements of the result, which is a row or a column. */
struct line {
    const float *matrix, *vector;
    int64_t cell, matrix_k,
        vector_k; /* strides of the matrix per cell and along K, and of the vector along K */
    int64_t bias, residual, result, is_row; /* strides per cell; is_row: the result is a row */
};

static struct line line_of(const struct gemm *g) {
    const struct gemm_args *s = &g->s;
    if (s->n == 1 && !(s->m == 1 && s->b_n == 1 && s->b_k != 1))
        return (struct line){g->a, g->b, s->a_m, s->a_k, s->b_k, s->bias_m, s->r_m, s->c_m, 0};
    return (struct line){g->b, g->a, s->b_n, s->b_k, s->a_k, s->bias_n, s->r_n, s->c_n, 1};
}

/* Whether the result is a row or a column and its loop here is profitable: short dot products spend most of
 * their time on summing lanes. */
static int is_line(const struct gemm *g) {
    if (g->packed || g->codes || (g->s.m != 1 && g->s.n != 1))
        return 0;
    const struct line l = line_of(g);
    return (l.matrix_k == 1 && l.vector_k == 1 && g->s.k >= 2 * VL) || (l.cell == 1 && g->s.k >= ADDED);
}

/* Computes the cells of a block. */
static int32_t run_line(const struct gemm *g, const struct block *o, float *scratch) {
    float out[LINE + VL] __attribute__((aligned(64)));
    struct line l = line_of(g);
    (void)scratch;
    const int64_t tiles = ceildiv(g->s.m, MR), k = g->s.k;
    const int64_t first = l.is_row ? column(g, o->panel0) : part_begin(g->s.m, o->tile0, tiles);
    const int64_t last = l.is_row ? column(g, o->panel1) : part_begin(g->s.m, o->tile1, tiles);
    const int64_t a = o->batch0 * g->s.a_batch0 + o->batch1 * g->s.a_batch1;
    const int64_t b = o->batch0 * g->s.b_batch0 + o->batch1 * g->s.b_batch1;
    l.matrix += l.is_row ? b : a;
    l.vector += l.is_row ? a : b;
    for (int64_t at = first, cells; at < last; at += cells) {
        cells = smaller(last - at, LINE);
        const struct room to = {out, cells};
        if (l.matrix_k == 1 && l.vector_k == 1)
            dot_products(l.matrix + at * l.cell, l.cell, cells, l.vector, k, out);
        else
            sum_rows(l.matrix + at, l.matrix_k, l.vector, l.vector_k, k, cells, out);
        for (int64_t i = 0; g->scale != 1 && i < cells; i++)
            out[i] *= g->scale;
        if (g->bias)
            add_rows(g->bias + at * l.bias, 0, l.bias, 1, cells, to);
        if (g->residual)
            add_rows(residual_at(g, o, 0, 0) + at * l.residual, 0, l.residual, 1, cells, to);
        const struct tile t = {
            .to = out, .to_ld = cells, .relu = g->s.act == 1, .clip = g->s.act == 2 ? g->clip : NULL};
        if (t.relu || t.clip)
            activate(1, ceildiv(cells, VL), &t);
        if (!g->hook.call) {
            store_tile(to, 1, cells, cell_of(g, o, 0, 0) + at * l.result, 0, l.result);
            continue;
        }
        const struct area area = l.is_row ? (struct area){0, 1, at, cells} : (struct area){at, cells, 0, 1};
        const int64_t batch = o->batch0 * g->s.batch1 + o->batch1;
        const int32_t error = call_hook(&g->hook, out, area.cols, batch, area);
        if (error)
            return error;
    }
    return 0;
}

/* Whether B has few columns that are contiguous along K, like the rows of A. */
static int is_narrow(const struct gemm *g) {
    return !g->packed && !g->codes && g->s.n <= NARROW && g->s.a_k == 1 && g->s.b_k == 1 && g->s.k >= 2 * VL;
}

static int is_short(const struct gemm *g) {
    return is_narrow(g) || (!g->codes && g->s.k >= 1 && g->s.k <= SHORT_K && g->s.m > FEW_ROWS &&
                            (g->packed || g->s.b_n == 1));
}

/* Computes rows of a block, a few at a time, so that cache lines stay in L1 until they are full. */
static void short_rows(const struct gemm *g, const struct block *o, int64_t row, int64_t rows,
                       struct room to) {
    enum { ROW_GROUP = 16 };
    const float *a = row_of_a(g, o, row, 0);
    const float *b = g->b + o->batch0 * g->s.b_batch0 + o->batch1 * g->s.b_batch1;
    float *out = to.at;
    if (is_narrow(g)) {
        for (int64_t r = 0; r < rows; r++)
            dot_products(b, g->s.b_n, g->s.n, a + r * g->s.a_m, g->s.k, out + r * to.pitch);
        return;
    }
    short_fn *const run = short_of[g->s.k - 1];
    const int64_t col0 = column(g, o->panel0);
    for (int64_t r = 0; r < rows; r += ROW_GROUP) {
        const float *a_at = a + r * g->s.a_m;
        const int64_t now = smaller(rows - r, ROW_GROUP);
        if (!g->packed)
            run(a_at, g->s.a_m, g->s.a_k, b + col0, g->s.b_k, now, column(g, o->panel1) - col0,
                out + r * to.pitch, to.pitch);
        for (int64_t p = o->panel0; g->packed && p < o->panel1; p++)
            run(a_at, g->s.a_m, g->s.a_k, b + p * g->s.k * NR, NR, now, column(g, p + 1) - column(g, p),
                out + r * to.pitch + column(g, p) - col0, to.pitch);
    }
}

/* Computes a block with a short K row by row: directly in the output, or in a local buffer as many rows at a
 * time as it holds. */
static int32_t run_short(const struct gemm *g, const struct block *o, float *scratch) {
    enum { PANELS = LINE / NR };
    (void)scratch;
    float out[LINE + VL] __attribute__((aligned(64))), room[2 * (LINE + VL)] __attribute__((aligned(64)));
    const int64_t tiles = ceildiv(g->s.m, MR), last = part_begin(g->s.m, o->tile1, tiles);
    const int direct =
        !g->hook.call && !g->bias && !g->residual && !g->s.act && g->scale == 1 && g->s.c_n == 1;
    struct block part = *o; /* some of its panels */
    for (; part.panel0 < o->panel1; part.panel0 = part.panel1) {
        part.panel1 = smaller(o->panel1, part.panel0 + (direct && !g->packed ? o->panel1 : PANELS));
        const int64_t col = column(g, part.panel0), cols = column(g, part.panel1) - col;
        const int64_t pitch = ceildiv(cols, VL) * VL;
        for (int64_t row = part_begin(g->s.m, o->tile0, tiles), rows; row < last; row += rows) {
            rows = direct ? last - row : smaller(last - row, LINE / pitch);
            const struct area at = {row, rows, col, cols};
            const struct room sums = {out, pitch};
            short_rows(g, &part, row, rows, direct ? (struct room){cell_of(g, o, row, col), g->s.c_m} : sums);
            if (direct)
                continue;
            for (int64_t i = 0; g->scale != 1 && i < rows * pitch; i += VL)
                vf_store(out + i, vf_load(out + i) * vf_set1(g->scale));
            struct tile t = {.to = out};
            set_addends(g, o, at, 0, (struct room){room, pitch}, &t);
            if (t.added)
                add_rows(t.added, t.added_ld, 1, rows, cols, sums);
            if (t.row)
                add_rows(t.row, 0, 1, rows, cols, sums);
            if (t.column)
                add_rows(t.column, t.column_ld, 0, rows, cols, sums);
            t = (struct tile){
                .to = out, .to_ld = pitch, .relu = g->s.act == 1, .clip = g->s.act == 2 ? g->clip : NULL};
            if (t.relu || t.clip)
                activate(rows, pitch / VL, &t);
            const int32_t error = deliver_tile(g, o, at, sums, &t);
            if (error)
                return error;
        }
    }
    return 0;
}

#endif

/* Direct convolution: see direct.py. */

#include "conv/direct.gen.h"

#include "conv/direct_run.h"
#include "movement/scalars.h"

static void copy_vectors(const float *from, int64_t step, int64_t n, float *to) {
    for (; n > 0; n--, from += step, to += VL)
        vf_store(to, vf_load(from));
}

/* Copies n columns from column x of the image on, every step-th; zeros outside the image. */
static void copy_columns(const struct conv *g, const float *row, int64_t x, int64_t n, int64_t step,
                         float *to) {
    const struct direct_args *s = &g->s;
    const int64_t first = smaller(n, x < 0 ? ceildiv(-x, step) : 0);
    const int64_t inside = x < s->w ? smaller(n, ceildiv(s->w - x, step)) : 0;
    const int64_t last = inside > first ? inside : first;
    for (int64_t i = 0; i < first * g->lanes; i++)
        to[i] = 0;
    if (g->lanes == 1)
        copy_scalars(row + (x + first * step) * s->x_w, step * s->x_w, last - first, to + first);
    else
        copy_vectors(row + (x + first * step) * s->x_w, step * s->x_w, last - first, to + first * VL);
    for (int64_t i = last * g->lanes; i < n * g->lanes; i++)
        to[i] = 0;
}

/* Splits columns by their remainder modulo `step`: copies n columns of each of the first `planes` remainders,
 * from column x of a dense row on, to planes that are g->plane apart. Blocks inside the image are transposed
 * in registers. */
static void copy_planes(const struct conv *g, const float *row, int64_t x, int64_t n, int64_t step,
                        int64_t planes, float *to) {
    float block[VL * VL] __attribute__((aligned(64)));
    const int64_t first = smaller(n, x < 0 ? ceildiv(-x, step) : 0), past = g->s.w - x - planes + 1;
    const int64_t last = larger(first, smaller(n, past > 0 ? ceildiv(past, step) : 0));
    for (int64_t p = 0; p < planes && (first > 0 || last < n); p++) {
        copy_columns(g, row, x + p, first, step, to + p * g->plane);
        copy_columns(g, row, x + p + last * step, n - last, step, to + p * g->plane + last);
    }
    for (int64_t i = first; i < last; i += VL)
        for (int64_t p = 0; p < planes; p += VL) {
            const int64_t rows = smaller(VL, last - i), cols = smaller(VL, planes - p);
            transpose(row + x + i * step + p, step, rows, cols, block, VL);
            for (int64_t c = 0; c < cols; c++)
                copy_row(block + c * VL, rows, to + (p + c) * g->plane + i);
        }
}

static void copy_row_of_blocks(const struct conv *g, int64_t row, int64_t c, int64_t x, int64_t n,
                               int64_t step, int64_t planes, float *to) {
    const float *from = g->x + row + c * g->s.x_c;
    if (g->lanes == 1 && g->s.x_w == 1 && planes >= TRANSPOSED_PLANES) {
        copy_planes(g, from, x, n, step, planes, to);
        return;
    }
    for (int64_t p = 0; p < planes; p++)
        copy_columns(g, from, x + p, n, step, to + p * g->plane);
}

static struct conv conv_of_blocks(void *const *buf, const int64_t *arg) {
    struct conv g = conv_of(buf, arg);
    g.lanes = VL;
    g.group_blocks = ceildiv(g.s.cin, VL);
    g.families = blocked;
    return g;
}

static struct conv conv_of_planes(void *const *buf, const int64_t *arg) {
    struct conv g = conv_of(buf, arg);
    g.lanes = 1;
    g.group_blocks = g.s.cin;
    g.families = planar;
    return g;
}

GW_KERNEL(gw_direct_f32) {
    struct conv g = conv_of_blocks(buf, arg);
    return run_bands(&g, begin, end, scratch);
}

GW_KERNEL(gw_direct_planar_f32) {
    struct conv g = conv_of_planes(buf, arg);
    return run_bands(&g, begin, end, scratch);
}

GW_KERNEL(gw_direct_nhwc_f32) {
    struct conv g = conv_of_blocks(buf, arg);
    g.nhwc = 1;
    return run_bands(&g, begin, end, scratch);
}

GW_KERNEL(gw_direct_planar_nhwc_f32) {
    struct conv g = conv_of_planes(buf, arg);
    g.nhwc = 1;
    return run_bands(&g, begin, end, scratch);
}

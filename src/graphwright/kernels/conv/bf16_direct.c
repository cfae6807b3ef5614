/* Direct convolution in bf16: see bf16_direct.py. Here a channel of direct_run.h is a pair of channels. */

#include "library/pairs.h"

#include "conv/bf16_direct.gen.h"

#include "conv/direct_run.h"

/* Interleaves a pixel's channels of two blocks as pairs; second is NULL if there is no second block. */
static void copy_pixel(const float *first, const float *second, int native, float *to) {
    uint16_t *out = (uint16_t *)(void *)to;
    *(vh_any *)out = rounded(vf_load(first), native);
    *(vh_any *)(out + VL) = second ? rounded(vf_load(second), native) : (vh){0};
}

static void copy_pixels(const struct conv *g, const float *from, int has_second, int64_t step, int64_t n,
                        float *to) {
    for (; n > 0; n--, from += step, to += VL)
        copy_pixel(from, has_second ? from + g->s.x_c : NULL, g->native, to);
}

static void copy_row_of_blocks(const struct conv *g, int64_t row, int64_t c, int64_t x, int64_t n,
                               int64_t step, int64_t planes, float *to) {
    const struct direct_args *s = &g->s;
    const float *from = g->x + row + 2 * c * s->x_c;
    const int has_second = 2 * c + 1 < g->group_blocks;
    for (int64_t p = 0; p < planes; p++, x++, to += g->plane) {
        const int64_t first = smaller(n, x < 0 ? ceildiv(-x, step) : 0);
        const int64_t inside = x < s->w ? smaller(n, ceildiv(s->w - x, step)) : 0;
        const int64_t last = inside > first ? inside : first;
        memset(to, 0, (size_t)(first * VL) * sizeof *to);
        copy_pixels(g, from + (x + first * step) * s->x_w, has_second, step * s->x_w, last - first,
                    to + first * VL);
        memset(to + last * VL, 0, (size_t)((n - last) * VL) * sizeof *to);
    }
}

static int32_t run(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch,
                   int native) {
    struct conv g = conv_of(buf, arg);
    g.lanes = VL;
    g.pairs = 1;
    g.native = native;
    g.group_blocks = ceildiv(g.s.cin, VL);
    g.s.cin /= 2;
#if VL == 16
    g.families = native ? pairs : halves;
#else
    g.families = halves;
#endif
    return run_bands(&g, begin, end, scratch);
}

GW_KERNEL(gw_direct_bf16) { return run(buf, arg, begin, end, scratch, has_bf16()); }

GW_KERNEL(gw_direct_bf16_wide) { return run(buf, arg, begin, end, scratch, 0); }

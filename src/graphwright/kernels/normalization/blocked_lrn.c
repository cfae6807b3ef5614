/* Local response normalization: see blocked_lrn.py. */

#include "normalization/blocked_lrn.gen.h"

#include "library/bits.h"
#include "library/sizes.h"
#include "library/templates.h"

struct lrn {
    struct lrn_args s;
    vf scale, beta, bias; /* scale is alpha / size */
    int roots;            /* beta is 3/4 */
    int64_t before;       /* channels of a window before its center */
    int64_t pitch;        /* elements per pixel in the buffer of squares: zeros, channels, zeros */
    float *squares;
};

/* Squares n pixels; lanes without a channel become 0, whatever they contain. */
static void square(const struct lrn *g, const float *x, int64_t n) {
    const int64_t channels = g->s.channels;
    for (int64_t c = 0; c < channels; c += VL, x += g->s.x_cb) {
        float *to = g->squares + g->before + c;
        const vi inside = vi_first(smaller(channels - c, VL));
        for (int64_t i = 0; i < n; i++, to += g->pitch) {
            const vf v = vf_load(x + i * VL);
            vf_store(to, (vf)((vi)(v * v) & inside));
        }
    }
}

GW_INLINE void normalize(const struct lrn *g, const float *x, float *y, int64_t n, int roots) {
    for (int64_t c = 0; c < g->s.channels; c += VL, x += g->s.x_cb, y += g->s.y_cb) {
        const float *from = g->squares + c;
        for (int64_t i = 0; i < n; i++, from += g->pitch) {
            vf total = vf_load(from);
            for (int64_t k = 1; k < g->s.size; k++)
                total += vf_load(from + k);
            const vf base = vf_fma(g->scale, total, g->bias);
            vf power;
            if (roots) {
                const vf root = VF_MATH(sqrt)(base);
                power = root * VF_MATH(sqrt)(root);
            } else {
                power = VF_MATH(pow)(base, g->beta);
            }
            vf_store(y + i * VL, vf_load(x + i * VL) / power);
        }
    }
}

/* Computes n adjacent pixels, at most PIXELS. */
static void run_pixels(const struct lrn *g, const float *x, float *y, int64_t n) {
    square(g, x, n);
    if (g->roots)
        normalize(g, x, y, n, 1);
    else
        normalize(g, x, y, n, 0);
}

static struct lrn make_lrn(const int64_t *arg, float *scratch) {
    struct lrn g = {.squares = scratch};
    memcpy(&g.s, arg, sizeof g.s);
    const double beta = double_of(g.s.beta);
    g.scale = vf_set1((float)(double_of(g.s.alpha) / (double)g.s.size));
    g.beta = vf_set1((float)beta);
    g.bias = vf_set1((float)double_of(g.s.bias));
    g.roots = beta == 0.75;
    g.before = (g.s.size - 1) / 2;
    g.pitch = ceildiv(g.s.channels, VL) * VL + g.s.size - 1;
    if (g.s.x_h == g.s.w * VL && g.s.y_h == g.s.w * VL) {
        g.s.w *= g.s.h; /* all pixels form one row */
        g.s.h = 1;
    }
    memset(g.squares, 0, (size_t)(g.pitch * PIXELS) * sizeof *g.squares);
    return g;
}

GW_KERNEL(gw_lrn_blocked_f32) {
    const float *const x = buf[LRN_X];
    float *const y = buf[LRN_Y];
    if (begin >= end)
        return 0;
    const struct lrn g = make_lrn(arg, scratch);
    const struct lrn_args *s = &g.s;
    const int64_t pixels = s->h * s->w, groups = ceildiv(pixels, PIXELS);
    for (; begin < end; begin++) {
        const int64_t image = quotient(begin, groups), group = begin - image * groups;
        const int64_t last = smaller(pixels, (group + 1) * PIXELS);
        for (int64_t at = group * PIXELS, n; at < last; at += n) {
            const int64_t row = quotient(at, s->w), column = at - row * s->w;
            n = smaller(s->w - column, last - at);
            run_pixels(&g, x + image * s->x_n + row * s->x_h + column * VL,
                       y + image * s->y_n + row * s->y_h + column * VL, n);
        }
    }
    return 0;
}

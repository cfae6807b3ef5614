/* Transposed convolution by scattering: see scattered_transpose.py. */

#include "library/hook.h"
#include "library/sizes.h"
#include "library/tile.h"

#include "conv/scattered_transpose.gen.h"

#include "conv/phases.h"

struct transposed {
    struct scattered_transpose_args s;
    const float *x, *w, *bias;
    float *y;
    struct hook hook;
    int64_t taps;             /* products of a pixel: features times taps */
    int64_t width;            /* columns that are multiplied at once */
    int64_t shift[MOST_TAPS]; /* by which tap kx is shifted in a row of sums of all phases */
    int64_t length;           /* elements of a row of sums of one phase */
    int64_t ring;             /* rows of sums that are kept: those that one input row adds to or finishes */
    int64_t first_group, row_groups, band_groups; /* of stride_h output rows */
    float *products, *columns, *sums, *row;       /* scratch */
};

/* Rows [first, last) of the output of one group of an image, counted from the first padded one. */
struct band {
    const float *x;
    int64_t image, group, first, last;
};

/* Computes products[tap][column] of n pixels of input row i from column j on. */
static void multiply(const struct transposed *t, const struct band *o, int64_t i, int64_t j, int64_t n) {
    const struct scattered_transpose_args *s = &t->s;
    const int64_t channels = s->groups * s->cin;
    const float *const w = t->w + o->group * s->cin * BLOCK;
    for (int64_t at = 0; at < n; at += NR) {
        const int64_t left = smaller(NR, n - at), vectors = ceildiv(left, VL);
        const float *x = o->x + i * s->x_h + j + at;
        int64_t ld = s->x_c;
        if (left % VL) { /* a tile reads whole vectors */
            for (int64_t c = 0; c < s->cin; c++)
                for (int64_t v = 0; v < left; v += VL)
                    vf_store(t->columns + c * NR + v, load_most(x + c * ld + v, left - v));
            x = t->columns;
            ld = NR;
        }
        for (int64_t row = 0; row < t->taps; row += MR) {
            const struct tile tile = {.to = t->products + row * t->width + at, .to_ld = t->width};
            run_tile(smaller(MR, t->taps - row), vectors, s->cin,
                     w + row / BLOCK * channels * BLOCK + row % BLOCK, x, ld, &tile);
        }
    }
}

GW_INLINE void add_row(const float *from, int64_t n, float *to) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(to + i, vf_load(to + i) + vf_load(from + i));
    if (i < n)
        vf_store_n(to + i, vf_load_n(to + i, n - i) + vf_load(from + i), n - i);
}

/* The sums of an output row of a feature: [phase of columns][column], in a ring of rows. */
GW_INLINE float *sums_of(const struct transposed *t, int64_t feature, int64_t row) {
    return t->sums + (feature * t->ring + row % t->ring) * t->s.stride_w * t->length;
}

/* Adds the products of n pixels to the sums of the rows of the band. */
static void scatter(const struct transposed *t, const struct band *o, int64_t i, int64_t j, int64_t n) {
    const struct scattered_transpose_args *s = &t->s;
    for (int64_t ky = 0; ky < s->kh; ky++) {
        const int64_t row = i * s->stride_h + ky * s->dilation_h;
        if (row < o->first || row >= o->last)
            continue;
        const float *from = t->products + ky * s->kw * t->width;
        float *to = sums_of(t, 0, row) + j;
        for (int64_t feature = 0; feature < s->cout; feature++) {
            for (int64_t kx = 0; kx < s->kw; kx++)
                add_row(from + kx * t->width, n, to + t->shift[kx]);
            from += s->kh * s->kw * t->width;
            to += t->ring * s->stride_w * t->length;
        }
    }
}

/* Stores an output row of all features, or passes it to the hook. Clears its sums. */
static int32_t finish_row(const struct transposed *t, const struct band *o, int64_t row) {
    const struct scattered_transpose_args *s = &t->s;
    const int64_t pitch = t->length * s->stride_w, channel = o->group * s->cout, oy = row - s->pad_top;
    const int relu = s->act && !t->hook.call;
    for (int64_t c = 0; c < s->cout; c++) {
        float *const sums = sums_of(t, c, row), *const to = t->row + (t->hook.call ? c * pitch : 0);
        interleave_phases((struct phases){sums, t->length, t->length, s->stride_w},
                          t->bias ? t->bias[channel + c] : 0, relu, to);
        memset(sums, 0, (size_t)pitch * sizeof *sums);
        if (!t->hook.call)
            copy_row(to + s->pad_left, s->ow,
                     t->y + o->image * s->y_n + (channel + c) * s->y_c + oy * s->y_h);
    }
    if (!t->hook.call)
        return 0;
    const struct area at = {channel, s->cout, oy * s->ow, s->ow};
    return call_hook(&t->hook, t->row + s->pad_left, pitch, o->image, at);
}

static int32_t run_band(const struct transposed *t, const struct band *o) {
    const struct scattered_transpose_args *s = &t->s;
    const int64_t before = o->first - (s->kh - 1) * s->dilation_h;
    memset(t->sums, 0, (size_t)(s->cout * t->ring * s->stride_w * t->length) * sizeof *t->sums);
    for (int64_t i = before > 0 ? ceildiv(before, s->stride_h) : 0; i * s->stride_h < o->last; i++) {
        for (int64_t j = 0; i < s->h && j < s->w; j += t->width) {
            const int64_t n = smaller(t->width, s->w - j);
            multiply(t, o, i, j, n);
            scatter(t, o, i, j, n);
        }
        const int64_t row = i * s->stride_h, end = smaller(o->last, row + s->stride_h);
        for (int64_t done = larger(o->first, row); done < end; done++) {
            const int32_t error = finish_row(t, o, done);
            if (error)
                return error;
        }
    }
    return 0;
}

/* Sizes of bands, as in the grid, and the parts of scratch. */
static void prepare(struct transposed *t, float *scratch) {
    const struct scattered_transpose_args *s = &t->s;
    const int64_t reach = (s->kw - 1) * s->dilation_w / s->stride_w, columns = s->w + reach;
    const int64_t needed = ceildiv(s->pad_left + s->ow, s->stride_w);
    t->taps = s->cout * s->kh * s->kw;
    t->width = larger(1, PRODUCTS / (larger(1, t->taps) * NR)) * NR;
    t->length = ceildiv(larger(columns, needed), VL) * VL;
    t->ring = (s->kh - 1) * s->dilation_h + s->stride_h;
    t->first_group = s->pad_top / s->stride_h;
    t->row_groups = ceildiv(s->pad_top + s->oh, s->stride_h) - t->first_group;
    const int64_t halo = ceildiv((s->kh - 1) * s->dilation_h, s->stride_h);
    t->band_groups = larger(larger(1, HALOS * halo), ceildiv(t->row_groups, UNITS));
    for (int64_t kx = 0, x = 0; kx < s->kw; kx++, x += s->dilation_w)
        t->shift[kx] = x % s->stride_w * t->length + x / s->stride_w;
    t->products = scratch;
    t->columns = t->products + t->taps * t->width;
    t->row = t->columns + s->cin * NR;
    t->sums = t->row + s->cout * s->stride_w * t->length;
}

GW_KERNEL(gw_scattered_transpose_f32) {
    struct transposed t = {
        .x = buf[SCATTERED_TRANSPOSE_X],
        .w = buf[SCATTERED_TRANSPOSE_W],
        .bias = buf[SCATTERED_TRANSPOSE_BIAS],
        .y = buf[SCATTERED_TRANSPOSE_Y],
        .hook = hook_after(buf, SCATTERED_TRANSPOSE_OPERANDS, arg, SCATTERED_TRANSPOSE_ARGS),
    };
    memcpy(&t.s, arg, sizeof t.s);
    if (t.s.ow == 0)
        return 0;
    prepare(&t, scratch);
    const int64_t bands = ceildiv(t.row_groups, t.band_groups);
    for (int64_t index = begin; index < end; index++) {
        const int64_t outer = index / bands, begin_group = index % bands * t.band_groups;
        const int64_t end_group = smaller(t.row_groups, begin_group + t.band_groups);
        const struct band o = {
            .image = outer / t.s.groups,
            .group = outer % t.s.groups,
            .x = t.x + outer / t.s.groups * t.s.x_n + outer % t.s.groups * t.s.cin * t.s.x_c,
            .first = larger(t.s.pad_top, (t.first_group + begin_group) * t.s.stride_h),
            .last = smaller(t.s.pad_top + t.s.oh, (t.first_group + end_group) * t.s.stride_h),
        };
        const int32_t error = run_band(&t, &o);
        if (error)
            return error;
    }
    return 0;
}

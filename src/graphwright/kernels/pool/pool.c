/* Pooling: see pool.py. */

#include "pool/pool.gen.h"

#include "library/lanes.h"
#include "library/templates.h"
#include "movement/scalars.h"
#include "pool/pool_rows.h"

/* Elements 0, 2, 4, ... of the 2 * VL elements at p. */
GW_INLINE vf vf_load_even(const float *p) {
    return __builtin_shufflevector(vf_load(p), vf_load(p + VL), LANES(EVEN));
}

GW_INLINE vf vf_even(vf a, vf b) { return __builtin_shufflevector(a, b, LANES(EVEN)); }
GW_INLINE vf vf_odd(vf a, vf b) { return __builtin_shufflevector(a, b, LANES(ODD)); }

/* The phases of a line, the remainders of its columns modulo the stride: `length` elements of each. */
struct phases {
    float *first;
    int64_t length, stride;
};

/* Splits a line by phase, as far as windows have taps there, so that taps are dense vectors. */
static struct phases split_line(const struct pool_args *t, const float *line, float *first) {
    const int64_t stride = t->stride[W], kernel = t->kernel[W], dilation = t->dilation[W];
    const struct phases p = {first, t->out[W] + (kernel - 1) * dilation / stride + VL, stride};
    for (int64_t k = 0; k < kernel && k < stride; k++) {
        const int64_t phase = k * dilation % stride;
        copy_scalars(line + phase, stride, p.length, first + phase * p.length);
    }
    return p;
}

/* Whether windows are pairs of columns that do not overlap, all inside the image. */
GW_INLINE int has_pairs(const struct pool_args *t) {
    return t->kernel[W] == 2 && t->stride[W] == 2 && t->dilation[W] == 1 && t->before[W] == 0 &&
           2 * t->out[W] <= t->size[W];
}

GW_INLINE float *output_row(const struct pool_args *t, float *y, const struct position *p) {
    return y + output_at(t, p);
}

#define TEMPLATE "pool/pool_of.h"
#include "pool/each_reduction.h"

/* The divisor of output position o along an axis. */
static int64_t divisor(const struct pool_args *t, int axis, int64_t o) {
    return divisor_of(o * t->stride[axis] - t->before[axis], t->size[axis], t->kernel[axis],
                      t->dilation[axis], t->after[axis], t->count_include_pad);
}

/* Scratch holds the line and its phases. */
GW_KERNEL(gw_max_pool_f32) {
    const struct pool_args *t = pool_args(arg);
    if (t->out[W] == 0 || begin >= end)
        return 0;
    float *line = scratch, *phases = max_line(t, line);
    struct position p = position_of(t, begin);
    int pairs = has_pairs(t);
    for (int64_t row = begin; row < end; row++, next_position(t, &p)) {
        if (pairs && max_pairs(t, buf[POOL_X], output_row(t, buf[POOL_Y], &p), &p, 0, 1))
            continue;
        max_rows(t, buf[POOL_X], line + t->before[W], &p);
        max_reduce_columns(t, line, phases, output_row(t, buf[POOL_Y], &p));
    }
    return 0;
}

/* Scratch holds the line, one divisor for each column, and the phases of the line. */
GW_KERNEL(gw_average_pool_f32) {
    const struct pool_args *t = pool_args(arg);
    int64_t out = t->out[W];
    if (out == 0 || begin >= end)
        return 0;
    float *line = scratch, *columns = average_line(t, line);
    for (int64_t o = 0; o < out; o++)
        columns[o] = (float)divisor(t, W, o);
    struct position p = position_of(t, begin);
    int pairs = has_pairs(t);
    for (int64_t row = begin; row < end; row++, next_position(t, &p)) {
        float *y = output_row(t, buf[POOL_Y], &p), count = (float)(divisor(t, D, p.d) * divisor(t, H, p.h));
        if (pairs && average_pairs(t, buf[POOL_X], y, &p, 1, 2 * count))
            continue;
        average_rows(t, buf[POOL_X], line + t->before[W], &p);
        average_reduce_columns(t, line, columns + out, y);
        vf rows = vf_set1(count);
        int64_t o = 0;
        for (; o + VL <= out; o += VL)
            vf_store(y + o, vf_load(y + o) / (rows * vf_load(columns + o)));
        if (o < out)
            vf_store_n(y + o, vf_load_n(y + o, out - o) / (rows * vf_load_n(columns + o, out - o)), out - o);
    }
    return 0;
}

/* Of equal maxima the first counts; if there is a NaN, the first NaN. */
GW_KERNEL(gw_max_pool_indices_f32) {
    (void)scratch;
    const struct pool_args *t = pool_args(arg);
    const int64_t *size = t->size;
    if (begin >= end)
        return 0;
    struct position p = position_of(t, begin);
    for (int64_t row = begin; row < end; row++, next_position(t, &p)) {
        const float *plane = (const float *)buf[POOL_X] + p.n * t->xs[0] + p.c * t->xs[1];
        float *y = output_row(t, buf[POOL_Y], &p);
        int64_t *indices = (int64_t *)buf[POOL_INDICES] + row * t->out[W];
        const struct taps planes = taps_of(t, D, p.d), rows = taps_of(t, H, p.h);
        for (int64_t o = 0; o < t->out[W]; o++) {
            float best = -__builtin_inff();
            int64_t at = -1;
            const struct taps columns = taps_of(t, W, o);
            for (int64_t kd = planes.first; kd < planes.last; kd++)
                for (int64_t kh = rows.first; kh < rows.last; kh++)
                    for (int64_t kw = columns.first; kw < columns.last; kw++) {
                        int64_t z = p.d * t->stride[D] - t->before[D] + kd * t->dilation[D];
                        int64_t i = p.h * t->stride[H] - t->before[H] + kh * t->dilation[H];
                        int64_t j = o * t->stride[W] - t->before[W] + kw * t->dilation[W];
                        float v = plane[z * t->xs[2] + i * t->xs[3] + j];
                        if (at >= 0 && !(v > best || (v != v && best == best)))
                            continue;
                        best = v;
                        at = t->column_major ? (j * size[H] + i) * size[D] + z
                                             : (z * size[H] + i) * size[W] + j;
                    }
            y[o] = best;
            indices[o] = at < 0 ? -1 : (p.n * t->channels + p.c) * size[D] * size[H] * size[W] + at;
        }
    }
    return 0;
}

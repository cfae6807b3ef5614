/* Transposed convolution: see conv_transpose.py. */

#include "library/hook.h"
#include "library/sizes.h"
#include "library/tile.h"

#include "conv/conv_transpose.gen.h"
#include "conv/phases.h"

struct transposed {
    struct conv_transpose_args s;
    const float *x, *w, *bias;
    float *y;
    struct hook hook;
    float *phases, *tile, *columns; /* scratch */
};

/* Output channels [row, row + rows) of one group, and columns of an output row from j on, in units of the
 * stride. Columns beyond the edges of x are read from a zero-padded copy: `copied` columns of each channel,
 * from column copied_at on. */
struct part {
    const float *x; /* x of this image and group */
    int64_t batch, group, oz, oy, row, rows, j, vectors, copied, copied_at;
};

/* The input row (or plane) that a tap contributes to an output row, which is `distance` rows after the tap's
 * first output row; -1 if none. */
GW_INLINE int64_t source_of(int64_t distance, int64_t stride, int64_t size) {
    if (distance < 0 || distance % stride || distance / stride >= size)
        return -1;
    return distance / stride;
}

GW_INLINE int64_t input_plane(const struct conv_transpose_args *s, int64_t oz, int64_t kz) {
    return source_of(oz + s->pad_front - kz * s->dilation_d, s->stride_d, s->d);
}

GW_INLINE int64_t input_row(const struct conv_transpose_args *s, int64_t oy, int64_t ky) {
    return source_of(oy + s->pad_top - ky * s->dilation_h, s->stride_h, s->h);
}

/* Copies columns [at, at + n) of each input channel of the input rows that oy reads; zeros outside x. */
static void copy_columns(const struct transposed *t, const struct part *p, int64_t at, int64_t n) {
    const struct conv_transpose_args *s = &t->s;
    int64_t first = at < 0 ? smaller(-at, n) : 0, last = smaller(s->w - at, n);
    last = last < first ? first : last;
    for (int64_t k = 0; k < s->kd * s->kh; k++) {
        int64_t iz = input_plane(s, p->oz, k / s->kh), iy = input_row(s, p->oy, k % s->kh);
        for (int64_t c = 0; iz >= 0 && iy >= 0 && c < s->cin; c++) {
            float *to = t->columns + (k * s->cin + c) * n;
            const float *from = p->x + c * s->x_channel + iz * s->x_depth + iy * s->x_row + at;
            memset(to, 0, (size_t)first * sizeof *to);
            memcpy(to + first, from + first, (size_t)(last - first) * sizeof *to);
            memset(to + last, 0, (size_t)(n - last) * sizeof *to);
        }
    }
}

/* Computes one phase of a part: the sum over its taps, to [MR x NR]. */
static void sum_phase(const struct transposed *t, const struct part *p, int64_t phase, float *to) {
    const struct conv_transpose_args *s = &t->s;
    int64_t channels = s->groups * s->cin, n = p->vectors * VL;
    const float *w = t->w + p->row % BLOCK + p->row / BLOCK * (s->kd * s->kh * s->kw * channels * BLOCK);
    struct tile tile = {.to = to, .to_ld = NR};
    for (int64_t k = 0; k < s->kd * s->kh; k++) {
        int64_t iz = input_plane(s, p->oz, k / s->kh), iy = input_row(s, p->oy, k % s->kh);
        for (int64_t kx = 0; iz >= 0 && iy >= 0 && kx < s->kw; kx++) {
            if ((kx * s->dilation_w - phase) % s->stride_w)
                continue;
            int64_t at = p->j + (phase - kx * s->dilation_w) / s->stride_w;
            if (at + n <= 0 || at >= s->w)
                continue;
            const float *b = p->x + iz * s->x_depth + iy * s->x_row + at;
            if (p->copied)
                b = t->columns + k * s->cin * p->copied + at - p->copied_at;
            run_tile(p->rows, p->vectors, s->cin,
                     w + ((k * s->kw + kx) * channels + p->group * s->cin) * BLOCK, b,
                     p->copied ? p->copied : s->x_channel, &tile);
            tile.added = to;
            tile.added_ld = NR;
        }
    }
    if (!tile.added) /* no tap contributes to this part */
        memset(to, 0, (size_t)(p->rows * NR) * sizeof *to);
}

/* Interleaves the phases of each row, and adds the bias. Applies the activation unless there is a hook. */
static void interleave(const struct transposed *t, const struct part *p, float *to, int64_t ld) {
    const int relu = t->s.act && !t->hook.call;
    for (int64_t r = 0; r < p->rows; r++, to += ld) {
        const struct phases row = {t->phases + r * NR, MR * NR, p->vectors * VL, t->s.stride_w};
        interleave_phases(row, t->bias ? t->bias[p->group * t->s.cout + p->row + r] : 0, relu, to);
    }
}

/* Stores a part, or passes it to the hook. ox0: the output column of its first element, which may be outside.
 */
static int32_t finish(const struct transposed *t, const struct part *p) {
    const struct conv_transpose_args *s = &t->s;
    int64_t width = p->vectors * VL * s->stride_w, ox0 = p->j * s->stride_w - s->pad_left,
            pitch = NR * s->stride_w;
    int64_t first = ox0 < 0 ? -ox0 : 0, last = smaller(width, s->ow - ox0);
    int64_t channel = p->group * s->cout + p->row;
    if (last <= first)
        return 0;
    if (t->hook.call) { /* a hook stores the result itself, so y is NULL */
        interleave(t, p, t->tile, pitch);
        const int64_t pixel = (p->oz * s->oh + p->oy) * s->ow + ox0 + first;
        return call_hook(&t->hook, t->tile + first, pitch, p->batch,
                         (struct area){channel, p->rows, pixel, last - first});
    }
    float *y =
        t->y + p->batch * s->y_batch + channel * s->y_channel + p->oz * s->y_depth + p->oy * s->y_row + ox0;
    if (first == 0 && last == width) {
        interleave(t, p, y, s->y_channel);
        return 0;
    }
    interleave(t, p, t->tile, pitch);
    for (int64_t r = 0; r < p->rows; r++)
        memcpy(y + r * s->y_channel + first, t->tile + r * pitch + first, (size_t)(last - first) * sizeof *y);
    return 0;
}

/* Computes all output channels of the columns from p->j on. */
static int32_t run_columns(const struct transposed *t, struct part *p) {
    const struct conv_transpose_args *s = &t->s;
    int64_t reach = (s->kw - 1) * s->dilation_w / s->stride_w, n = p->vectors * VL;
    p->copied_at = p->j - reach;
    p->copied = p->copied_at < 0 || p->j + n > s->w ? n + reach : 0;
    if (p->copied)
        copy_columns(t, p, p->copied_at, p->copied);
    for (p->row = 0; p->row < s->cout; p->row += MR) {
        p->rows = smaller(MR, s->cout - p->row);
        for (int64_t phase = 0; phase < s->stride_w; phase++)
            sum_phase(t, p, phase, t->phases + phase * MR * NR);
        int32_t error = finish(t, p);
        if (error)
            return error;
    }
    return 0;
}

/* Computes one unit of the grid: a part of an output row. */
static int32_t run_unit(const struct transposed *t, int64_t index) {
    const struct conv_transpose_args *s = &t->s;
    int64_t first = s->pad_left / s->stride_w, last = (s->ow - 1 + s->pad_left) / s->stride_w + 1;
    int64_t units = (last - first + UNIT_COLUMNS - 1) / UNIT_COLUMNS;
    first += index % units * UNIT_COLUMNS;
    last = smaller(last, first + UNIT_COLUMNS);
    index /= units;
    struct part p = {.oy = index % s->oh, .oz = index / s->oh % s->od};
    index /= s->oh * s->od;
    p.group = index % s->groups;
    p.batch = index / s->groups;
    p.x = t->x + p.batch * s->x_batch + p.group * s->cin * s->x_channel;
    for (p.j = first; p.j < last; p.j += NR) {
        p.vectors = (smaller(NR, last - p.j) + VL - 1) / VL;
        int32_t error = run_columns(t, &p);
        if (error)
            return error;
    }
    return 0;
}

GW_KERNEL(gw_conv_transpose_f32) {
    struct transposed t = {.x = buf[CONV_TRANSPOSE_X],
                           .w = buf[CONV_TRANSPOSE_W],
                           .bias = buf[CONV_TRANSPOSE_BIAS],
                           .y = buf[CONV_TRANSPOSE_Y]};
    memcpy(&t.s, arg, sizeof t.s);
    t.hook = hook_after(buf, CONV_TRANSPOSE_OPERANDS, arg, CONV_TRANSPOSE_ARGS);
    t.phases = scratch;
    t.tile = t.phases + t.s.stride_w * MR * NR;
    t.columns = t.tile + t.s.stride_w * MR * NR;
    if (t.s.ow == 0)
        return 0;
    for (int64_t index = begin; index < end; index++) {
        int32_t error = run_unit(&t, index);
        if (error)
            return error;
    }
    return 0;
}

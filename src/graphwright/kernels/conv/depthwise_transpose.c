/* Transposed depthwise convolution: see depthwise_transpose.py. */

#include "library/hook.h"
#include "library/sizes.h"

#include "conv/depthwise_transpose.gen.h"
#include "conv/phases.h"

/* The taps of an axis that contribute to one output position are `step` taps apart, and read elements that
 * are `back` apart.
 */
struct axis {
    int64_t taps, stride, dilation, step, back;
};

static struct axis axis_of(int64_t taps, int64_t stride, int64_t dilation) {
    struct axis a = {taps, stride, dilation, .step = 1};
    while (a.step * dilation % stride)
        a.step++;
    a.back = a.step * dilation / stride;
    return a;
}

/* The first of the taps that contribute to an output position, and the element that it reads. */
struct source {
    int64_t tap, element;
};

static struct source source_of(const struct axis *a, int64_t position) {
    struct source first = {0, 0};
    while (first.tap < a->taps && (position - first.tap * a->dilation) % a->stride)
        first.tap++;
    first.element = (position - first.tap * a->dilation) / a->stride;
    return first;
}

struct transposed {
    struct depthwise_transpose_args s;
    struct axis depth, height, width;
    struct hook hook;
    int by_strides;       /* computes rows by strides, not by phases */
    int64_t length;       /* columns of a phase of a row: 2 * VL, or a multiple of 4 * VL */
    int64_t reach, pitch; /* zeros before a row of the image; elements of the copy of a row */
    int64_t image_rows;   /* rows of the image that a band reads, at most */
    float *rows, *phases; /* scratch: rows of the image; output rows of a band, by phase */
    float *last;          /* scratch: the end of an output row, interleaved */
    float *out;           /* scratch: the output rows of a band, for a hook */
};

/* A band of output rows of a channel. `top` is the first row of the image that it reads. */
struct band {
    const float *image, *w;
    float bias, *to;
    int64_t to_ld, rows, top;
    struct source planes, lines[BAND]; /* of the planes and rows of the image, for each output row */
};

/* Copies the rows of the image that a band reads; zeros outside it. The zeros beside rows stay from band to
 * band.
 */
static void copy_rows(const struct transposed *t, const struct band *b) {
    const struct depthwise_transpose_args *s = &t->s;
    const int64_t columns = smaller(s->w, t->pitch - t->reach);
    float *to = t->rows + t->reach;
    int64_t z = b->planes.element;
    for (int64_t kz = b->planes.tap; kz < s->kd; kz += t->depth.step, z -= t->depth.back)
        for (int64_t iy = b->top; iy < b->top + t->image_rows; iy++, to += t->pitch) {
            const int inside = z >= 0 && z < s->d && iy >= 0 && iy < s->h;
            if (inside)
                copy_row(b->image + z * s->x_depth + iy * s->x_row, columns, to);
            else
                memset(to, 0, (size_t)columns * sizeof *to);
        }
}

/* Computes two times two vectors of a phase. They begin at `to` and `to + apart_to`, and tap `across` of them
 * reads columns from `in` and `in + apart` on.
 */
GW_INLINE void sum_columns(const struct transposed *t, const struct band *b, struct source line,
                           int64_t across, const float *in, int64_t apart, float *to, int64_t apart_to) {
    const struct depthwise_transpose_args *s = &t->s;
    vf y0 = {0}, y1 = {0}, y2 = {0}, y3 = {0};
    in += (line.element - b->top) * t->pitch;
    for (int64_t kz = b->planes.tap; kz < s->kd; kz += t->depth.step, in += t->image_rows * t->pitch) {
        const float *row = in;
        for (int64_t ky = line.tap; ky < s->kh; ky += t->height.step, row -= t->height.back * t->pitch) {
            const float *at = row, *const w = b->w + (kz * s->kh + ky) * s->kw;
            for (int64_t kx = across; kx < s->kw; kx += t->width.step, at -= t->width.back) {
                const vf tap = vf_set1(w[kx]);
                y0 = vf_fma(tap, vf_load(at), y0);
                y1 = vf_fma(tap, vf_load(at + VL), y1);
                y2 = vf_fma(tap, vf_load(at + apart), y2);
                y3 = vf_fma(tap, vf_load(at + apart + VL), y3);
            }
        }
    }
    vf_store(to, y0);
    vf_store(to + VL, y1);
    vf_store(to + apart_to, y2);
    vf_store(to + apart_to + VL, y3);
}

/* Computes a phase of the columns of all rows of a band. Narrow rows are computed in pairs that read the
 * image with the same taps.
 */
static void sum_phase(const struct transposed *t, const struct band *b, int64_t phase) {
    const int64_t down = t->s.stride_h, pitch = t->s.stride_w * t->length;
    const struct source across = source_of(&t->width, t->s.pad_left + phase);
    const float *const in = t->rows + t->reach + across.element;
    float *to = t->phases + phase * t->length;
    for (int64_t i = 0; i < b->rows; i++, to += pitch) {
        if (t->length > 2 * VL) {
            for (int64_t x = 0; x < t->length; x += 4 * VL)
                sum_columns(t, b, b->lines[i], across.tap, in + x, 2 * VL, to + x, 2 * VL);
        } else if (i / down % 2 == 0) {
            const int64_t pair = i + down < b->rows;
            sum_columns(t, b, b->lines[i], across.tap, in, pair * t->pitch, to, pair * down * pitch);
        }
    }
}

/* Interleaves the phases of an output row. */
static void store_row(const struct transposed *t, const struct band *b, int64_t i) {
    const int64_t stride = t->s.stride_w, whole = t->s.ow / (stride * VL) * VL,
                  rest = t->s.ow - whole * stride;
    const int relu = t->s.act && !t->hook.call;
    struct phases row = {t->phases + i * stride * t->length, t->length, whole, stride};
    float *const to = b->to + i * b->to_ld;
    interleave_phases(row, b->bias, relu, to);
    row.first += whole;
    row.length = VL;
    if (rest) {
        interleave_phases(row, b->bias, relu, t->last);
        memcpy(to + whole * stride, t->last, (size_t)rest * sizeof *to);
    }
}

/* Computes up to VL columns from `phase` on of four strides of an output row. Adjacent columns read the same
 * elements of the image, from `in` on, with adjacent taps.
 */
GW_INLINE void sum_strides(const struct transposed *t, const struct band *b, struct source line,
                           int64_t phase, const float *in, float *to) {
    const struct depthwise_transpose_args *s = &t->s;
    vf y0 = {0}, y1 = {0}, y2 = {0}, y3 = {0};
    in += (line.element - b->top) * t->pitch;
    for (int64_t kz = b->planes.tap; kz < s->kd; kz += t->depth.step, in += t->image_rows * t->pitch) {
        const float *row = in;
        for (int64_t ky = line.tap; ky < s->kh; ky += t->height.step, row -= t->height.back * t->pitch) {
            const float *at = row, *const w = b->w + (kz * s->kh + ky) * s->kw;
            for (int64_t kx = phase; kx < s->kw; kx += s->stride_w, at--) {
                const vf taps = vf_load_n(w + kx, smaller(VL, s->kw - kx));
                y0 = vf_fma(vf_set1(at[0]), taps, y0);
                y1 = vf_fma(vf_set1(at[1]), taps, y1);
                y2 = vf_fma(vf_set1(at[2]), taps, y2);
                y3 = vf_fma(vf_set1(at[3]), taps, y3);
            }
        }
    }
    const int64_t n = smaller(VL, s->stride_w - phase);
    vf_store_n(to, y0, n);
    vf_store_n(to + s->stride_w, y1, n);
    vf_store_n(to + 2 * s->stride_w, y2, n);
    vf_store_n(to + 3 * s->stride_w, y3, n);
}

/* Computes output row i, by strides. */
static void compute_row(const struct transposed *t, const struct band *b, int64_t i) {
    const struct depthwise_transpose_args *s = &t->s;
    const int64_t first = s->pad_left / s->stride_w, last = (s->pad_left + s->ow - 1) / s->stride_w;
    const int relu = s->act && !t->hook.call;
    for (int64_t x = first; x <= last; x += 4)
        for (int64_t phase = 0; phase < s->stride_w; phase += VL)
            sum_strides(t, b, b->lines[i], phase, t->rows + t->reach + x,
                        t->phases + (x - first) * s->stride_w + phase);
    const float *const from = t->phases + s->pad_left - first * s->stride_w;
    float *const to = b->to + i * b->to_ld;
    for (int64_t x = 0; x < s->ow; x += VL) {
        const vf y = vf_load(from + x) + vf_set1(b->bias);
        vf_store_n(to + x, relu ? vf_relu(y) : y, smaller(VL, s->ow - x));
    }
}

static void run_band(const struct transposed *t, const struct band *b) {
    copy_rows(t, b);
    if (t->by_strides) {
        for (int64_t i = 0; i < b->rows; i++)
            compute_row(t, b, i);
        return;
    }
    for (int64_t phase = 0; phase < t->s.stride_w; phase++)
        sum_phase(t, b, phase);
    for (int64_t i = 0; i < b->rows; i++)
        store_row(t, b, i);
}

/* The sizes of a band, and the parts of scratch. */
static void prepare(struct transposed *t, float *scratch) {
    const struct depthwise_transpose_args *s = &t->s;
    const int64_t band = smaller(s->oh, BAND);
    t->depth = axis_of(s->kd, s->stride_d, s->dilation_d);
    t->height = axis_of(s->kh, s->stride_h, s->dilation_h);
    t->width = axis_of(s->kw, s->stride_w, s->dilation_w);
    t->by_strides = 2 * s->stride_w >= VL && s->dilation_w == 1 && s->kw % s->stride_w == 0;
    const int64_t columns = ceildiv(s->ow, s->stride_w), step = columns > 2 * VL ? 4 * VL : 2 * VL;
    t->length = ceildiv(columns, step) * step;
    t->reach = (s->kw - 1) * s->dilation_w / s->stride_w;
    t->pitch = t->reach + ceildiv(s->pad_left, s->stride_w) + t->length;
    t->image_rows = (band - 1 + (s->kh - 1) * s->dilation_h) / s->stride_h + 1;
    t->rows = scratch;
    t->phases = t->rows + s->kd * t->image_rows * t->pitch;
    t->last = t->phases + band * s->stride_w * t->length;
    t->out = t->last + s->stride_w * VL;
    memset(t->rows, 0, (size_t)(t->phases - t->rows) * sizeof *t->rows);
}

GW_KERNEL(gw_depthwise_transpose_f32) {
    const float *const x = buf[DEPTHWISE_TRANSPOSE_X], *const w = buf[DEPTHWISE_TRANSPOSE_W];
    const float *const bias = buf[DEPTHWISE_TRANSPOSE_BIAS];
    float *const y = buf[DEPTHWISE_TRANSPOSE_Y];
    struct transposed t = {.hook =
                               hook_after(buf, DEPTHWISE_TRANSPOSE_OPERANDS, arg, DEPTHWISE_TRANSPOSE_ARGS)};
    memcpy(&t.s, arg, sizeof t.s);
    const struct depthwise_transpose_args *s = &t.s;
    if (s->ow == 0)
        return 0;
    prepare(&t, scratch);
    const int64_t bands = ceildiv(s->oh, BAND), channels = s->groups * s->cout;
    for (int64_t index = begin; index < end; index++) {
        const int64_t slice = index / bands, plane = slice / s->od, oz = slice % s->od;
        const int64_t image = plane / channels, channel = plane % channels;
        const int64_t row = part_begin(s->oh, index % bands, bands);
        const int64_t rows = part_begin(s->oh, index % bands + 1, bands) - row;
        const int64_t above = row + s->pad_top - (s->kh - 1) * s->dilation_h;
        struct band b = {
            .image = x + image * s->x_batch + channel / s->cout * s->x_channel,
            .w = w + channel * s->kd * s->kh * s->kw,
            .bias = bias ? bias[channel] : 0,
            .to = t.hook.call
                      ? t.out
                      : y + image * s->y_batch + channel * s->y_channel + oz * s->y_depth + row * s->y_row,
            .to_ld = t.hook.call ? s->ow : s->y_row,
            .rows = rows,
            .top = above > 0 ? ceildiv(above, s->stride_h) : above / s->stride_h,
            .planes = source_of(&t.depth, oz + s->pad_front),
        };
        for (int64_t i = 0; i < rows; i++)
            b.lines[i] = source_of(&t.height, row + i + s->pad_top);
        run_band(&t, &b);
        if (!t.hook.call)
            continue;
        const struct area at = {channel, 1, (oz * s->oh + row) * s->ow, rows * s->ow};
        const int32_t error = call_hook(&t.hook, t.out, at.cols, image, at);
        if (error)
            return error;
    }
    return 0;
}

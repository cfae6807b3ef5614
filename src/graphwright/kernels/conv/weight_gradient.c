/* Gradient of a convolution with respect to its weights: see weight_gradient.py. */

#include "library/sizes.h"

#include "conv/weight_gradient.gen.h"

typedef float four_any __attribute__((vector_size(16), aligned(4), may_alias));

struct gradient {
    struct weight_gradient_args s;
    int64_t taps;
    int64_t pitch; /* elements of a row of a block: the columns, and those that only later taps read */
    int64_t lines; /* rows of a plane of x */
    int64_t plane; /* elements of a plane of x: one phase of one image */
    int64_t phase, channel; /* elements of all images of a phase, and of all phases and depths of a channel */
    int64_t length;         /* elements of a row of dy of one image, in whole vectors */
    int64_t images;         /* of this block */
    float *dy, *x;          /* scratch: [features][images][length], [channels][kd][phases][images][plane] */
};

/* Output positions whose products are added at once. */
struct block {
    int64_t image, oz, line, column, images, lines, columns;
};

/* The sums of the lanes of four vectors. */
GW_INLINE vf4 sums_of(const vf x[COLS]) {
    const vf4 a = vf_sum4(x[0]), b = vf_sum4(x[1]), c = vf_sum4(x[2]), d = vf_sum4(x[3]);
    const vf4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const vf4 cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
    return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

/* Adds to[row][column] += the sum over the pixels of the block of dy[row] * x[column], for `columns` <= COLS.
 */
GW_INLINE void add_tile(const struct gradient *t, int rows, const float *dy, const float *const x[COLS],
                        float *to, int64_t to_ld, int64_t columns) {
    const int64_t row = t->s.block_images * t->length;
    vf sums[ROWS][COLS];
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < COLS; c++)
            sums[r][c] = (vf){0};
    for (int64_t image = 0; image < t->images; image++) {
        const float *const d = dy + image * t->length;
        const float *const x0 = x[0] + image * t->plane, *const x1 = x[1] + image * t->plane;
        const float *const x2 = x[2] + image * t->plane, *const x3 = x[3] + image * t->plane;
        for (int64_t i = 0; i < t->length; i += VL) {
            const vf from[COLS] = {vf_load(x0 + i), vf_load(x1 + i), vf_load(x2 + i), vf_load(x3 + i)};
#pragma GCC unroll 6
            for (int r = 0; r < rows; r++) {
                const vf y = vf_load(d + r * row + i);
#pragma GCC unroll 4
                for (int c = 0; c < COLS; c++)
                    sums[r][c] = vf_fma(y, from[c], sums[r][c]);
            }
        }
    }
    for (int r = 0; r < rows; r++, to += to_ld) {
        const vf4 sum = sums_of(sums[r]);
        if (columns == COLS)
            *(four_any *)to += sum;
        else
            for (int64_t c = 0; c < columns; c++)
                to[c] += sum[c];
    }
}

/* add_tile for up to ROWS rows: the loops of each number are compiled apart. */
static void add_rows(const struct gradient *t, int64_t rows, const float *dy, const float *const x[COLS],
                     float *to, int64_t to_ld, int64_t columns) {
    switch (rows) {
    case 1: return add_tile(t, 1, dy, x, to, to_ld, columns);
    case 2: return add_tile(t, 2, dy, x, to, to_ld, columns);
    case 3: return add_tile(t, 3, dy, x, to, to_ld, columns);
#if ROWS == 6
    case 4: return add_tile(t, 4, dy, x, to, to_ld, columns);
    case 5: return add_tile(t, 5, dy, x, to, to_ld, columns);
    default: return add_tile(t, 6, dy, x, to, to_ld, columns);
#endif
    }
}

/* Inline, as most ranges are shorter than a vector. */
GW_INLINE void clear(float *to, int64_t n) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(to + i, (vf){0});
    if (i < n)
        vf_store_n(to + i, (vf){0}, n - i);
}

/* Copies the rows of one feature; zeros after each row, and after the last one. */
static void copy_dy(const struct gradient *t, const struct block *b, const float *from, float *to) {
    const struct weight_gradient_args *s = &t->s;
    from += b->line * s->ow + b->column;
    for (int64_t line = 0; line < b->lines; line++, from += s->ow, to += t->pitch) {
        copy_row(from, b->columns, to);
        clear(to + b->columns, t->pitch - b->columns);
    }
    clear(to, t->length - b->lines * t->pitch);
}

/* Copies every stride-th element of a row of x, from `first` on: zeros outside of the row. */
static void copy_x_row(const struct gradient *t, const float *row, int64_t first, float *to) {
    const int64_t stride = t->s.stride_w, w = t->s.w;
    const int64_t before = first < 0 ? smaller(t->pitch, ceildiv(-first, stride)) : 0;
    const int64_t reach = w - first; /* elements up to the end of the row */
    const int64_t end = reach > 0 ? larger(before, smaller(t->pitch, ceildiv(reach, stride))) : before;
    clear(to, before);
    const float *const from = row + first;
    if (stride == 1)
        copy_row(from + before, end - before, to + before);
    else if (stride == 2)
        for (int64_t i = before; i < end; i++)
            to[i] = from[2 * i];
    else
        for (int64_t i = before; i < end; i++)
            to[i] = from[i * stride];
    clear(to + end, t->pitch - end);
}

/* Whether a tap of an axis has this remainder modulo the stride. */
static int is_read(int64_t phase, int64_t taps, int64_t dilation, int64_t stride) {
    for (int64_t k = 0; k < smaller(taps, stride); k++)
        if (k * dilation % stride == phase)
            return 1;
    return 0;
}

/* Copies the planes of one channel of one image, by depth and by phase of rows and columns. */
static void copy_x(const struct gradient *t, const struct block *b, const float *from, float *to) {
    const struct weight_gradient_args *s = &t->s;
    for (int64_t kz = 0; kz < s->kd; kz++) {
        const int64_t z = b->oz * s->stride_d + kz * s->dilation_d - s->pad_front;
        for (int64_t ph = 0; ph < s->stride_h; ph++)
            for (int64_t pw = 0; pw < s->stride_w; pw++, to += t->phase) {
                if (!is_read(ph, s->kh, s->dilation_h, s->stride_h) ||
                    !is_read(pw, s->kw, s->dilation_w, s->stride_w))
                    continue;
                const int64_t column = b->column * s->stride_w + pw - s->pad_left;
                float *line = to;
                for (int64_t i = 0; i < t->lines; i++, line += t->pitch) {
                    const int64_t y = (b->line + i) * s->stride_h + ph - s->pad_top;
                    if (z < 0 || z >= s->d || y < 0 || y >= s->h)
                        clear(line, t->pitch);
                    else
                        copy_x_row(t, from + (z * s->h + y) * s->w, column, line);
                }
            }
    }
}

/* Where tap `tap` of channel `channel` of the block begins in the copy of x. */
static const float *tap_of(const struct gradient *t, int64_t channel, int64_t tap) {
    const struct weight_gradient_args *s = &t->s;
    const int64_t kx = tap % s->kw * s->dilation_w, ky = tap / s->kw % s->kh * s->dilation_h;
    const int64_t phase =
        (tap / (s->kw * s->kh) * s->stride_h + ky % s->stride_h) * s->stride_w + kx % s->stride_w;
    return t->x + channel * t->channel + phase * t->phase + ky / s->stride_h * t->pitch + kx / s->stride_w;
}

/* Adds the products of a block to the gradients of `features` rows and `channels` channels from `to` on. */
static void add_block(const struct gradient *t, int64_t features, int64_t channels, float *to) {
    const int64_t to_ld = t->s.cin * t->taps, columns = channels * t->taps;
    for (int64_t column = 0; column < columns; column += COLS) {
        const int64_t count = smaller(COLS, columns - column);
        const float *x[COLS];
        for (int64_t c = 0; c < COLS; c++) {
            const int64_t at = column + smaller(c, count - 1);
            x[c] = tap_of(t, at / t->taps, at % t->taps);
        }
        for (int64_t row = 0; row < features; row += ROWS)
            add_rows(t, smaller(ROWS, features - row), t->dy + row * t->s.block_images * t->length, x,
                     to + row * to_ld + column, to_ld, count);
    }
}

/* The part of the gradient that a unit computes. */
struct part {
    int64_t group, feature, features, channel, channels;
};

static void add_pixels(struct gradient *t, const struct part *p, const float *x, const float *dy, float *to,
                       const struct block *b) {
    const struct weight_gradient_args *s = &t->s;
    const int64_t image_dy = s->od * s->oh * s->ow, image_x = s->d * s->h * s->w;
    t->images = b->images;
    for (int64_t image = 0; image < b->images; image++) {
        const int64_t at = b->image + image;
        const int64_t feature = (at * s->groups + p->group) * s->cout + p->feature;
        for (int64_t i = 0; i < p->features; i++)
            copy_dy(t, b, dy + (feature + i) * image_dy + b->oz * s->oh * s->ow,
                    t->dy + (i * s->block_images + image) * t->length);
        const int64_t channel = (at * s->groups + p->group) * s->cin + p->channel;
        for (int64_t i = 0; i < p->channels; i++)
            copy_x(t, b, x + (channel + i) * image_x, t->x + i * t->channel + image * t->plane);
    }
    add_block(t, p->features, p->channels, to);
}

static void run_part(struct gradient *t, const struct part *p, const float *x, const float *dy, float *to) {
    const struct weight_gradient_args *s = &t->s;
    for (int64_t i = 0; i < p->features; i++)
        clear(to + i * s->cin * t->taps, p->channels * t->taps);
    struct block b = {0};
    for (b.image = 0; b.image < s->images; b.image += s->block_images)
        for (b.oz = 0; b.oz < s->od; b.oz++)
            for (b.line = 0; b.line < s->oh; b.line += s->block_lines)
                for (b.column = 0; b.column < s->ow; b.column += s->block_columns) {
                    b.images = smaller(s->block_images, s->images - b.image);
                    b.lines = smaller(s->block_lines, s->oh - b.line);
                    b.columns = smaller(s->block_columns, s->ow - b.column);
                    add_pixels(t, p, x, dy, to, &b);
                }
}

/* The sizes of a block, and the parts of scratch. */
static void prepare(struct gradient *t, float *scratch) {
    const struct weight_gradient_args *s = &t->s;
    t->taps = s->kd * s->kh * s->kw;
    t->pitch = s->block_columns + (s->kw - 1) * s->dilation_w / s->stride_w;
    t->lines = s->block_lines + (s->kh - 1) * s->dilation_h / s->stride_h;
    t->plane = t->lines * t->pitch;
    t->phase = s->block_images * t->plane;
    t->channel = s->kd * s->stride_h * s->stride_w * t->phase;
    t->length = ceildiv(s->block_lines * t->pitch, VL) * VL;
    t->dy = scratch;
    t->x = t->dy + s->block_cout * s->block_images * t->length;
    clear(t->x,
          s->block_cin * t->channel + t->pitch + VL); /* zeros of dy multiply what is read after a row */
}

GW_KERNEL(gw_weight_gradient_f32) {
    const float *const x = buf[WEIGHT_GRADIENT_X], *const dy = buf[WEIGHT_GRADIENT_DY];
    float *const dw = buf[WEIGHT_GRADIENT_DW];
    struct gradient t;
    memcpy(&t.s, arg, sizeof t.s);
    const struct weight_gradient_args *s = &t.s;
    if (s->kd * s->kh * s->kw == 0)
        return 0;
    prepare(&t, scratch);
    const int64_t channel_blocks = ceildiv(s->cin, s->block_cin);
    const int64_t feature_blocks = ceildiv(s->cout, s->block_cout);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t channels = unit % channel_blocks * s->block_cin, outer = unit / channel_blocks;
        const int64_t features = outer % feature_blocks * s->block_cout;
        const struct part p = {
            .group = outer / feature_blocks,
            .feature = features,
            .features = smaller(s->block_cout, s->cout - features),
            .channel = channels,
            .channels = smaller(s->block_cin, s->cin - channels),
        };
        run_part(&t, &p, x, dy, dw + ((p.group * s->cout + p.feature) * s->cin + p.channel) * t.taps);
    }
    return 0;
}

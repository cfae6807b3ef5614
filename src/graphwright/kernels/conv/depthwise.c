/* Depthwise convolution: see depthwise.py. */

#include "library/hook.h"
#include "library/lanes.h"
#include "library/windows.h"

#include "conv/depthwise.gen.h"

/* Any window: computes ROWS rows and VECTORS vectors of columns at once. */
GW_INLINE void any_block(const struct band *b, int64_t row, int64_t x, const int ROWS, const int VECTORS) {
    const struct depthwise_args *s = b->s;
    const int64_t step = s->stride_h * b->row_pitch;
    const float *in = b->planes + row * step + x, *w = b->w;
    float *to = b->to + row * b->to_ld + x;
    vf y[ROWS * VECTORS];
    for (int i = 0; i < ROWS * VECTORS; i++)
        y[i] = (vf){0};
    for (int64_t i = 0; i < s->kh; i++, in += s->dilation_h * b->row_pitch) {
        int64_t plane = 0, column = 0; /* of the tap: j * dilation_w modulo and divided by the stride */
        for (int64_t j = 0; j < s->kw; j++) {
            const float *at = in + plane * b->plane + column;
            const vf tap = vf_set1(*w++);
            for (int r = 0; r < ROWS; r++)
                for (int v = 0; v < VECTORS; v++)
                    y[r * VECTORS + v] = vf_fma(tap, vf_load(at + r * step + v * VL), y[r * VECTORS + v]);
            plane += s->dilation_w;
            for (; plane >= s->stride_w; plane -= s->stride_w)
                column++;
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < VECTORS; v++)
            finish(b, x + v * VL, y[r * VECTORS + v], to + r * b->to_ld + v * VL);
}

/* Any window: computes at least four sums at once where there are enough rows. */
static void band_any(const struct band *b) {
    int64_t row = 0;
    for (; row + 4 <= b->rows; row += 4) {
        int64_t x = 0;
        for (; x + VL < b->ow; x += 2 * VL)
            any_block(b, row, x, 4, 2);
        if (x < b->ow)
            any_block(b, row, x, 4, 1);
    }
    for (; row < b->rows; row++) {
        int64_t x = 0;
        for (; x + 3 * VL < b->ow; x += 4 * VL)
            any_block(b, row, x, 1, 4);
        for (; x < b->ow; x += VL)
            any_block(b, row, x, 1, 1);
    }
}

typedef void (*band_fn)(const struct band *b);

static band_fn choose_band(const struct depthwise_args *s) {
    if (s->dilation_h != 1 || s->dilation_w != 1)
        return band_any;
#define CHOICE(size, stride)                                                                                 \
    if (s->kh == size && s->kw == size && s->stride_h == stride && s->stride_w == stride)                    \
        return band_##size##x##size##s##stride;
    WINDOWS(CHOICE)
#undef CHOICE
    return band_any;
}

/* Copies the input rows of a band. Each row becomes stride_w planes: plane p holds columns p - pad_left, p -
 * pad_left + stride_w, ..., and zeros outside the image. The image begins VL elements into a plane, at an
 * aligned address; the padding before and after it is zeroed once for all bands. */
struct fill {
    const float *in; /* of the plane */
    int outside;     /* the plane is padding */
    int64_t top, rows, pitch;
    int64_t width; /* columns of the image that taps read */
    float *planes;
    const struct depthwise_args *s;
};

GW_INLINE const float *row_of(const struct fill *f, int64_t i) {
    const int64_t y = f->top + i;
    return !f->outside && y >= 0 && y < f->s->h ? f->in + y * f->s->x_h : NULL;
}

/* Zeros whole vectors: n elements, and up to VL - 1 after them. */
GW_INLINE void fill_zeros(float *to, int64_t n) {
    for (int64_t i = 0; i < n; i += VL)
        vf_store(to + i, (vf){0});
}

/* stride 1, columns contiguous */
static void fill_whole(const struct fill *f) {
    const int64_t width = f->width, full = width & -VL;
    float *to = f->planes + VL;
    for (int64_t i = 0; i < f->rows; i++, to += f->pitch) {
        const float *row = row_of(f, i);
        if (!row) {
            fill_zeros(to, width);
            continue;
        }
        for (int64_t x = 0; x < full; x += VL)
            vf_store(to + x, vf_load(row + x));
        if (full < width)
            vf_store(to + full, vf_load_n(row + full, width - full));
    }
}

/* stride 2, columns contiguous: even columns, then odd ones */
static void fill_halves(const struct fill *f) {
    const int64_t width = f->width, pairs = width & -(2 * VL), rest = width - pairs;
    const int64_t low = smaller(rest, VL), high = rest - low, swapped = f->s->pad_left & 1;
    float *even = f->planes + swapped * f->pitch + VL, *odd = f->planes + !swapped * f->pitch + VL;
    for (int64_t i = 0; i < f->rows; i++, even += 2 * f->pitch, odd += 2 * f->pitch) {
        const float *row = row_of(f, i);
        if (!row) {
            fill_zeros(even, (width + 1) / 2);
            fill_zeros(odd, (width + 1) / 2);
            continue;
        }
        int64_t x = 0;
        for (; x < pairs; x += 2 * VL) {
            const vf a = vf_load(row + x), b = vf_load(row + x + VL);
            vf_store(even + x / 2, __builtin_shufflevector(a, b, LANES(EVEN)));
            vf_store(odd + x / 2, __builtin_shufflevector(a, b, LANES(ODD)));
        }
        if (rest) {
            const vf a = vf_load_n(row + x, low), b = high ? vf_load_n(row + x + VL, high) : (vf){0};
            vf_store(even + x / 2, __builtin_shufflevector(a, b, LANES(EVEN)));
            vf_store(odd + x / 2, __builtin_shufflevector(a, b, LANES(ODD)));
        }
    }
}

/* Any stride and padding; plane p begins at an offset of its own. */
static void fill_any(const struct fill *f) {
    const struct depthwise_args *s = f->s;
    for (int64_t r = 0; r < f->rows; r++) {
        const float *row = row_of(f, r);
        for (int64_t p = 0; p < s->stride_w; p++) {
            float *to = f->planes + (r * s->stride_w + p) * f->pitch;
            for (int64_t i = 0, x = p - s->pad_left; i < f->pitch - 2 * VL; i++, x += s->stride_w)
                to[i] = row && x >= 0 && x < s->w ? row[x * s->x_w] : 0;
        }
    }
}

typedef void (*fill_fn)(const struct fill *f);

static fill_fn choose_fill(const struct depthwise_args *s) {
    if (s->x_w != 1 || s->pad_left < 0 || s->pad_left > VL || s->stride_w > 2)
        return fill_any;
    return s->stride_w == 1 ? fill_whole : fill_halves;
}

/* The offset of column p - pad_left of the image (or of the zero in its place) in a row of planes. */
static int64_t origin(const struct depthwise_args *s, fill_fn fill, int64_t p, int64_t pitch) {
    if (fill == fill_any)
        return p * pitch;
    return p * pitch + VL - (s->pad_left - p + s->stride_w - 1) / s->stride_w;
}

/* Adds the band's rows, which are those of one plane of taps, to those of earlier planes, at `to`. */
static void add_rows(const struct band *b, float *to, int64_t to_ld, int relu) {
    const float *from = b->to;
    for (int64_t r = 0; r < b->rows; r++, from += b->to_ld, to += to_ld)
        for (int64_t x = 0; x < b->ow; x += VL) {
            const int64_t n = smaller(VL, b->ow - x);
            const vf y = vf_load_n(to + x, n) + vf_load_n(from + x, n);
            vf_store_n(to + x, relu ? vf_relu(y) : y, n);
        }
}

static void store_rows(const struct depthwise_args *s, const float *from, int64_t rows, float *y) {
    for (int64_t r = 0; r < rows; r++, y += s->y_h)
        for (int64_t x = 0; x < s->ow; x++)
            y[x * s->y_w] = *from++;
}

/* A convolution, with the layout of its scratch memory. */
struct depthwise {
    const struct depthwise_args *s;
    const float *w, *bias;
    band_fn compute;
    fill_fn fill;
    int64_t pitch, row_pitch;   /* of planes, and of rows of planes */
    int64_t reach;              /* rows of the image that the taps of one output row cover */
    int64_t width;              /* columns of the image that taps read */
    int64_t start, next;        /* the first column of a row of planes; from it to that of plane 1 */
    float *planes, *out, *part; /* input rows, the result, and the part of one plane of taps */
};

static struct depthwise depthwise_of(const struct depthwise_args *s, void *const *buf, float *scratch) {
    struct depthwise g = {
        .s = s,
        .w = buf[DEPTHWISE_W],
        .bias = buf[DEPTHWISE_BIAS],
        .compute = choose_band(s),
        .fill = choose_fill(s),
        .reach = (s->kh - 1) * s->dilation_h + 1,
        .planes = scratch,
    };
    const int64_t last_tap = quotient((s->kw - 1) * s->dilation_w, s->stride_w);
    g.pitch = (ceildiv(s->ow, VL) + ceildiv(last_tap, VL) + 2) * VL;
    g.row_pitch = s->stride_w * g.pitch;
    g.out = g.planes + ((smaller(s->oh, BAND) - 1) * s->stride_h + g.reach) * g.row_pitch;
    g.part = g.out + smaller(s->oh, BAND) * s->ow;
    const int64_t read = (s->ow - 1) * s->stride_w + (s->kw - 1) * s->dilation_w + 1 - s->pad_left;
    g.width = read > 0 ? smaller(s->w, read) : 0;
    g.start = origin(s, g.fill, 0, g.pitch);
    g.next = s->stride_w > 1 ? origin(s, g.fill, 1, g.pitch) - g.start : 0;
    return g;
}

/* A band of rows of one plane of the result. */
struct unit {
    const float *in; /* the channel of the image */
    float *to;       /* the result, or scratch */
    int64_t to_ld;
    int64_t channel, oz, row, rows;
};

/* Computes a unit: the sum over all planes of taps. */
static void compute_unit(const struct depthwise *g, const struct unit *u) {
    const struct depthwise_args *s = g->s;
    const int64_t z = u->oz * s->stride_d - s->pad_front;
    struct taps planes_inside = taps_inside(z, s->d, s->kd, s->dilation_d);
    const int outside = planes_inside.first == planes_inside.last;
    if (outside) /* the whole plane is padding: zeros */
        planes_inside = (struct taps){0, 1};
    const int64_t first = planes_inside.first, last = planes_inside.last;
    for (int64_t k = first; k < last; k++) {
        const struct fill f = {
            .in = outside ? u->in : u->in + (z + k * s->dilation_d) * s->x_d,
            .outside = outside,
            .top = u->row * s->stride_h - s->pad_top,
            .rows = (u->rows - 1) * s->stride_h + g->reach,
            .pitch = g->pitch,
            .width = g->width,
            .planes = g->planes,
            .s = s,
        };
        g->fill(&f);
        const struct band b = {
            .planes = g->planes + g->start,
            .w = g->w + (u->channel * s->kd + k) * s->kh * s->kw,
            .bias = g->bias && k == first ? g->bias[u->channel] : 0,
            .relu = s->act == 1 && last - first == 1,
            .plane = g->next,
            .row_pitch = g->row_pitch,
            .rows = u->rows,
            .ow = s->ow,
            .to = k > first ? g->part : u->to,
            .to_ld = k > first ? s->ow : u->to_ld,
            .s = s,
        };
        g->compute(&b);
        if (k > first)
            add_rows(&b, u->to, u->to_ld, s->act == 1 && k + 1 == last);
    }
}

GW_KERNEL(gw_depthwise_f32) {
    const float *const x = buf[DEPTHWISE_X];
    float *const y = buf[DEPTHWISE_Y];
    struct depthwise_args args;
    const struct depthwise_args *s = &args;
    memcpy(&args, arg, sizeof args);
    const struct hook hook = hook_after(buf, DEPTHWISE_OPERANDS, arg, DEPTHWISE_ARGS);
    const struct depthwise g = depthwise_of(s, buf, scratch);
    fill_zeros(g.planes, g.out - g.planes);
    const int64_t bands = ceildiv(s->oh, BAND), channels = s->groups * s->cout;
    for (; begin < end; begin++) {
        const int64_t slice = quotient(begin, bands), band = begin - slice * bands;
        const int64_t plane = quotient(slice, s->od), oz = slice - plane * s->od;
        const int64_t image = quotient(plane, channels), channel = plane - image * channels;
        const int64_t row = part_begin(s->oh, band, bands), rows = part_begin(s->oh, band + 1, bands) - row;
        float *to = hook.call ? NULL : y + image * s->y_n + channel * s->y_c + oz * s->y_d + row * s->y_h;
        const int direct = to && s->y_w == 1;
        const struct unit u = {
            .in = x + image * s->x_n + quotient(channel, s->cout) * s->x_c,
            .to = direct ? to : g.out,
            .to_ld = direct ? s->y_h : s->ow,
            .channel = channel,
            .oz = oz,
            .row = row,
            .rows = rows,
        };
        compute_unit(&g, &u);
        if (hook.call) {
            const struct area at = {channel, 1, (oz * s->oh + row) * s->ow, rows * s->ow};
            const int32_t error = call_hook(&hook, g.out, at.cols, image, at);
            if (error)
                return error;
        } else if (!direct) {
            store_rows(s, g.out, rows, to);
        }
    }
    return 0;
}

/* Depthwise convolution of blocks of channels: see blocked_depthwise.py. */

#include "library/hook.h"
#include "library/bits.h"
#include "library/windows.h"

#include "conv/blocked_depthwise.gen.h"

/* Micro-kernels of one kind, indexed by their number of pixels - 1. */
struct tiles {
    const tile_fn *of;
    int64_t width;
};

static struct tiles choose_tiles(const struct blocked_depthwise_args *s) {
/* kw: the number of adjacent taps, or 0 for any window; a stride, or 0 for any stride. */
#define CHOICE(taps, stride, pixels)                                                                         \
    if ((taps == 0 || (s->kw == taps && s->dilation_w == 1)) && (stride == 0 || s->stride_w == stride))      \
        return (struct tiles){columns##taps##s##stride##_of, pixels};
    COLUMNS(CHOICE)
#undef CHOICE
}

/* A ring buffer of the padded rows that a window needs. If slots is NULL, rows are read in place. */
struct ring {
    float *slots;
    int64_t pixel;           /* elements between pixels of the image */
    int64_t ahead;           /* prefetch distance in elements */
    int64_t span;            /* number of slots */
    int64_t pitch;           /* elements of a slot */
    int64_t from, to;        /* the columns of a slot that the image fills */
    int64_t next, next_slot; /* the first row that is not copied yet, and its slot */
};

static void zero_pixels(float *to, int64_t pixels) {
    for (int64_t i = 0; i < pixels; i++)
        vf_store(to + i * VL, (vf){0});
}

/* Sets up the ring. The padding is the same in all slots, so it is written once. */
static struct ring make_ring(const struct blocked_depthwise_args *s, float *scratch, int nhwc) {
    const int64_t width = (s->ow - 1) * s->stride_w + (s->kw - 1) * s->dilation_w + 1;
    struct ring g = {.span = (s->kh - 1) * s->dilation_h + 1, .pitch = width * VL};
    if (!nhwc && s->pad_left == 0 && width <= s->w)
        return g;
    g.pixel = nhwc ? s->groups : VL;
    g.ahead = nhwc ? s->x_h : AHEAD;
    g.slots = scratch;
    g.from = smaller(s->pad_left > 0 ? s->pad_left : 0, width);
    g.to = smaller(s->pad_left + s->w, width);
    g.to = g.to < g.from ? g.from : g.to;
    for (int64_t i = 0; i < g.span; i++) {
        zero_pixels(g.slots + i * g.pitch, g.from);
        zero_pixels(g.slots + i * g.pitch + g.to * VL, width - g.to);
    }
    return g;
}

/* Copies the missing rows of the window that begins at row `top`. */
GW_INLINE void fill_ring(struct ring *g, const struct blocked_depthwise_args *s, const float *x,
                         int64_t top) {
    const int64_t last = smaller(top + g->span, s->h), pixels = g->to - g->from;
    if (g->next < top)
        g->next = top;
    for (; g->next < last; g->next++) {
        const float *from = x + g->next * s->x_h + (g->from - s->pad_left) * g->pixel;
        float *to = g->slots + g->next_slot * g->pitch + g->from * VL;
        for (int64_t i = 0; i < pixels; i++, from += g->pixel) {
            __builtin_prefetch(from + g->ahead);
            vf_store(to + i * VL, vf_load(from));
        }
        g->next_slot = g->next_slot + 1 < g->span ? g->next_slot + 1 : 0;
    }
}

/* Sets r to the rows of taps of output row oy that are inside the image. */
static void find_rows(struct row *r, struct ring *g, const struct blocked_depthwise_args *s, const float *x,
                      const float *w, int64_t oy, const float **rows) {
    const int64_t top = oy * s->stride_h - s->pad_top;
    const struct taps inside = taps_inside(top, s->h, s->kh, s->dilation_h);
    r->taps = inside.last - inside.first;
    r->w = w + inside.first * s->kw * VL;
    int64_t y = top + inside.first * s->dilation_h;
    if (g->slots) {
        fill_ring(g, s, x, top);
        int64_t slot = g->next_slot - (g->next - y);
        for (int64_t i = 0; i < r->taps; i++, slot += s->dilation_h) {
            slot += slot < 0 ? g->span : slot >= g->span ? -g->span : 0;
            rows[i] = g->slots + slot * g->pitch;
        }
        return;
    }
    for (int64_t i = 0; i < r->taps; i++, y += s->dilation_h)
        rows[i] = x + y * s->x_h;
}

/* How a row is cut into tiles: first `wider` tiles of width + 1 pixels, then tiles of width. */
struct cuts {
    const tile_fn *tile_of;
    int64_t count, width, wider;
};

static struct cuts cut_row(const struct tiles *tiles, int64_t ow) {
    const int64_t count = ceildiv(ow, tiles->width), width = quotient(ow, count);
    return (struct cuts){tiles->of, count, width, ow - count * width};
}

GW_INLINE void compute_row(const struct row *r, const struct cuts *c) {
    int64_t i = 0, ox = 0;
    for (; i < c->wider; i++, ox += c->width + 1)
        c->tile_of[c->width](r, ox);
    for (; i < c->count; i++, ox += c->width)
        c->tile_of[c->width - 1](r, ox);
}

/* Stores a finished row of one block; pixels are `pixel` elements apart. */
GW_INLINE void store_apart(const float *row, int64_t pixels, float *to, int64_t pixel) {
    for (int64_t i = 0; i < pixels; i++)
        vf_store(to + i * pixel, vf_load(row + i * VL));
}

/* nhwc: x and y are channels last, and the channels are the columns of the hook. */
GW_INLINE int32_t run_bands(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch,
                            int nhwc) {
    const float *const x = buf[BLOCKED_DEPTHWISE_X], *const w = buf[BLOCKED_DEPTHWISE_W],
                       *const bias = buf[BLOCKED_DEPTHWISE_BIAS],
                       *const residual = buf[BLOCKED_DEPTHWISE_RESIDUAL];
    float *const y = buf[BLOCKED_DEPTHWISE_Y];
    struct blocked_depthwise_args args;
    const struct blocked_depthwise_args *s = &args;
    memcpy(&args, arg, sizeof args);
    const struct hook hook = hook_after(buf, BLOCKED_DEPTHWISE_OPERANDS, arg, BLOCKED_DEPTHWISE_ARGS);
    if (s->ow == 0)
        return 0;
    const int64_t side = nhwc ? LINE_BLOCKS : 1; /* blocks per unit: their channels share cache lines */
    const int64_t blocks = ceildiv(s->groups, VL), bands = ceildiv(s->oh, BAND);
    const struct tiles tiles = choose_tiles(s);
    const struct cuts cuts = cut_row(&tiles, s->ow);
    /* the kernel stores tiles to y, and the hook reads them there */
    const int in_place = hook.call && y && !nhwc;
    const int dense = !in_place || s->y_h == s->ow * VL;
    /* rows per call of the hook */
    const int64_t group = dense ? smaller(s->oh, ceildiv(HOOK_PIXELS, s->ow)) : 1;
    struct ring rings[LINE_BLOCKS];
    float *out = scratch;
    for (int64_t i = 0; i < side; i++, out += rings[0].span * rings[0].pitch)
        rings[i] = make_ring(s, out, nhwc);
    const float **const rows = (const float **)(void *)(out + side * group * s->ow * VL);
    struct row r = {
        .rows = rows,
        .kw = s->kw,
        .step = s->stride_w * VL,
        .tap = s->dilation_w * VL,
        .lo = s->act == 2 ? vf_set1(float_of(s->lo)) : (vf){0},
        .hi = vf_set1(float_of(s->hi)),
        .act = s->act,
    };
    while (begin < end) {
        const int64_t sides = ceildiv(blocks, side), unit = quotient(begin, bands),
                      band = begin - unit * bands;
        const int64_t image = quotient(unit, sides), block = (unit - image * sides) * side;
        const int64_t count = nhwc ? smaller(side, blocks - block) : 1;
        const int64_t run = smaller(end - begin, bands - band); /* bands of one plane share the ring */
        const int64_t last = part_begin(s->oh, band + run, bands);
        const float *in = x + image * s->x_n + block * s->x_cb;
        const float *add = residual && !nhwc ? residual + image * s->r_n + block * s->r_cb : NULL;
        float *to = hook.call && !in_place ? NULL : y + image * s->y_n + block * s->y_cb;
        for (int64_t i = 0; i < count; i++)
            rings[i].next = 0; /* no row of this plane is copied yet */
        for (int64_t oy = part_begin(s->oh, band, bands), first = oy; oy < last; oy++) {
            for (int64_t i = 0; i < count; i++) {
                float *const row = out + (i * group + oy - first) * s->ow * VL;
                r.bias = bias ? vf_load(bias + (block + i) * VL) : (vf){0};
                find_rows(&r, &rings[i], s, in + i * s->x_cb, w + (block + i) * s->kh * s->kw * VL, oy, rows);
                r.add = add ? add + oy * s->r_h : NULL;
                r.to = to && !nhwc ? to + oy * s->y_h : row;
                compute_row(&r, &cuts);
                if (to && nhwc)
                    store_apart(row, s->ow, to + oy * s->y_h + i * s->y_cb, s->groups);
            }
            if (!hook.call) {
                first = oy + 1;
                continue;
            }
            if (oy + 1 - first < group && oy + 1 < last)
                continue;
            for (int64_t i = 0; i < count; i++) {
                float *const tile = to ? to + first * s->y_h : out + i * group * s->ow * VL;
                const int32_t error = call_hook(&hook, tile, VL, nhwc ? image : unit, first * s->ow,
                                                (oy + 1 - first) * s->ow, nhwc ? (block + i) * VL : 0, VL);
                if (error)
                    return error;
            }
            first = oy + 1;
        }
        begin += run;
    }
    return 0;
}

GW_KERNEL(gw_depthwise_blocked_f32) { return run_bands(buf, arg, begin, end, scratch, 0); }

GW_KERNEL(gw_depthwise_nhwc_f32) { return run_bands(buf, arg, begin, end, scratch, 1); }

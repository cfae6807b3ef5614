/* Depthwise convolution of blocks of channels: see blocked_depthwise.py. */

#include "library/bits.h"
#include "library/hook.h"
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

/* How a row is cut into tiles: first `wider` tiles of width + 1 pixels, then tiles of width. Tiles
 * [first, last) read rows of the image in place, the others read copies with padding. */
struct cuts {
    const tile_fn *tile_of;
    int64_t count, width, wider;
    int64_t first, last;
};

/* The first output pixel of tile i. */
static int64_t tile_begin(const struct cuts *c, int64_t i) { return i * c->width + smaller(i, c->wider); }

static struct cuts cut_row(const struct tiles *tiles, const struct blocked_depthwise_args *s, int nhwc) {
    const int64_t count = ceildiv(s->ow, tiles->width), width = quotient(s->ow, count);
    struct cuts c = {tiles->of, count, width, s->ow - count * width, 0, count};
    const int64_t reach = (s->kw - 1) * s->dilation_w - s->pad_left;
    while (c.first < count && (nhwc || tile_begin(&c, c.first) * s->stride_w < s->pad_left))
        c.first++;
    while (c.last > c.first && (tile_begin(&c, c.last) - 1) * s->stride_w + reach >= s->w)
        c.last--;
    return c;
}

/* A ring buffer of the padded rows that a window needs, or of those of their columns that tiles at the sides
 * read. If slots is NULL, all tiles read the image. */
struct ring {
    float *slots;
    int64_t pixel;           /* elements between pixels of the image */
    int64_t ahead;           /* prefetch distance in elements */
    int64_t span;            /* number of slots */
    int64_t pitch;           /* elements of a slot */
    int64_t from, to;        /* the columns of a slot that the image fills */
    int64_t left, right;     /* of these, columns before `left` and from `right` on are read */
    int64_t next, next_slot; /* the first row that is not copied yet, and its slot */
};

static void zero_pixels(float *to, int64_t pixels) {
    for (int64_t i = 0; i < pixels; i++)
        vf_store(to + i * VL, (vf){0});
}

/* Sets up the ring. The padding is the same in all slots, so it is written once. */
static struct ring make_ring(const struct blocked_depthwise_args *s, const struct cuts *c, float *scratch,
                             int nhwc) {
    const int64_t window = (s->kw - 1) * s->dilation_w + 1, width = (s->ow - 1) * s->stride_w + window;
    struct ring g = {.span = (s->kh - 1) * s->dilation_h + 1, .pitch = width * VL};
    if (c->first == 0 && c->last == c->count)
        return g;
    g.pixel = nhwc ? s->groups : VL;
    g.ahead = nhwc ? s->x_h : AHEAD;
    g.slots = scratch;
    g.from = smaller(s->pad_left > 0 ? s->pad_left : 0, width);
    g.to = smaller(s->pad_left + s->w, width);
    g.to = g.to < g.from ? g.from : g.to;
    g.left = c->first ? larger(g.from, smaller(g.to, (tile_begin(c, c->first) - 1) * s->stride_w + window))
                      : g.from;
    g.right = c->last < c->count ? larger(g.left, smaller(g.to, tile_begin(c, c->last) * s->stride_w)) : g.to;
    for (int64_t i = 0; i < g.span; i++) {
        zero_pixels(g.slots + i * g.pitch, g.from);
        zero_pixels(g.slots + i * g.pitch + g.to * VL, width - g.to);
    }
    return g;
}

/* Copies columns [begin, end) of a row of the image to a slot. */
GW_INLINE void copy_columns(const struct ring *g, const float *from, int64_t begin, int64_t end, float *to) {
    from += begin * g->pixel;
    to += begin * VL;
    for (int64_t i = begin; i < end; i++, from += g->pixel, to += VL) {
        __builtin_prefetch(from + g->ahead);
        vf_store(to, vf_load(from));
    }
}

/* Copies the missing rows of the window that begins at row `top`. */
GW_INLINE void fill_ring(struct ring *g, const struct blocked_depthwise_args *s, const float *x,
                         int64_t top) {
    const int64_t last = smaller(top + g->span, s->h);
    if (g->next < top)
        g->next = top;
    for (; g->next < last; g->next++) {
        const float *from = x + g->next * s->x_h + (g->from - s->pad_left) * g->pixel;
        float *to = g->slots + g->next_slot * g->pitch + g->from * VL;
        copy_columns(g, from, 0, g->left - g->from, to);
        copy_columns(g, from, g->right - g->from, g->to - g->from, to);
        g->next_slot = g->next_slot + 1 < g->span ? g->next_slot + 1 : 0;
    }
}

/* The rows of an output row's window that are inside the image: the image's own, and their copies. */
struct window {
    const float **rows, **copies;
};

/* Sets r to the taps of output row oy that are inside the image, and finds their rows. */
static void find_rows(struct row *r, struct ring *g, const struct blocked_depthwise_args *s, const float *x,
                      const float *w, int64_t oy, const struct window *o) {
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
            o->copies[i] = g->slots + slot * g->pitch;
        }
    }
    for (int64_t i = 0; i < r->taps; i++, y += s->dilation_h)
        o->rows[i] = x + y * s->x_h;
}

/* Computes tiles [begin, end) of a row. */
GW_INLINE void compute_tiles(const struct row *r, const struct cuts *c, int64_t begin, int64_t end) {
    int64_t i = begin, ox = tile_begin(c, begin);
    for (; i < smaller(end, c->wider); i++, ox += c->width + 1)
        c->tile_of[c->width](r, ox);
    for (; i < end; i++, ox += c->width)
        c->tile_of[c->width - 1](r, ox);
}

GW_INLINE void compute_row(struct row *r, const struct cuts *c, const struct window *o, int64_t pad_left) {
    r->rows = o->copies;
    r->left = 0;
    compute_tiles(r, c, 0, c->first);
    compute_tiles(r, c, c->last, c->count);
    r->rows = o->rows;
    r->left = pad_left * VL;
    compute_tiles(r, c, c->first, c->last);
}

/* Stores a finished row of one block; pixels are `pixel` elements apart. */
GW_INLINE void store_apart(const float *row, int64_t pixels, float *to, int64_t pixel) {
    for (int64_t i = 0; i < pixels; i++)
        vf_store(to + i * pixel, vf_load(row + i * VL));
}

/* One convolution: its operands, and what its units share. */
struct conv {
    struct blocked_depthwise_args s;
    const float *x, *w, *bias, *residual;
    float *y;
    struct hook hook;
    int nhwc;      /* x and y are channels last, and the channels are the columns of the hook */
    int in_place;  /* rows are stored to y, and the hook reads them there */
    int64_t side;  /* blocks of a unit: if channels are last, their channels share cache lines */
    int64_t group; /* rows per call of the hook */
    struct cuts cuts;
    struct row row; /* the current output row */
    struct window window;
    float *out; /* scratch for `group` rows of each block of a unit */
    struct ring rings[LINE_BLOCKS];
};

/* Blocks [block, block + count) of an image. */
struct unit {
    int64_t number, image, block, count;
    const float *x, *residual;
    float *y; /* NULL if the hook takes rows from scratch */
};

static struct conv conv_of(void *const *buf, const int64_t *arg, void *scratch, int nhwc) {
    struct conv g = {
        .x = buf[BLOCKED_DEPTHWISE_X],
        .w = buf[BLOCKED_DEPTHWISE_W],
        .bias = buf[BLOCKED_DEPTHWISE_BIAS],
        .residual = nhwc ? NULL : buf[BLOCKED_DEPTHWISE_RESIDUAL],
        .y = buf[BLOCKED_DEPTHWISE_Y],
        .hook = hook_after(buf, BLOCKED_DEPTHWISE_OPERANDS, arg, BLOCKED_DEPTHWISE_ARGS),
        .nhwc = nhwc,
        .side = nhwc ? LINE_BLOCKS : 1,
        .out = scratch,
    };
    const struct blocked_depthwise_args *s = &g.s;
    memcpy(&g.s, arg, sizeof g.s);
    const struct tiles tiles = choose_tiles(s);
    g.cuts = cut_row(&tiles, s, nhwc);
    g.in_place = g.hook.call && g.y && !nhwc;
    const int dense = !g.in_place || s->y_h == s->ow * VL;
    g.group = dense ? smaller(s->oh, ceildiv(HOOK_PIXELS, s->ow)) : 1;
    for (int64_t i = 0; i < g.side; i++, g.out += g.rings[0].span * g.rings[0].pitch)
        g.rings[i] = make_ring(s, &g.cuts, g.out, nhwc);
    g.window.rows = (const float **)(void *)(g.out + g.side * g.group * s->ow * VL);
    g.window.copies = g.window.rows + s->kh;
    g.row = (struct row){
        .kw = s->kw,
        .step = s->stride_w * VL,
        .tap = s->dilation_w * VL,
        .lo = s->act == 2 ? vf_set1(float_of(s->lo)) : (vf){0},
        .hi = vf_set1(float_of(s->hi)),
        .act = s->act,
    };
    return g;
}

static struct unit unit_of(const struct conv *g, int64_t number) {
    const struct blocked_depthwise_args *s = &g->s;
    const int64_t blocks = ceildiv(s->groups, VL), units = ceildiv(blocks, g->side);
    const int64_t image = quotient(number, units), block = (number - image * units) * g->side;
    return (struct unit){
        .number = number,
        .image = image,
        .block = block,
        .count = smaller(g->side, blocks - block),
        .x = g->x + image * s->x_n + block * s->x_cb,
        .residual = g->residual ? g->residual + image * s->r_n + block * s->r_cb : NULL,
        .y = g->hook.call && !g->in_place ? NULL : g->y + image * s->y_n + block * s->y_cb,
    };
}

/* Computes output row oy of each block of a unit; `waiting` earlier rows are still in scratch. */
static void compute_rows(struct conv *g, const struct unit *o, int64_t oy, int64_t waiting) {
    const struct blocked_depthwise_args *s = &g->s;
    struct row *r = &g->row;
    for (int64_t i = 0; i < o->count; i++) {
        const int64_t block = o->block + i;
        float *const out = g->out + (i * g->group + waiting) * s->ow * VL;
        r->bias = g->bias ? vf_load(g->bias + block * VL) : (vf){0};
        find_rows(r, &g->rings[i], s, o->x + i * s->x_cb, g->w + block * s->kh * s->kw * VL, oy, &g->window);
        r->add = o->residual ? o->residual + oy * s->r_h : NULL;
        r->to = o->y && !g->nhwc ? o->y + oy * s->y_h : out;
        compute_row(r, &g->cuts, &g->window, s->pad_left);
        if (o->y && g->nhwc)
            store_apart(out, s->ow, o->y + oy * s->y_h + i * s->y_cb, s->groups);
    }
}

/* Passes output rows [first, last) of each block of a unit to the hook. */
static int32_t pass_rows(const struct conv *g, const struct unit *o, int64_t first, int64_t last) {
    const int64_t ow = g->s.ow;
    for (int64_t i = 0; i < o->count; i++) {
        float *const tile = o->y ? o->y + first * g->s.y_h : g->out + i * g->group * ow * VL;
        const struct area at = {first * ow, (last - first) * ow, g->nhwc ? (o->block + i) * VL : 0, VL};
        const int32_t error = call_hook(&g->hook, tile, VL, g->nhwc ? o->image : o->number, at);
        if (error)
            return error;
    }
    return 0;
}

static int32_t run_rows(struct conv *g, const struct unit *o, int64_t begin, int64_t end) {
    for (int64_t i = 0; i < o->count; i++)
        g->rings[i].next = 0; /* no row of this unit is copied yet */
    for (int64_t oy = begin, first = begin; oy < end; oy++) {
        compute_rows(g, o, oy, oy - first);
        if (g->hook.call && oy + 1 - first < g->group && oy + 1 < end)
            continue;
        const int32_t error = g->hook.call ? pass_rows(g, o, first, oy + 1) : 0;
        if (error)
            return error;
        first = oy + 1;
    }
    return 0;
}

static int32_t run_bands(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch,
                         int nhwc) {
    if (blocked_depthwise_args(arg)->ow == 0)
        return 0;
    struct conv g = conv_of(buf, arg, scratch, nhwc);
    const int64_t oh = g.s.oh, bands = ceildiv(oh, BAND);
    while (begin < end) {
        const int64_t number = quotient(begin, bands), band = begin - number * bands;
        const int64_t run = smaller(end - begin, bands - band); /* bands of one unit share the ring */
        const struct unit o = unit_of(&g, number);
        const int32_t error =
            run_rows(&g, &o, part_begin(oh, band, bands), part_begin(oh, band + run, bands));
        if (error)
            return error;
        begin += run;
    }
    return 0;
}

GW_KERNEL(gw_depthwise_blocked_f32) { return run_bands(buf, arg, begin, end, scratch, 0); }

GW_KERNEL(gw_depthwise_nhwc_f32) { return run_bands(buf, arg, begin, end, scratch, 1); }

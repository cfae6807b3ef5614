/* The passes of a direct convolution: a pass computes the tiles of some output blocks over a band. It
 * prefetches what the next pass reads, and leaves its tiles in the output, in partial sums between blocks of
 * input channels, or in L1 for the hook. */

#ifndef GW_DIRECT_PASS_H
#define GW_DIRECT_PASS_H

#include "conv/direct.h"
#include "library/unblock_row.h"

enum { HELD_PIXELS = HELD > 2 * WIDEST ? HELD : 2 * WIDEST }; /* the most that are collected, of all blocks */

/* One pass: up to MAX_BLOCKS output blocks of a band, for one block of input channels. */
struct pass {
    const struct conv *g;
    const struct band *o;
    int64_t block, blocks;
    struct tile t;         /* for the band's first pixel; if apart, `to` points to the image */
    int64_t added_h, to_h; /* elements between rows of pixels */
    int64_t to_pixel;
    int apart;          /* tiles go to a buffer in L1 first */
    int in_place;       /* tiles are stored to y, and the hook reads them there */
    const float *ahead; /* the weights of the next pass to prefetch, of one output block */
    const float *ahead_end;
    int64_t ahead_size, ahead_blocks, ahead_step;
    int far; /* the output is in no cache */
};

/* How the tiles of a row prefetch data of later tiles to L2, spread evenly over their steps: the weights of
 * the next pass, or memory that later tiles add or overwrite. */
struct fetch {
    int64_t lines; /* cache lines that a tile can prefetch */
    int64_t sums;  /* sums of a tile, each a cache line that is added or overwritten */
    int64_t step;  /* bytes between prefetches, so that `lines` of them cover the sums */
    int64_t block; /* the output block to prefetch next */
};

static struct fetch fetch_of(const struct pass *p, const struct tile *t, int64_t pixels) {
    struct fetch f = {.lines = larger(1, t->tap_count * t->channels / 2), .sums = pixels * p->blocks};
    f.step = ceildiv(4 * LINE * f.sums, f.lines);
    return f;
}

static void fetch_ahead(struct pass *p, struct tile *t, struct fetch *f) {
    t->ahead = t->w;
    t->ahead_step = 0;
    if (p->ahead_blocks > 0) {
        t->ahead = p->ahead;
        t->ahead_step = p->ahead_step;
        p->ahead += f->lines * p->ahead_step / 4;
        if (p->ahead >= p->ahead_end) {
            p->ahead_blocks--;
            p->ahead = p->ahead_end + t->w_out - p->ahead_size;
            p->ahead_end += t->w_out;
        }
    } else if (t->added || p->far) {
        const float *later = t->added ? t->added + f->block * t->added_block : t->to + f->block * t->to_block;
        t->ahead = later + f->sums * VL;
        t->ahead_step = f->step;
        t->far = p->far && f->lines < f->sums;
        f->block = f->block + 1 < p->blocks ? f->block + 1 : 0;
    }
}

/* The offset of channel (or block) `index` of a group of `count` in its image of y. */
static int64_t channel_offset(const struct direct_args *s, int64_t group, int64_t index, int64_t count) {
    const int64_t each = count / (s->split_h * s->split_w), column = index % s->split_w;
    const int64_t channel = index / s->split_w % each, row = index / s->split_w / each;
    return (group * each + channel) * s->y_c + row * (s->y_h / s->split_h) + column * (s->y_w / s->split_w);
}

/* Passes a finished tile of one block to the hook, or stores its pixels apart in y. to: its first pixel in
 * the image. */
static int32_t store_blocked(const struct pass *p, float *tile, int64_t block, int64_t pixel, int64_t pixels,
                             float *to) {
    const struct conv *g = p->g;
    const int64_t total = p->o->group * g->blocks + block;
    const int64_t batch = g->nhwc ? p->o->image : p->o->image * g->s.groups * g->blocks + total;
    if (g->hook.call)
        return call_hook(&g->hook, tile, VL, batch,
                         (struct area){pixel, pixels, g->nhwc ? total * VL : 0, VL});
    to += channel_offset(&g->s, p->o->group, block, g->blocks);
    for (int64_t i = 0; i < pixels; i++)
        vf_store(to + i * g->s.y_w, vf_load(tile + i * VL));
    return 0;
}

/* Stores pixels of a block to planar y: channels become rows of pixels. */
static int32_t store_planar(const struct pass *p, float *tile, int64_t block, int64_t pixel, int64_t pixels,
                            float *to) {
    const struct conv *g = p->g;
    const int64_t first = block * VL, channels = smaller(VL, g->s.cout - first), ld = HELD_PIXELS;
    const int64_t channel = p->o->group * g->s.cout + first;
    float rows[VL * HELD_PIXELS] __attribute__((aligned(64)));
    if (g->hook.call) {
        unblock_row(rows, ld, tile, channels, pixels);
        return call_hook(&g->hook, rows, ld, p->o->image, (struct area){channel, channels, pixel, pixels});
    }
    if (g->s.y_w == 1 && g->s.split_h == 1) {
        unblock_row(to + channel * g->s.y_c, g->s.y_c, tile, channels, pixels);
        return 0;
    }
    for (int64_t c = 0; c < channels; c++) {
        float *row = to + channel_offset(&g->s, p->o->group, first + c, g->s.cout);
        for (int64_t i = 0; i < pixels; i++)
            row[i * g->s.y_w] = tile[i * VL + c];
    }
    return 0;
}

/* The number of tiles of `pixels` that are collected in L1 before they are stored: several, since each call
 * of a hook has a fixed cost. If y is planar, rows of whole vectors fill cache lines. */
static int64_t held_tiles(const struct pass *p, int64_t pixels) {
    const int64_t most = larger(1, HELD / (pixels * p->blocks));
    if (p->g->s.y_lanes != 1)
        return most;
    int64_t tiles = most;
    while (tiles > 1 && tiles * pixels % VL != 0)
        tiles--;
    return tiles * pixels % VL == 0 ? tiles : most;
}

/* Passes tiles to the hook, or stores them where pixels are apart in y; blocks are `step` elements apart. */
static int32_t store_held(const struct pass *p, float *held, int64_t step, int64_t pixel, int64_t pixels,
                          float *to) {
    int32_t error = 0;
    for (int64_t b = 0; b < p->blocks && !error; b++)
        error = p->g->s.y_lanes == 1 ? store_planar(p, held + b * step, p->block + b, pixel, pixels, to)
                                     : store_blocked(p, held + b * step, p->block + b, pixel, pixels, to);
    return error;
}

/* The taps of a window row that are inside the image for some of the pixels from column x on. */
static struct taps columns_inside(const struct direct_args *s, int64_t x, int64_t pixels) {
    const int64_t first = x * s->stride_w - s->pad_left, last = first + (pixels - 1) * s->stride_w;
    return (struct taps){taps_inside(last, s->w, s->kw, s->dilation_w).first,
                         taps_inside(first, s->w, s->kw, s->dilation_w).last};
}

/* Computes a tile as partial sums of g->chain channels: rounding errors grow with the length of a sum
 * (Higham, "The accuracy of floating point summation", 1993). */
static void run_chains(const struct conv *g, tile_fn run, const struct tile *whole) {
    struct tile t = *whole;
    const int64_t blocks = g->chain / g->lanes, taps = t.tap_count * g->lanes;
    t.channels = g->chain;
    t.x_next = t.x_block;
    t.bias = NULL;
    t.far = t.act = 0;
    int64_t left = whole->channels;
    for (; left > g->chain; left -= g->chain) {
        run(&t);
        t.x += blocks * t.x_block;
        t.w += blocks * (taps * VL + t.w_skip);
        t.ahead += blocks * taps / 2 * t.ahead_step / 4;
        t.added = t.to;
        t.added_block = t.to_block;
    }
    t.channels = left;
    t.x_next = whole->x_next;
    t.bias = whole->bias;
    t.far = whole->far;
    t.act = whole->act;
    run(&t);
}

GW_INLINE void run_tile(const struct conv *g, tile_fn run, const struct tile *t) {
    if (t->channels > g->chain)
        run_chains(g, run, t);
    else
        run(t);
}

/* Computes a tile of a dilated convolution. If some taps of a window row are in the padding for all of its
 * pixels, these are left out, and the rows of the window are partial sums.
 */
static void run_dilated(const struct conv *g, tile_fn run, const struct tile *whole, struct taps columns) {
    const int64_t kw = g->s.kw, count = columns.last - columns.first, rows = whole->tap_count / kw;
    if (count == kw || count <= 0 || rows == 0) {
        run_tile(g, run, whole);
        return;
    }
    struct tile t = *whole;
    t.taps += columns.first;
    t.tap_count = count;
    t.w += columns.first * g->lanes * VL;
    t.w_skip += (whole->tap_count - count) * g->lanes * VL;
    t.bias = NULL;
    t.far = t.act = 0;
    for (int64_t row = 1; row < rows; row++) {
        run_tile(g, run, &t);
        t.taps += kw;
        t.w += kw * g->lanes * VL;
        t.ahead += count * t.channels / 2 * t.ahead_step / 4;
        t.added = t.to;
        t.added_block = t.to_block;
    }
    t.bias = whole->bias;
    t.far = whole->far;
    t.act = whole->act;
    run_tile(g, run, &t);
}

/* The tile of `pixels` at pixel (y, x). It leaves out taps that are in rows above or below the image. */
static struct tile tile_at(const struct pass *p, int64_t pixels, int64_t y, int64_t x) {
    const struct conv *g = p->g;
    const struct direct_args *s = &g->s;
    const struct taps rows = rows_inside(s, y);
    const int64_t down = y - p->o->y0, right = x - p->o->x0, outside = s->kh - (rows.last - rows.first);
    const int64_t tap = s->kw * g->lanes * VL;
    struct tile t = p->t;
    t.deep = 4 * p->blocks * t.tap_count * t.channels * VL > DEEP;
    t.x_next = pixels * g->step * g->lanes - (ceildiv(t.channels, g->lanes) - 1) * t.x_block;
    t.x += down * g->row_step + right * g->step * g->lanes;
    t.taps += rows.first * s->kw;
    t.tap_count -= outside * s->kw;
    t.w += rows.first * tap;
    t.w_skip += outside * tap;
    if (t.added)
        t.added += down * p->added_h + right * VL;
    if (t.to)
        t.to += down * p->to_h + right * p->to_pixel;
    return t;
}

/* Computes `count` tiles of `pixels` each, from pixel (y, x) on. */
static int32_t run_tiles(struct pass *p, tile_fn run, int64_t pixels, int64_t count, int64_t y, int64_t x) {
    const struct conv *g = p->g;
    const struct direct_args *s = &g->s;
    struct tile t = tile_at(p, pixels, y, x);
    float held[HELD_PIXELS * VL] __attribute__((aligned(64)));
    float *to = t.to;                      /* the destination of the first collected pixel */
    float *first = p->apart ? held : t.to; /* its current address */
    const int64_t room = held_tiles(p, pixels) * pixels;
    int64_t waiting = 0; /* collected pixels */
    if (p->apart)
        t.to_block = room * VL;
    struct fetch fetch = fetch_of(p, &t, pixels);
    for (int64_t i = 0; i < count; i++, x += pixels) {
        t.edges = (x == 0) | (x + pixels == s->ow) << 1;
        if (p->apart)
            t.to = held + waiting * VL;
        fetch_ahead(p, &t, &fetch);
        if (g->dilated)
            run_dilated(g, run, &t, columns_inside(s, x, pixels));
        else
            run_tile(g, run, &t);
        t.x += pixels * g->step * g->lanes;
        t.added = t.added ? t.added + pixels * VL : NULL;
        t.to += pixels * p->to_pixel;
        waiting += pixels;
        if (!(p->apart | p->in_place) || (waiting < room && i + 1 < count))
            continue;
        const int32_t error = store_held(p, first, t.to_block, y * s->ow + x + pixels - waiting, waiting, to);
        if (error)
            return error;
        to = to ? to + waiting * p->to_pixel : NULL;
        first = p->apart ? held : to;
        waiting = 0;
    }
    return 0;
}

/* The number of tiles of a row. */
static int64_t row_tiles(const struct pass *p) {
    static const int8_t widest[MAX_BLOCKS] = {TILE_PIXELS};
    static const int8_t planar[MAX_BLOCKS] = {PLANAR_PIXELS};
    const int8_t *width = p->g->s.y_lanes == 1 ? planar : widest;
    return ceildiv(p->o->x1 - p->o->x0, width[p->blocks - 1]);
}

/* Computes all tiles of a pass: each row is cut into tiles of nearly equal width. */
static int32_t run_pass(struct pass *p) {
    const struct conv *g = p->g;
    const struct band *o = p->o;
    const tile_fn *tile_of = g->tiles[p->blocks - 1];
    const int64_t columns = o->x1 - o->x0, tiles = row_tiles(p);
    const int64_t width = columns / tiles, wider = columns - width * tiles;
    int32_t error = 0;
    for (int64_t y = o->y0; y < o->y1 && !error; y++) {
        if (wider)
            error = run_tiles(p, tile_of[width + 1], width + 1, wider, y, o->x0);
        if (!error)
            error = run_tiles(p, tile_of[width], width, tiles - wider, y, o->x0 + wider * (width + 1));
    }
    return error;
}

/* Prefetches the weights of the next pass: `channels` of `blocks` output blocks, from w on. */
static void fetch_next(struct pass *p, const float *w, int64_t channels, int64_t blocks) {
    p->ahead_size = channels * p->t.tap_count * VL;
    p->ahead_blocks = p->g->streamed ? blocks : 0;
    p->ahead = w;
    p->ahead_end = w + p->ahead_size;
    p->ahead_step = smaller(4 * LINE, ceildiv(8 * LINE * blocks, row_tiles(p) * (p->o->y1 - p->o->y0)));
}

/* The position of the first output block of a pass among those of all groups. */
static int64_t first_block(const struct pass *p) { return p->o->group * p->g->blocks + p->block; }

/* Output blocks [block, block + blocks) of a band, before the first pass over input channels. */
static struct pass pass_of(const struct conv *g, const struct band *o, int64_t block, int64_t blocks) {
    const struct direct_args *s = &g->s;
    const int64_t w_in = s->kh * s->kw * g->lanes * VL, w_out = ceildiv(s->cin, g->lanes) * w_in;
    struct pass p = {.g = g, .o = o, .block = block, .blocks = blocks, .added_h = s->r_h};
    p.t = (struct tile){
        .x = o->in + o->at,
        .x_block = g->x_block,
        .taps = g->taps,
        .tap_count = s->kh * s->kw,
        .w = g->w + first_block(&p) * w_out,
        .w_out = w_out,
        .added_block = s->r_c,
        .zeros = zeros,
        .lo = g->lo,
        .hi = g->hi,
    };
    if (g->residual)
        p.t.added = g->residual + o->image * s->r_n + first_block(&p) * s->r_c + o->y0 * s->r_h + o->x0 * VL;
    return p;
}

/* Makes a pass the last one over the input channels: it adds the bias and writes the output. */
static void make_last(struct pass *p) {
    const struct conv *g = p->g;
    const struct band *o = p->o;
    const struct direct_args *s = &g->s;
    p->t.bias = g->bias ? g->bias + first_block(p) * VL : NULL;
    p->apart = g->nhwc || (g->hook.call && !g->y) || s->y_w != VL || s->y_lanes != VL || s->split_h > 1;
    p->in_place = g->hook.call && !p->apart;
    p->t.to = g->hook.call && p->apart ? NULL : g->y + o->image * s->y_n + o->y0 * s->y_h + o->x0 * s->y_w;
    if (!p->apart)
        p->t.to += first_block(p) * s->y_c;
    p->t.to_block = s->y_c;
    p->to_pixel = s->y_w;
    p->to_h = s->y_h;
    p->t.act = s->act;
    p->far = !p->apart && s->groups * s->oh * s->ow * g->blocks * VL > CACHED;
}

/* Computes output blocks [block, block + blocks) of a band, one block of input channels after another. */
static int32_t run_blocks(const struct conv *g, const struct band *o, int64_t block, int64_t blocks) {
    const struct direct_args *s = &g->s;
    struct pass p = pass_of(g, o, block, blocks);
    const int64_t room = (o->x1 - o->x0) * VL, part = g->part / g->lanes;
    const int64_t w_part = part * s->kh * s->kw * g->lanes * VL;
    const float *next = p.t.w + blocks * p.t.w_out;
    int64_t left = s->cin;
    for (; left > g->part; left -= g->part) {
        p.t.channels = g->part;
        p.t.to = g->sums;
        p.t.to_block = room * (o->y1 - o->y0);
        p.to_pixel = VL;
        p.to_h = room;
        fetch_next(&p, p.t.w + w_part, smaller(g->part, left - g->part), blocks);
        run_pass(&p);
        p.t.x += part * g->x_block;
        p.t.w += w_part;
        p.t.added = g->sums;
        p.t.added_block = p.t.to_block;
        p.added_h = room;
    }
    fetch_next(&p, next, smaller(g->part, s->cin), smaller(MAX_BLOCKS, g->blocks - block - blocks));
    p.t.channels = left;
    make_last(&p);
    return run_pass(&p);
}

#endif

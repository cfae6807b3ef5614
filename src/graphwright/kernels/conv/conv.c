/* Convolution with im2col packing: see conv.py. */

#include "library/hook.h"
#include "library/sizes.h"
#include "library/tile.h"

#include "conv/conv.gen.h"

struct conv {
    struct conv_args s;
    const float *x, *w, *bias;
    float *y;
    struct hook hook;
    int64_t taps;      /* kd * kh * kw */
    int64_t pixels;    /* od * oh * ow */
    int64_t block_cin; /* input channels per cache block */
    int padded;        /* some tap of some pixel is outside the image */
    int flat;          /* the pixels of y are contiguous */
};

#define ARGS conv_args
#define ELEMENT float
#define VECTOR vf
#define WHOLE vf
#define PART vf
#include "conv/im2col.h"

/* Packs cols pixels from pixel `at` on to the panel to[channel][tap][NR]; taps outside the image are zeros.
 */
static void gather_panel(const struct conv *g, const float *x, int64_t channels, int64_t at, int64_t cols,
                         float *to) {
    const struct conv_args *s = &g->s;
    if (g->padded || cols < NR)
        memset(to, 0, (size_t)(channels * g->taps * NR) * sizeof *to);
    gather_runs(s, (struct image){x, channels, s->x_c, s->x_d, s->x_h, s->x_w}, at, cols, to);
}

/* The offset of an output pixel in its plane. */
GW_INLINE int64_t pixel_offset(const struct conv_args *s, int64_t pixel) {
    const int64_t row = pixel / s->ow;
    return row / s->oh * s->y_d + row % s->oh * s->y_h + pixel % s->ow * s->y_w;
}

static void store_tile(const struct conv *g, const float *tile, struct area at, float *y) {
    for (int64_t r = 0; r < at.rows; r++, tile += NR, y += g->s.y_c) {
        if (g->flat)
            copy_row(tile, at.cols, y + at.col);
        else
            for (int64_t i = 0; i < at.cols; i++)
                y[pixel_offset(&g->s, at.col + i)] = tile[i];
    }
}

/* The address of a channel of an image of the output. */
static float *channel_of(const struct conv *g, int64_t image, int64_t channel) {
    return g->y + image * g->s.y_n + channel * g->s.y_c;
}

/* Sets where a tile is stored after the last block of input channels: directly in the output, or in `out`. */
static void set_destination(const struct conv *g, int64_t image, struct area at, float *out, struct tile *t) {
    const int direct = !g->hook.call && g->flat && at.cols % VL == 0;
    t->relu = g->s.act == 1;
    t->to = direct ? channel_of(g, image, at.row) + at.col : out;
    t->to_ld = direct ? g->s.y_c : NR;
}

/* Passes a finished tile to the hook, or stores it if it is not in the output yet. */
static int32_t deliver_tile(const struct conv *g, int64_t image, struct area at, float *out,
                            const struct tile *t) {
    if (g->hook.call)
        return call_hook(&g->hook, out, NR, image, at);
    if (t->to == out)
        store_tile(g, out, at, channel_of(g, image, at.row));
    return 0;
}

static int32_t run_block(const struct conv *g, const struct block *o, float *scratch) {
    const struct conv_args *s = &g->s;
    const int64_t pixels = g->pixels, k = s->cin * g->taps, tiles = ceildiv(s->cout, MR);
    const int64_t blocks = s->cin > g->block_cin ? ceildiv(s->cin, g->block_cin) : 1;
    const int64_t panel_room = smaller(s->cin, g->block_cin) * g->taps * NR;
    const int64_t count = o->panel1 - o->panel0;
    float *panels = scratch, *sums = scratch + panel_room * smaller(ceildiv(pixels, NR), s->block_panels);
    float out[MR * NR] __attribute__((aligned(64)));
    const float *x = g->x + o->image * s->x_n + o->group * s->cin * s->x_c;
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t c0 = part_begin(s->cin, i, blocks), channels = part_begin(s->cin, i + 1, blocks) - c0;
        for (int64_t p = 0; p < count; p++) {
            const int64_t at = (o->panel0 + p) * NR;
            gather_panel(g, x + c0 * s->x_c, channels, at, smaller(pixels - at, NR), panels + p * panel_room);
        }
        for (int64_t tile = o->tile0; tile < o->tile1; tile++) {
            const int64_t row = tile * MR, rows = smaller(s->cout - row, MR);
            const int64_t channel = o->group * s->cout + row;
            const float *a = g->w + ((o->group * tiles + tile) * k + c0 * g->taps) * MR;
            for (int64_t p = 0; p < count; p++) {
                const int64_t first = (o->panel0 + p) * NR;
                const struct area at = {channel, rows, first, smaller(pixels - first, NR)};
                float *sum = sums + ((tile - o->tile0) * count + p) * MR * NR;
                struct tile t = {.added = i > 0 ? sum : NULL, .added_ld = NR, .to = sum, .to_ld = NR};
                t.ahead_step = 16;
                t.ahead = p == 0 && tile + 1 < o->tile1 ? a + k * MR : a; /* the next weights */
                if (i == blocks - 1) {
                    t.column = g->bias ? g->bias + channel : NULL;
                    t.column_ld = 1;
                    set_destination(g, o->image, at, out, &t);
                }
                run_tile(rows, ceildiv(at.cols, VL), channels * g->taps, a, panels + p * panel_room, NR, &t);
                if (i < blocks - 1)
                    continue;
                const int32_t error = deliver_tile(g, o->image, at, out, &t);
                if (error)
                    return error;
            }
        }
    }
    return 0;
}

/* Whether the convolution reads and writes each pixel once, in the order of memory. */
static int is_pointwise(const struct conv *g) {
    const struct conv_args *s = &g->s;
    return g->taps == 1 && s->stride_d == 1 && s->stride_h == 1 && s->stride_w == 1 && !g->padded &&
           s->od == s->d && s->oh == s->h && s->ow == s->w && s->x_w == 1 && s->x_h == s->w &&
           (s->x_d == s->h * s->w || s->d == 1) && g->flat;
}

static void prepare(struct conv *g) {
    struct conv_args *s = &g->s;
    g->taps = s->kd * s->kh * s->kw;
    g->pixels = s->od * s->oh * s->ow;
    g->block_cin = g->taps < K_BLOCK ? K_BLOCK / (g->taps ? g->taps : 1) : 1;
    g->padded = reads_padding(s);
    g->flat = s->y_w == 1 && (s->y_h == s->ow || s->oh == 1) && (s->y_d == s->oh * s->ow || s->od == 1);
    if (is_pointwise(g)) { /* one row of all pixels, which is packed by copying */
        s->w = s->ow = g->pixels;
        s->d = s->od = s->h = s->oh = 1;
    }
}

GW_KERNEL(gw_conv_f32) {
    struct conv g = {
        .x = buf[CONV_X],
        .w = buf[CONV_W],
        .bias = buf[CONV_BIAS],
        .y = buf[CONV_Y],
        .hook = hook_after(buf, CONV_OPERANDS, arg, CONV_ARGS),
    };
    const struct conv_args *s = &g.s;
    memcpy(&g.s, arg, sizeof g.s);
    prepare(&g);
    const int64_t panels = ceildiv(g.pixels, NR), tiles = ceildiv(s->cout, MR);
    const int64_t blocks = ceildiv(panels, s->block_panels), units = ceildiv(tiles, s->unit_tiles);
    while (begin < end) {
        const int64_t unit = begin % units, block = begin / units % blocks, outer = begin / units / blocks;
        const int64_t run = smaller(smaller(end - begin, units - unit), RUN_TILES / s->unit_tiles);
        const struct block o = {
            .image = outer / s->groups,
            .group = outer % s->groups,
            .tile0 = unit * s->unit_tiles,
            .tile1 = smaller(tiles, (unit + run) * s->unit_tiles),
            .panel0 = part_begin(panels, block, blocks),
            .panel1 = part_begin(panels, block + 1, blocks),
        };
        const int32_t error = run_block(&g, &o, scratch);
        if (error)
            return error;
        begin += run;
    }
    return 0;
}

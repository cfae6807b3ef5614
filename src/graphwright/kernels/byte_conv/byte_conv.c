/* Convolution of bytes: see byte_conv.py. */

#include "library/hook.h"
#include "library/sizes.h"

#include "byte_conv/byte_conv.gen.h"

#include "byte_conv/byte_panels.h"
#include "library/run_byte_tile.h"

struct conv {
    struct byte_conv_args s;
    const quad *x;
    const uint8_t *w, *w_zero;
    int32_t *y;
    struct hook hook;
    int64_t taps;   /* kd * kh * kw */
    int64_t pixels; /* d * h * w */
    int64_t planes; /* planes of quads in a group */
    struct panels panels;
    int64_t most_panels; /* of a block */
    int32_t zero;        /* the zero point of x as u8 */
    int padded;          /* some tap of some pixel is outside the image */
    int w_moved, shifts; /* w is shifted by 128; some channel then has a non-zero zero point */
    enum byte_unit unit;
};

GW_INLINE vi vi_load_n(const quad *p, int64_t n) { return (vi)vf_load_n((const float *)(const void *)p, n); }
GW_INLINE void vi_store_n(quad *p, vi x, int64_t n) { vf_store_n((float *)(void *)p, (vf)x, n); }
GW_INLINE vi q_load(const quad *p) { return *(const vi_any *)p; }
GW_INLINE void q_store(quad *p, vi x) { *(vi_any *)p = x; }

#define ARGS byte_conv_args
#define ELEMENT quad
#define VECTOR vi
#define WHOLE q
#define PART vi
#include "conv/im2col.h"

/* Packs cols pixels from pixel `at` on to the panel to[plane][tap][NR]; taps outside the image are zero
 * points. */
static void gather_panel(const struct conv *g, const quad *x, int64_t at, int64_t cols, quad *to) {
    const struct byte_conv_args *s = &g->s;
    if (g->padded || cols < NR) {
        const vi outside = vi_set1((int32_t)(0x01010101u * (uint32_t)g->zero));
        for (int64_t i = 0; i < g->planes * g->taps * NR; i += VL)
            q_store(to + i, outside);
    }
    gather_runs(s, (struct image){x, g->planes, g->pixels, s->h * s->w, s->w, 1}, at, cols, to);
}

/* Sums of a panel's columns over the real channels, minus the zero point of x times their number. */
static void sum_columns(const struct conv *g, const quad *panel, int32_t *sums) {
    const int64_t last = g->s.cin - 4 * (g->planes - 1);
    const vi zeros = vi_set1((int32_t)((uint32_t)(g->s.cin * g->taps) * (uint32_t)g->zero));
    for (int64_t v = 0; v < NR; v += VL) {
        vq total = (vq){0} - (vq)zeros;
        for (int64_t c = 0; c < g->planes; c++) {
            const vi counted = vi_set1(c + 1 < g->planes || last == 4 ? -1 : (1 << 8 * last) - 1);
            for (int64_t tap = 0; tap < g->taps; tap++)
                total += (vq)quad_sums(q_load(panel + (c * g->taps + tap) * NR + v) & counted);
        }
        vi_store(sums + v, (vi)total);
    }
}

static int32_t zero_of_weights(const struct conv *g, int64_t channel) {
    return zero_at(g->w_zero, channel * g->s.w_zero_step, g->s.w_signed, g->w_moved);
}

/* A tile of weights: those of `rows` output channels. */
struct weights {
    int64_t channel, rows;
    const uint8_t *w;
    int64_t ahead;            /* the bytes from w to the next tile; 0 if there is none */
    int32_t start[TILE_ROWS]; /* the start values of sums */
};

/* Subtracts the contribution of the weights' zero points from `vectors` vectors of each row of a tile. */
static void shift_tile(const struct conv *g, const struct weights *w, int64_t vectors, const int32_t *sums,
                       int32_t *tile, int64_t ld) {
    int32_t zeros[TILE_ROWS];
    for (int64_t r = 0; r < w->rows; r++)
        zeros[r] = zero_of_weights(g, w->channel + r);
    subtract_products(tile, ld, w->rows, vectors, zeros, sums);
}

#if VL == 16
/* Multiplies a tile of weights by columns whose k is contiguous: as few columns fill no vector, lanes are
 * values of k. */
VNNI_TARGET static void dot_rows(const struct weights *w, int64_t quads, const quad *column, int64_t columns,
                                 int32_t *to) {
    const int64_t runs = ceildiv(quads * 4, RUN);
    for (int64_t c = 0; c < columns; c++, column += runs * VL) {
        vi sums[TILE_ROWS];
#pragma GCC unroll 8
        for (int64_t r = 0; r < TILE_ROWS; r++)
            sums[r] = (vi){0};
        for (int64_t i = 0; i < runs; i++)
#pragma GCC unroll 8
            for (int64_t r = 0; r < TILE_ROWS; r++)
                DOT(sums[r], q_load(column + i * VL), quads_at(w->w + (i * TILE_ROWS + r) * RUN));
        for (int64_t r = 0; r < w->rows; r++)
            to[r * OUT_LD + c] = (int32_t)((uint32_t)w->start[r] + lanes_sum(sums[r]));
    }
}
#endif

/* The packed columns of a block. */
struct packed {
    struct columns of[MOST_PANELS]; /* each panel */
    const quad *panels, *rest;      /* rest: a panel of the columns that are in no vector */
    quad *runs;                     /* the same columns, one after the other: whole runs of k */
    int32_t *sums;                  /* of the columns of each panel, and of the rest */
};

/* Packs the panels of a block at `room`; the last one is followed by that of the rest. */
static void gather_block(const struct conv *g, const struct block *o, quad *room) {
    const struct byte_conv_args *s = &g->s;
    const int64_t panel = g->planes * g->taps * NR;
    const quad *x = g->x + (o->image * s->groups + o->group) * g->planes * g->pixels;
    for (int64_t p = o->panel0; p < o->panel1; p++, room += panel) {
        const struct columns c = columns_of(&g->panels, p);
        gather_panel(g, x, c.at, c.cols, room);
        if (c.rest)
            gather_panel(g, x, c.at + c.cols, c.rest, room + panel);
    }
}

/* Prepares the panels of a block, which may be packed already. */
static void prepare_block(const struct conv *g, const struct block *o, quad *room, struct packed *b) {
    const struct byte_conv_args *s = &g->s;
    const int64_t quads = g->planes * g->taps, run = ceildiv(quads * 4, RUN) * (RUN / 4);
    const int64_t image = o->image * s->groups + o->group, count = o->panel1 - o->panel0;
    b->panels = s->x_packed ? g->x + (image * (g->panels.count + 1) + o->panel0) * quads * NR : room;
    b->rest = b->panels + count * quads * NR;
    if (!s->x_packed)
        gather_block(g, o, room);
    for (int64_t p = 0; p < count; p++) {
        const struct columns c = b->of[p] = columns_of(&g->panels, o->panel0 + p);
        if (g->shifts)
            sum_columns(g, b->panels + p * quads * NR, b->sums + p * NR);
        if (!c.rest)
            continue;
        if (g->shifts)
            sum_columns(g, b->rest, b->sums + (p + 1) * NR);
        memset(b->runs, 0, (size_t)(c.rest * run) * sizeof(quad));
        for (int64_t i = 0; i < c.rest; i++)
            for (int64_t q = 0; q < quads; q++)
                b->runs[i * run + q] = b->rest[q * NR + i];
    }
}

/* Multiplies a tile of weights by the columns that are in no vector. */
static void run_rest(const struct conv *g, const struct weights *w, const struct packed *b, int64_t columns,
                     int32_t *to) {
    const int64_t quads = g->planes * g->taps;
    const struct byte_tile t = {.from = w->start, .from_rows = 1, .to = to, .to_ld = OUT_LD};
#if VL == 16
    if (g->unit == WITH_VNNI) {
        dot_rows(w, quads, b->runs, columns, to);
        return;
    }
#endif
    (void)columns;
    run_byte_tile(g->unit, TILE_ROWS, w->rows, 1, quads, w->w, (const uint8_t *)b->rest, &t);
}

/* Multiplies a tile of weights by panel p, and passes the result to the hook or stores it. */
static int32_t run_tile(const struct conv *g, const struct block *o, const struct packed *b, int64_t p,
                        const struct weights *w) {
    const struct byte_conv_args *s = &g->s;
    const struct columns c = b->of[p];
    const int64_t quads = g->planes * g->taps, vectors = ceildiv(c.cols, VL);
    const int32_t *sums = b->sums + p * NR;
    int32_t *y = g->y + o->image * s->y_n + w->channel * s->y_c + c.at;
    int32_t out[TILE_ROWS * OUT_LD] __attribute__((aligned(64)));
    struct byte_tile t = {.from = w->start, .from_rows = 1, .to = out, .to_ld = OUT_LD};
    t.ahead = w->w + w->ahead; /* weights are rarely in the cache */
    t.ahead_lines = w->ahead ? TILE_ROWS * RUN / 64 : 0;
    if (!g->hook.call && c.cols % VL == 0 && !c.rest) {
        t.to = y;
        t.to_ld = s->y_c;
    }
    if (vectors)
        run_byte_tile(g->unit, TILE_ROWS, w->rows, vectors, quads, w->w,
                      (const uint8_t *)(b->panels + p * quads * NR), &t);
    if (g->shifts)
        shift_tile(g, w, vectors, sums, t.to, t.to_ld);
    if (c.rest) {
        run_rest(g, w, b, c.rest, out + c.cols);
        if (g->shifts)
            shift_tile(g, w, 1, sums + NR, out + c.cols, OUT_LD);
    }
    if (g->hook.call)
        return call_hook(&g->hook, out, OUT_LD, o->image,
                         (struct area){w->channel, w->rows, c.at, c.cols + c.rest});
    for (int64_t r = 0; t.to == out && r < w->rows; r++)
        memcpy(y + r * s->y_c, out + r * OUT_LD, (size_t)(c.cols + c.rest) * sizeof *out);
    return 0;
}

static int32_t run_block(const struct conv *g, const struct block *o, uint8_t *scratch) {
    const struct byte_conv_args *s = &g->s;
    const int64_t quads = g->planes * g->taps, tiles = ceildiv(s->cout, TILE_ROWS);
    const int64_t tile_bytes = TILE_ROWS * 4 + ceildiv(quads * 4, RUN) * RUN * TILE_ROWS;
    const int64_t count = o->panel1 - o->panel0;
    int32_t *sums = (int32_t *)(void *)scratch;
    quad *runs = (quad *)(void *)(sums + (count + 1) * NR);
    struct packed b = {.sums = sums, .runs = runs};
    prepare_block(g, o, runs + REST * ceildiv(quads * 4, RUN) * (RUN / 4), &b);
    for (int64_t tile = o->tile0; tile < o->tile1; tile++) {
        const uint8_t *packed = g->w + (o->group * tiles + tile) * tile_bytes;
        struct weights w = {
            .channel = o->group * s->cout + tile * TILE_ROWS,
            .rows = smaller(s->cout - tile * TILE_ROWS, TILE_ROWS),
            .w = packed + TILE_ROWS * 4,
            .ahead = tile + 1 < o->tile1 ? tile_bytes : 0,
        };
        memcpy(w.start, packed, sizeof w.start);
        for (int64_t r = 0; r < TILE_ROWS; r++)
            w.start[r] = (int32_t)-((uint32_t)g->zero * (uint32_t)w.start[r]);
        for (int64_t p = 0; p < count; p++) {
            const int32_t error = run_tile(g, o, &b, p, &w);
            if (error)
                return error;
        }
    }
    return 0;
}

static int32_t run_units(const struct conv *g, int64_t begin, int64_t end, uint8_t *scratch) {
    const struct byte_conv_args *s = &g->s;
    const int64_t tiles = ceildiv(s->cout, TILE_ROWS),
                  unit_tiles = s->x_packed ? PACKED_UNIT_TILES : UNIT_TILES;
    const int64_t channel_units = ceildiv(tiles, unit_tiles);
    const int64_t panels = g->panels.count, pixel_units = ceildiv(panels, g->most_panels);
    while (begin < end) {
        const int64_t unit = begin % channel_units, block = begin / channel_units;
        const int64_t pixels = block % pixel_units, image = block / pixel_units;
        const int64_t run = smaller(end - begin, channel_units - unit);
        const struct block o = {
            .image = image / s->groups,
            .group = image % s->groups,
            .tile0 = unit * unit_tiles,
            .tile1 = smaller(tiles, (unit + run) * unit_tiles),
            .panel0 = part_begin(panels, pixels, pixel_units),
            .panel1 = part_begin(panels, pixels + 1, pixel_units),
        };
        const int32_t error = run_block(g, &o, scratch);
        if (error)
            return error;
        begin += run;
    }
    return 0;
}

static int64_t block_panels(int64_t quads) {
    const int64_t fitting = BLOCK_BYTES / ((quads > 1 ? quads : 1) * PANEL_ROW);
    return fitting < 1 ? 1 : smaller(fitting, MOST_PANELS);
}

static void prepare(struct conv *g, const uint8_t *x_zero) {
    const struct byte_conv_args *s = &g->s;
    g->taps = s->kd * s->kh * s->kw;
    g->pixels = s->d * s->h * s->w;
    g->planes = ceildiv(s->cin, 4);
    g->panels = panels_of(s->od * s->oh * s->ow);
    g->most_panels = block_panels(g->planes * g->taps);
    g->zero = zero_at(x_zero, 0, s->x_signed, s->x_signed ? 128 : 0);
    g->w_moved = s->w_signed ? 0 : -128;
    g->padded = reads_padding(s);
    const int64_t zeros = s->w_zero_step ? s->groups * s->cout : 1;
    for (int64_t i = 0; i < zeros; i++)
        g->shifts |= zero_of_weights(g, i) != 0;
}

GW_INLINE int32_t run(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch,
                      enum byte_unit most) {
    struct conv g = {
        .x = buf[BYTE_CONV_X],
        .w = buf[BYTE_CONV_W],
        .w_zero = buf[BYTE_CONV_W_ZERO],
        .y = buf[BYTE_CONV_Y],
        .hook = hook_after(buf, BYTE_CONV_OPERANDS, arg, BYTE_CONV_ARGS),
        .unit = byte_unit_up_to(most),
    };
    memcpy(&g.s, arg, sizeof g.s);
    prepare(&g, buf[BYTE_CONV_X_ZERO]);
    start_byte_tiles(g.unit, TILE_ROWS);
    const int32_t error = run_units(&g, begin, end, scratch);
    end_byte_tiles(g.unit);
    return error;
}

GW_KERNEL(gw_conv_bytes) { return run(buf, arg, begin, end, scratch, WITH_AMX); }

GW_KERNEL(gw_conv_bytes_vnni) { return run(buf, arg, begin, end, scratch, WITH_VNNI); }

GW_KERNEL(gw_conv_bytes_wide) { return run(buf, arg, begin, end, scratch, AS_16_BITS); }

/* The loops of direct convolutions. They do not depend on the input layout: the including file defines
 * copy_row_of_blocks. */

#ifndef GW_DIRECT_RUN_H
#define GW_DIRECT_RUN_H

#include "conv/direct_pass.h"
#include "library/bits.h"

/* Copies n columns x, x + step, ... of a row of input block c, then n columns x + 1, x + 1 + step, ..., and
 * so on for `planes` starting columns. Columns outside the image are zeros. row: the offset in the input of
 * that row of the first block. */
static void copy_row_of_blocks(const struct conv *g, int64_t row, int64_t c, int64_t x, int64_t n,
                               int64_t step, int64_t planes, float *to);

/* Copies the rows of the image that a band reads; columns x, x + sorted, ... of each row become contiguous.
 * If the dilation leaves gaps between the rows of different taps, they are not copied. */
static void copy_band(const struct conv *g, const struct band *o, int64_t image) {
    const struct direct_args *s = &g->s;
    const int64_t step = s->kh == 1 ? s->stride_h : 1, top = o->y0 * s->stride_h - s->pad_top;
    const int has_gaps = g->tap_rows < s->dilation_h;
    const int64_t parts = has_gaps ? s->kh : 1, reach = has_gaps ? 0 : (s->kh - 1) * s->dilation_h;
    const int64_t rows = ((o->y1 - 1 - o->y0) * s->stride_h + reach) / step + 1;
    const int64_t sorted = s->stride_w / g->step, planes = s->kw == 1 ? 1 : sorted;
    const int64_t columns = (o->x1 - 1 - o->x0) * g->step + 1 + (s->kw - 1) * s->dilation_w / sorted;
    const int64_t left = o->x0 * s->stride_w - s->pad_left;
    for (int64_t c = 0; c * g->lanes < s->cin; c++)
        for (int64_t at = 0; at < parts * rows; at++) {
            const int64_t part = at / rows, i = at % rows, y = top + part * s->dilation_h + i * step;
            float *to = g->copy + c * g->x_block + (part * g->tap_rows + i) * g->row_pitch;
            if (y >= 0 && y < s->h)
                copy_row_of_blocks(g, image + y * s->x_h, c, left, columns, sorted, planes, to);
        }
}

/* Finds the input of the band's first pixel at its first tap; copies the band if necessary. */
static void find_input(const struct conv *g, struct band *o) {
    const struct direct_args *s = &g->s;
    const int64_t image = o->image * s->x_n + o->group * g->group_blocks * s->x_c;
    if (g->copied) {
        copy_band(g, o, image);
        o->in = g->copy;
        o->at = 0;
    } else {
        o->in = g->x + image;
        o->at = (o->y0 * s->stride_h - s->pad_top) * s->x_h + (o->x0 * s->stride_w - s->pad_left) * g->lanes;
    }
    if (g->flat) {
        o->x1 = o->y1 * s->ow;
        o->x0 = o->y0 * s->ow;
        o->y0 = 0;
        o->y1 = 1;
    }
}

/* Computes the bands per image and units per band, as in the grid. */
static void cut_bands(struct conv *g) {
    const struct direct_args *s = &g->s;
    const int64_t tall = s->kh > 1 ? s->stride_h : 1, row = larger(1, 4 * s->cin * s->stride_w);
    g->column_bands = ceildiv(s->ow, larger(MIN_COLUMNS, BAND_BYTES / (row * larger(1, s->kh))));
    const int64_t width = ceildiv(s->ow, larger(1, g->column_bands));
    const int64_t fitting = larger(1, BAND_BYTES / larger(1, row * tall * width));
    const int64_t others = s->images * s->groups * g->column_bands * g->units;
    const int64_t wished = smaller(ceildiv(UNITS, larger(1, others)), larger(1, s->oh * width / MIN_PIXELS));
    g->row_bands = smaller(s->oh, larger(ceildiv(s->oh, fitting), wished));
    const int64_t narrowest = s->ow / larger(1, g->column_bands),
                  tiles = larger(1, ceildiv(narrowest, WIDEST));
    if (s->images * s->groups * g->row_bands * g->column_bands * g->units < UNITS &&
        narrowest / tiles >= FMA_SUMS) {
        g->units = larger(1, g->blocks);
        g->unit_blocks = 1;
    }
}

/* Whether tap j of a window row is in the padding for some pixel of columns [first, last). */
static int outside(const struct direct_args *s, int64_t first, int64_t last, int64_t j) {
    const int64_t shift = j * s->dilation_w - s->pad_left;
    return first < last && (first * s->stride_w + shift < 0 || (last - 1) * s->stride_w + shift >= s->w);
}

/* Whether tiles can read the image in place: only the first and the last pixel of a row may touch the
 * padding. */
static int can_read_in_place(const struct conv *g) {
    const struct direct_args *s = &g->s;
    int inside = 1;
    for (int64_t j = 0; j < s->kw; j++)
        inside &= !(g->lanes == 1 ? outside(s, 0, s->ow, j) : outside(s, 1, s->ow - 1, j));
    return inside && s->x_w == g->lanes && s->stride_w <= STEPS;
}

/* Lays out the input of the tiles, and the scratch. */
static void lay_out(struct conv *g, int64_t *scratch) {
    const struct direct_args *s = &g->s;
    const int64_t taps = s->kh * s->kw, last = (s->kw - 1) * s->dilation_w;
    g->copied = g->pairs || !can_read_in_place(g);
    g->dilated = g->copied && s->kw > 1 && s->dilation_w > 1;
    g->step = s->stride_w > STEPS || (g->copied && s->kw == 1) ? 1 : s->stride_w;
    g->tiles = g->families[g->step - 1];
    g->row_pitch = s->x_h;
    g->x_block = s->x_c;
    g->row_step = s->stride_h * s->x_h;
    g->tap_rows = s->dilation_h;
    g->taps = (struct tap *)scratch;
    g->copy = g->sums = (float *)(scratch + ceildiv(2 * taps, 8) * 8);
    const int64_t sorted = s->stride_w / g->step;
    if (g->copied) {
        const int64_t rows = ceildiv(s->oh, g->row_bands), step = s->kh == 1 ? 1 : s->stride_h;
        const int64_t columns = ceildiv(s->ow, g->column_bands);
        g->plane = ((columns - 1) * g->step + 1 + last / sorted) * g->lanes;
        g->row_pitch = g->plane * (s->kw == 1 ? 1 : sorted);
        g->tap_rows = smaller(s->dilation_h, (rows - 1) * step + 1);
        g->x_block = ((rows - 1) * step + (s->kh - 1) * g->tap_rows + 1) * g->row_pitch;
        g->row_step = step * g->row_pitch;
        g->sums = g->copy + ceildiv(s->cin, g->lanes) * g->x_block;
    }
    for (int64_t i = 0; i < s->kh; i++)
        for (int64_t j = 0, x = 0; j < s->kw; j++, x += s->dilation_w)
            g->taps[i * s->kw + j] = (struct tap){
                .at = i * g->tap_rows * g->row_pitch +
                      (g->copied ? x % sorted * g->plane + x / sorted * g->lanes : x * g->lanes),
                .outside = g->copied ? 0 : outside(s, 0, 1, j) | outside(s, s->ow - 1, s->ow, j) << 1,
            };
}

/* Whether the rows of y and of the residual are contiguous. */
static int contiguous(const struct conv *g) {
    const struct direct_args *s = &g->s;
    return g->column_bands == 1 && (g->hook.call || s->y_h == s->ow * s->y_w) &&
           (!g->residual || s->r_h == s->ow * VL);
}

/* Whether the rows of a band can be treated as one row of pixels. */
static int flattened(const struct conv *g) {
    const struct direct_args *s = &g->s;
    const int padded = s->pad_top > 0 || (s->oh - 1) * s->stride_h - s->pad_top >= s->h || g->taps[0].outside;
    return s->kh * s->kw == 1 && !padded && contiguous(g) && g->row_step == s->ow * g->step * g->lanes;
}

/* The number of output blocks of the next pass, of those left: three, unless one would remain. */
static int64_t pass_blocks(int64_t left) { return left == 4 ? (MAX_BLOCKS > 3 ? 4 : 2) : smaller(3, left); }

static int32_t run_units(const struct conv *g, const struct band *o, int64_t unit, int64_t next) {
    const int64_t end = next == g->units ? g->blocks : next * g->unit_blocks;
    int32_t error = 0;
    for (int64_t block = unit * g->unit_blocks, blocks; block < end && !error; block += blocks) {
        blocks = pass_blocks(end - block);
        error = run_blocks(g, o, block, blocks);
    }
    return error;
}

static int32_t run_bands(struct conv *g, int64_t begin, int64_t end, void *scratch) {
    const struct direct_args *s = &g->s;
    const int64_t taps = s->kh * s->kw;
    g->blocks = ceildiv(s->cout, VL);
    g->units = larger(1, g->blocks / UNIT_BLOCKS);
    g->unit_blocks = UNIT_BLOCKS;
    g->part = larger(1, PART / larger(1, taps * g->lanes)) * g->lanes;
    g->chain = larger(1, (CHAIN + taps * g->lanes / 2) / larger(1, taps * g->lanes)) * g->lanes;
    g->streamed = s->groups * g->blocks * VL * ceildiv(s->cin, g->lanes) * g->lanes * taps > STREAMED;
    cut_bands(g);
    lay_out(g, scratch);
    g->flat = flattened(g);
    const int64_t units = g->units, bands = g->row_bands * g->column_bands;
    while (begin < end) {
        const int64_t unit = begin % units, band = begin / units % bands, outer = begin / units / bands;
        const int64_t run = smaller(end - begin, units - unit);
        const int64_t row = band / g->column_bands, column = band % g->column_bands;
        struct band o = {
            .image = outer / s->groups,
            .group = outer % s->groups,
            .y0 = part_begin(s->oh, row, g->row_bands),
            .y1 = part_begin(s->oh, row + 1, g->row_bands),
            .x0 = part_begin(s->ow, column, g->column_bands),
            .x1 = part_begin(s->ow, column + 1, g->column_bands),
        };
        find_input(g, &o);
        const int32_t error = run_units(g, &o, unit, unit + run);
        if (error)
            return error;
        begin += run;
    }
    return 0;
}

static struct conv conv_of(void *const *buf, const int64_t *arg) {
    struct conv g = {
        .x = buf[DIRECT_X],
        .w = buf[DIRECT_W],
        .bias = buf[DIRECT_BIAS],
        .residual = buf[DIRECT_RESIDUAL],
        .y = buf[DIRECT_Y],
        .hook = hook_after(buf, DIRECT_OPERANDS, arg, DIRECT_ARGS),
    };
    memcpy(&g.s, arg, sizeof g.s);
    g.lo = g.s.act == 1 ? 0 : float_of(g.s.lo);
    g.hi = float_of(g.s.hi);
    return g;
}

#endif

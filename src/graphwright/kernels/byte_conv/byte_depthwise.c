/* Depthwise convolution of bytes: see byte_depthwise.py. */

#include "byte_conv/byte_depthwise_expand.h"
#include "byte_conv/byte_depthwise_permute.h"
#include "library/features.h"

enum { TILE_COLUMNS = 1024 }; /* pixels of a tile */
enum { ROWS = 4 };            /* vectors of neighboring rows that are summed together */

/* Tap (row, column) of a packed channel minus the zero point. */
static int32_t weight_at(const struct conv *g, const uint32_t *quads, int64_t row, int64_t column,
                         int32_t zero) {
    if (column >= g->s.kw)
        return 0;
    const uint8_t x = (uint8_t)(quads[row * ceildiv(g->s.kw, 4) + column / 4] >> 8 * (column % 4));
    return (g->s.w_signed ? (int8_t)x : x) - zero;
}

/* Reads the packed weights of a channel. */
static void read_weights(const struct conv *g, int64_t channel, struct weights *to) {
    const int64_t kh = g->s.kh, kw = g->s.kw, quads = ceildiv(kw, 4);
    const uint32_t *packed = (const uint32_t *)(const void *)g->w + channel * (1 + kh * quads);
    const int32_t zero = zero_at(g->w_zero, channel * g->s.w_zero_step, g->s.w_signed, 0);
    const uint32_t sum = packed[0] - (uint32_t)(kh * kw) * (uint32_t)zero;
    to->start = (int32_t)-((uint32_t)g->zero * sum);
    to->form = g->s.w_signed && zero == 0 ? g->form : PAIRS;
    to->words = to->form == PAIRS ? to->room : packed + 1;
    to->count = to->form == PAIRS ? ceildiv(kw, 2) : quads;
    for (int64_t i = 0; to->form == PAIRS && i < kh * to->count; i++) {
        const int64_t row = i / to->count, column = i % to->count * 2;
        to->room[i] = ((uint32_t)weight_at(g, packed + 1, row, column, zero) & 0xffff) |
                      (uint32_t)weight_at(g, packed + 1, row, column + 1, zero) << 16;
    }
}

/* Where the words of a tile come from. */
struct source {
    const struct conv *conv;
    const struct weights *weights;
    const uint32_t *expanded; /* the rows of the block */
    const struct permutation *permutation;
    const uint8_t *plane;
    int64_t row, padded_row; /* the first input row of the tile, in the block and in the padded plane */
    int64_t column;          /* the first output column of the tile */
};

/* The words of the vector of outputs at column c, from input row `row` of the tile on. */
struct words {
    const uint32_t *expanded;
    const struct row *rows;
    const uint8_t *pixels;
    const uint64_t *inside; /* the bytes of each word whose columns are in the image */
};

GW_INLINE struct words words_at(const struct source *s, int64_t row, int64_t c, int64_t count,
                                const enum form form) {
    const struct conv *g = s->conv;
    if (form < PERMUTED_ROW)
        return (struct words){.expanded = s->expanded + (s->row + row) * count * g->columns + s->column + c};
    const struct permutation *p = s->permutation;
    return (struct words){
        .rows = p->rows + s->padded_row + row,
        .pixels = s->plane + (s->column + c) * g->s.stride_w,
        .inside = p->inside + (s->column + c) / VL * count,
    };
}

/* Word `word`, of `count`, of input row `row`. */
GW_INLINE vi word_at(const struct source *s, const struct words *w, int64_t row, int64_t word, int64_t count,
                     const enum form form) {
    const struct conv *g = s->conv;
    if (form < PERMUTED_ROW)
        return vi_load((const int32_t *)(const void *)(w->expanded + (row * count + word) * g->columns));
    const uint8_t *first = w->pixels + w->rows[row].at + 4 * word * g->s.dilation_w;
    const uint64_t inside = form == PERMUTED_ROW ? w->inside[word] : w->inside[word] & w->rows[row].inside;
    return permuted(g, s->permutation, first, inside);
}

GW_INLINE vi dot(vi sums, vi x, uint32_t word, const enum form form) {
    const vi w = vi_set1((int32_t)word);
    if (form == PAIRS)
        return wrapping_sum(sums, pairs_dot((vs)x, (vs)w));
    DOT(sums, x, w);
    return sums;
}

/* Sums vectors of `rows` neighboring rows from input row `from`: the words of each input row are read once.
 * If there are several, they are `stride` input rows apart, and the dilation is 1. The last vector of a row
 * is stored first, since it can reach into the next row. */
GW_INLINE void sum_rows(const struct source *s, int64_t from, int64_t cols, const int64_t rows,
                        const int64_t kh, const int64_t count, const int64_t stride, const int64_t dilation,
                        const enum form form, int64_t pitch, int32_t *restrict to) {
    const int64_t reach = (rows - 1) * stride + kh;
    const int64_t last = form == PERMUTED_ROWS ? 0 : (cols - 1) / VL * VL;
    for (int64_t c = last; c >= 0; c -= VL) {
        const struct words words = words_at(s, from, c, count, form);
        vi sums[ROWS];
        for (int64_t r = 0; r < ROWS; r++)
            sums[r] = vi_set1(s->weights->start);
#pragma GCC unroll 15
        for (int64_t j = 0; j < reach; j++)
#pragma GCC unroll 3
            for (int64_t q = 0; q < count; q++) {
                const vi x = word_at(s, &words, j * dilation, q, count, form);
#pragma GCC unroll 4
                for (int64_t r = 0; r < rows; r++) {
                    const int64_t i = j - r * stride;
                    if (i >= 0 && i < kh)
                        sums[r] = dot(sums[r], x, s->weights->words[i * count + q], form);
                }
            }
#pragma GCC unroll 4
        for (int64_t r = 0; r < rows; r++)
            vi_store(to + r * pitch + c, sums[r]);
    }
}

/* Sums all rows of a tile, ROWS at a time, which it has at least; the last ones may be summed twice. */
GW_INLINE void sum_blocks(const struct source *s, int64_t cols, int64_t rows, const int64_t kh,
                          const int64_t count, const int64_t stride, const enum form form, int64_t pitch,
                          int32_t *to) {
    for (int64_t r = 0; r < rows; r += ROWS) {
        const int64_t first = smaller(r, rows - ROWS);
        sum_rows(s, first * stride, cols, ROWS, kh, count, stride, 1, form, pitch, to + first * pitch);
    }
}

/* Sums a tile of output rows; the usual windows have loops of their own. */
GW_INLINE void sum_tile(const struct source *s, int64_t cols, int64_t output_rows, const enum form form,
                        int32_t *to) {
    const struct byte_depthwise_args *a = &s->conv->s;
    const int64_t height = form == PERMUTED_ROWS ? s->conv->vector.rows : 1;
    const int64_t rows = ceildiv(output_rows, height);
    const int64_t kh = a->kh, stride = a->stride_h * height, dilation = a->dilation_h;
    const int64_t count = s->weights->count;
    const int64_t of_3 = form == PAIRS ? 2 : 1, of_5 = form == PAIRS ? 3 : 2; /* words of 3 and 5 taps */
    const int64_t pitch = a->ow * height;
    const int is_dense = rows >= ROWS && dilation == 1;
    if (is_dense && kh == 3 && count == of_3 && stride == 1)
        sum_blocks(s, cols, rows, 3, of_3, 1, form, pitch, to);
    else if (is_dense && kh == 3 && count == of_3 && stride == 2)
        sum_blocks(s, cols, rows, 3, of_3, 2, form, pitch, to);
    else if (is_dense && kh == 3 && count == of_3 && stride == 4)
        sum_blocks(s, cols, rows, 3, of_3, 4, form, pitch, to);
    else if (is_dense && kh == 5 && count == of_5 && stride == 1)
        sum_blocks(s, cols, rows, 5, of_5, 1, form, pitch, to);
    else if (is_dense && kh == 5 && count == of_5 && stride == 2)
        sum_blocks(s, cols, rows, 5, of_5, 2, form, pitch, to);
    else
        for (int64_t r = 0; r < rows; r++)
            sum_rows(s, r * stride, cols, 1, kh, count, stride, dilation, form, pitch, to + r * pitch);
}

static void sum_pairs(const struct source *s, int64_t cols, int64_t rows, int32_t *to) {
    sum_tile(s, cols, rows, PAIRS, to);
}

VNNI_TARGET static void sum_quads(const struct source *s, int64_t cols, int64_t rows, int32_t *to) {
    sum_tile(s, cols, rows, QUADS, to);
}

PERMUTE_TARGET static void sum_permuted_row(const struct source *s, int64_t cols, int64_t rows, int32_t *to) {
    sum_tile(s, cols, rows, PERMUTED_ROW, to);
}

PERMUTE_TARGET static void sum_permuted_rows(const struct source *s, int64_t cols, int64_t rows,
                                             int32_t *to) {
    sum_tile(s, cols, rows, PERMUTED_ROWS, to);
}

/* Passes a tile of pixels to the hook, or stores it. */
static int32_t deliver(const struct conv *g, const struct block *o, int64_t at, int64_t cols, int32_t *tile) {
    if (g->hook.call)
        return call_hook(&g->hook, tile, TILE_COLUMNS, o->image, (struct area){o->channel, 1, at, cols});
    memcpy(g->y + o->image * g->s.y_n + o->channel * g->s.y_c + at, tile, (size_t)cols * sizeof *tile);
    return 0;
}

/* Sums the tiles of a block. */
static int32_t run_block(const struct block *o, struct source *s) {
    static void (*const SUMS[])(const struct source *, int64_t, int64_t, int32_t *) = {
        [PAIRS] = sum_pairs,
        [QUADS] = sum_quads,
        [PERMUTED_ROW] = sum_permuted_row,
        [PERMUTED_ROWS] = sum_permuted_rows,
    };
    int32_t tile[TILE_COLUMNS + VL] __attribute__((aligned(64)));
    const struct conv *g = s->conv;
    const int64_t ow = g->s.ow;
    for (int64_t row = o->first; row < o->last; row += g->tile_rows)
        for (int64_t col = 0; col < ow; col += TILE_COLUMNS) {
            const int64_t rows = smaller(o->last - row, g->tile_rows), cols = smaller(ow - col, TILE_COLUMNS);
            s->padded_row = row * g->s.stride_h;
            s->row = s->padded_row - o->first * g->s.stride_h;
            s->column = col;
            SUMS[s->weights->form](s, cols, rows, tile);
            const int32_t error = deliver(g, o, row * ow + col, rows * cols, tile);
            if (error)
                return error;
        }
    return 0;
}

/* The block of a unit: output rows of a channel, and the input rows that they read. */
static struct block block_of(const struct conv *g, int64_t unit) {
    const struct byte_depthwise_args *s = &g->s;
    const int64_t plane = quotient(unit, g->blocks), image = quotient(plane, s->groups * s->cout);
    const int64_t first = (unit - plane * g->blocks) * g->rows, last = smaller(s->oh, first + g->rows);
    const int64_t begin = first * s->stride_h - s->pad_top;
    const int64_t count = (last - 1 - first) * s->stride_h + (s->kh - 1) * s->dilation_h + 1;
    return (struct block){image, plane - image * s->groups * s->cout, first, last, begin, begin + count};
}

static int32_t run_units(const struct conv *g, int64_t begin, int64_t end, uint8_t *scratch) {
    const struct byte_depthwise_args *s = &g->s;
    struct weights w = {.room = (uint32_t *)(void *)scratch};
    uint8_t *rest = scratch + ceildiv(s->kh * ceildiv(s->kw, 2), 2) * 8;
    struct permutation p = {.rest = rest};
    if (g->form >= PERMUTED_ROW)
        p = permutation_at(g, ceildiv(s->kw, 4), rest);
    uint32_t *expanded = (uint32_t *)(void *)p.rest;
    struct source source = {.conv = g, .weights = &w, .expanded = expanded, .permutation = &p};
    for (int64_t unit = begin; unit < end; unit++) {
        const struct block o = block_of(g, unit);
        if (unit == begin || o.first == 0)
            read_weights(g, o.channel, &w);
        if (w.form >= PERMUTED_ROW)
            source.plane = padded_plane(g, &o, &p);
        else
            expand(g, &o, &w, expanded);
        const int32_t error = run_block(&o, &source);
        if (error)
            return error;
    }
    return 0;
}

static int32_t run(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch,
                   enum form form) {
    struct conv g = {
        .x = buf[BYTE_DEPTHWISE_X],
        .w = buf[BYTE_DEPTHWISE_W],
        .w_zero = buf[BYTE_DEPTHWISE_W_ZERO],
        .y = buf[BYTE_DEPTHWISE_Y],
        .hook = hook_after(buf, BYTE_DEPTHWISE_OPERANDS, arg, BYTE_DEPTHWISE_ARGS),
    };
    memcpy(&g.s, arg, sizeof g.s);
    if (begin >= end || g.s.ow == 0)
        return 0;
    g.vector = vector_shape(&g.s);
    if (form >= PERMUTED_ROW)
        form = !can_permute(&g.s, g.vector) ? QUADS : g.vector.rows == 1 ? PERMUTED_ROW : PERMUTED_ROWS;
    g.form = form;
    g.columns = ceildiv(g.s.ow, VL) * VL;
    g.rows = smaller(g.s.oh, g.s.ow < UNIT_PIXELS ? UNIT_PIXELS / g.s.ow : 1);
    g.blocks = ceildiv(g.s.oh, g.rows);
    g.tile_rows = g.s.ow < TILE_COLUMNS ? TILE_COLUMNS / g.s.ow : 1;
    const int64_t together = ROWS * g.vector.rows;
    g.tile_rows -= g.tile_rows % (g.tile_rows < together ? 1 : together);
    g.flip = g.s.x_signed ? 128 : 0;
    g.zero = zero_at(buf[BYTE_DEPTHWISE_X_ZERO], 0, g.s.x_signed, g.flip);
    return run_units(&g, begin, end, scratch);
}

GW_KERNEL(gw_depthwise_bytes) {
    const enum form form = !has_vnni() ? PAIRS : has_vbmi() ? PERMUTED_ROWS : QUADS;
    return run(buf, arg, begin, end, scratch, form);
}

GW_KERNEL(gw_depthwise_bytes_expanded) {
    return run(buf, arg, begin, end, scratch, has_vnni() ? QUADS : PAIRS);
}

GW_KERNEL(gw_depthwise_bytes_wide) { return run(buf, arg, begin, end, scratch, PAIRS); }

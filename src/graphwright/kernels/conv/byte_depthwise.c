/* Depthwise convolution of bytes: see byte_depthwise.py. */

#include "library/hook.h"
#include "library/sizes.h"

#include "conv/byte_depthwise.gen.h"

#include "library/byte_dots.h"
#include "library/features.h"

enum { TILE_COLUMNS = 1024 }; /* pixels of a tile */
enum { ROWS = 4 };            /* output rows that are summed together */

struct conv {
    struct byte_depthwise_args s;
    const uint8_t *x, *w, *w_zero;
    int32_t *y;
    struct hook hook;
    int64_t columns; /* of an expanded row: whole vectors */
    int32_t zero;    /* the zero point of x as u8 */
    int vnni;
};

/* The weights of a channel, in words of neighboring taps: four s8 (quads), or two s16 (pairs). */
struct weights {
    const uint32_t *words;
    uint32_t *room; /* for pairs */
    int64_t count;  /* words of a row */
    int32_t start;  /* minus the zero point of x times the sum of the weights */
    int are_quads;
};

/* Output rows [first, last) of a channel, and the input rows [begin, end) that they read. */
struct block {
    int64_t image, channel, first, last, begin, end;
};

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
    to->are_quads = g->vnni && g->s.w_signed && zero == 0;
    to->words = to->are_quads ? packed + 1 : to->room;
    to->count = to->are_quads ? quads : ceildiv(kw, 2);
    for (int64_t i = 0; !to->are_quads && i < kh * to->count; i++) {
        const int64_t row = i / to->count, column = i % to->count * 2;
        to->room[i] = ((uint32_t)weight_at(g, packed + 1, row, column, zero) & 0xffff) |
                      (uint32_t)weight_at(g, packed + 1, row, column + 1, zero) << 16;
    }
}

/* In each 128 bits, the bytes of four words of neighboring pixels; Z is a zero. */
#define Z 0x80
#define WORDS(...) {__VA_ARGS__, __VA_ARGS__, __VA_ARGS__, __VA_ARGS__}
static const uint8_t QUADS_1[64] = WORDS(0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6);
static const uint8_t QUADS_2[64] = WORDS(0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7, 8, 9);
static const uint8_t PAIRS_1[64] = WORDS(0, Z, 1, Z, 1, Z, 2, Z, 2, Z, 3, Z, 3, Z, 4, Z);
static const uint8_t PAIRS_2[64] = WORDS(0, Z, 1, Z, 2, Z, 3, Z, 4, Z, 5, Z, 6, Z, 7, Z);
#undef WORDS
#undef Z

/* The words of VL columns, whose pixels begin at p and are `stride` apart: 1 or 2. */
GW_INLINE vi dense_words_of(const uint8_t *p, const int64_t stride, const int bits) {
    const uint8_t *order = bits == 8 ? (stride == 1 ? QUADS_1 : QUADS_2) : (stride == 1 ? PAIRS_1 : PAIRS_2);
    const vi x = quads_at(p);
#if VL == 16
    const vi near = __builtin_shufflevector(x, x, 0, 1, 2, 2, 1, 2, 3, 3, 2, 3, 4, 4, 3, 4, 5, 5);
    const vi far = __builtin_shufflevector(x, x, 0, 1, 2, 2, 2, 3, 4, 4, 4, 5, 6, 6, 6, 7, 8, 8);
#else
    const vi near = __builtin_shufflevector(x, x, 0, 1, 2, 2, 1, 2, 3, 3);
    const vi far = __builtin_shufflevector(x, x, 0, 1, 2, 2, 2, 3, 4, 4);
#endif
    return bytes_in_order(stride == 1 ? near : far, quads_at(order));
}

/* The words of VL columns whose first pixels are at p: of each, `taps` bytes, `dilation` pixels apart. */
GW_INLINE vi words_of(const uint8_t *p, int64_t taps, int64_t stride, int64_t dilation, const int bits) {
    vq x = {0};
    for (int64_t r = 0; stride == 1 && r < taps; r++)
        x |= spread(p + r * dilation) << (int32_t)(bits * r);
    for (int64_t i = 0; stride != 1 && i < VL; i++)
        for (int64_t r = 0; r < taps; r++)
            x[i] |= (uint32_t)p[i * stride + r * dilation] << bits * r;
    return (vi)x;
}

/* Lines of input rows with their pads, and the words to which they are expanded, `count` per column. */
struct lines {
    const uint8_t *from;
    int64_t pitch, rows, count;
    uint32_t *to;
};

/* Expands one word of each column; dense: windows are dense, and `stride` is 1 or 2. */
GW_INLINE void expand_word(const struct conv *g, const struct lines *l, int64_t word, const int dense,
                           int64_t stride, const int bits) {
    const int64_t dilation = g->s.dilation_w, most = 32 / bits;
    const int64_t taps = smaller(g->s.kw - most * word, most);
    const uint8_t *from = l->from + word * most * dilation;
    uint32_t *to = l->to + word * g->columns;
    for (int64_t row = 0; row < l->rows; row++, from += l->pitch, to += l->count * g->columns)
        for (int64_t i = 0; i < g->columns; i += VL) {
            const uint8_t *p = from + i * stride;
            const vi x = dense ? dense_words_of(p, stride, bits) : words_of(p, taps, stride, dilation, bits);
            vi_store((int32_t *)(void *)(to + i), x);
        }
}

GW_INLINE void expand_in(const struct conv *g, const struct lines *l, const int bits) {
    const int64_t stride = g->s.stride_w, is_dense = g->s.dilation_w == 1;
    for (int64_t word = 0; word < l->count; word++)
        if (is_dense && stride == 1)
            expand_word(g, l, word, 1, 1, bits);
        else if (is_dense && stride == 2)
            expand_word(g, l, word, 1, 2, bits);
        else
            expand_word(g, l, word, 0, stride, bits);
}

/* Expands lines to the words of each column. */
static void expand(const struct conv *g, const struct lines *l, const struct weights *w) {
    if (w->are_quads)
        expand_in(g, l, 8);
    else
        expand_in(g, l, 16);
}

GW_INLINE void flip_word(uint8_t *to, const uint8_t *from, uint64_t flip) {
    uint64_t x;
    memcpy(&x, from, sizeof x);
    x ^= flip;
    memcpy(to, &x, sizeof x);
}

/* to[i] = from[i] ^ the bytes of flip; rows are too short for calls of memcpy. */
GW_INLINE void flip_row(uint8_t *to, const uint8_t *from, int64_t n, uint64_t flip) {
    for (int64_t i = 0; i + 8 < n; i += 8)
        flip_word(to + i, from + i, flip);
    if (n >= 8)
        flip_word(to + n - 8, from + n - 8, flip);
    for (int64_t i = 0; n < 8 && i < n; i++)
        to[i] = from[i] ^ (uint8_t)flip;
}

/* Copies the input rows that a block reads, with their pads, to lines of `pitch` bytes. */
static void copy_lines(const struct conv *g, const struct block *o, int64_t pitch, uint8_t *line) {
    const struct byte_depthwise_args *s = &g->s;
    const uint8_t *plane = g->x + (o->image * s->groups + o->channel / s->cout) * s->h * s->w;
    const int64_t left = s->pad_left > 0 ? s->pad_left : 0, skipped = left - s->pad_left;
    const int64_t copied = smaller(s->w - skipped, pitch - left);
    memset(line, g->zero, (size_t)((o->end - o->begin) * pitch));
    for (int64_t row = o->begin; row < o->end; row++, line += pitch) {
        const uint8_t *from = plane + row * s->w + skipped;
        if (row >= 0 && row < s->h)
            flip_row(line + left, from, copied, s->x_signed ? 0x8080808080808080 : 0);
    }
}

GW_INLINE vi dot(vi sums, vi x, uint32_t word, const int are_quads) {
    const vi w = vi_set1((int32_t)word);
    if (!are_quads)
        return wrapping_sum(sums, pairs_dot((vs)x, (vs)w));
    DOT(sums, x, w);
    return sums;
}

/* Sums columns of `rows` output rows, whose windows begin at `from`: each expanded row is loaded once. The
 * last vector of a row is stored first, since it can reach into the next row. */
GW_INLINE void sum_rows(const struct conv *g, const uint32_t *from, const struct weights *w, int64_t cols,
                        const int64_t rows, const int64_t kh, const int64_t count, const int64_t stride,
                        const int64_t dilation, const int are_quads, int32_t *to) {
    const int64_t reach = (rows - 1) * stride + (kh - 1) * dilation + 1, ow = g->s.ow, columns = g->columns;
    for (int64_t c = (cols - 1) / VL * VL; c >= 0; c -= VL) {
        const uint32_t *x = from + c;
        vi sums[ROWS];
        for (int64_t r = 0; r < ROWS; r++)
            sums[r] = vi_set1(w->start);
#pragma GCC unroll 11
        for (int64_t j = 0; j < reach; j++, x += count * columns)
#pragma GCC unroll 3
            for (int64_t q = 0; q < count; q++) {
                const vi v = vi_load((const int32_t *)(const void *)(x + q * columns));
#pragma GCC unroll 4
                for (int64_t r = 0; r < rows; r++) {
                    const int64_t i = j - r * stride;
                    if (i >= 0 && i % dilation == 0 && i / dilation < kh)
                        sums[r] = dot(sums[r], v, w->words[i / dilation * count + q], are_quads);
                }
            }
#pragma GCC unroll 4
        for (int64_t r = 0; r < rows; r++)
            vi_store(to + r * ow + c, sums[r]);
    }
}

/* Sums all rows of a tile, ROWS at a time, which it has at least; the last ones may be summed twice. */
GW_INLINE void sum_blocks(const struct conv *g, const uint32_t *from, const struct weights *w, int64_t cols,
                          int64_t rows, const int64_t kh, const int64_t count, const int64_t stride,
                          const int are_quads, int32_t *to) {
    for (int64_t r = 0; r < rows; r += ROWS) {
        const int64_t first = smaller(r, rows - ROWS);
        sum_rows(g, from + first * stride * count * g->columns, w, cols, ROWS, kh, count, stride, 1,
                 are_quads, to + first * g->s.ow);
    }
}

/* Sums all rows of a tile; the usual windows have loops of their own. */
GW_INLINE void sum_tile(const struct conv *g, const uint32_t *from, const struct weights *w, int64_t cols,
                        int64_t rows, const int are_quads, int32_t *to) {
    const int64_t kh = g->s.kh, stride = g->s.stride_h, dilation = g->s.dilation_h, count = w->count;
    const int64_t of_3 = are_quads ? 1 : 2, of_5 = are_quads ? 2 : 3; /* words of 3 and 5 taps */
    const int is_dense = rows >= ROWS && dilation == 1;
    if (is_dense && kh == 3 && count == of_3 && stride == 1)
        sum_blocks(g, from, w, cols, rows, 3, of_3, 1, are_quads, to);
    else if (is_dense && kh == 3 && count == of_3 && stride == 2)
        sum_blocks(g, from, w, cols, rows, 3, of_3, 2, are_quads, to);
    else if (is_dense && kh == 5 && count == of_5 && stride == 1)
        sum_blocks(g, from, w, cols, rows, 5, of_5, 1, are_quads, to);
    else if (is_dense && kh == 5 && count == of_5 && stride == 2)
        sum_blocks(g, from, w, cols, rows, 5, of_5, 2, are_quads, to);
    else
        for (int64_t r = 0; r < rows; r++)
            sum_rows(g, from + r * stride * count * g->columns, w, cols, 1, kh, count, stride, dilation,
                     are_quads, to + r * g->s.ow);
}

VNNI_TARGET static void sum_quads(const struct conv *g, const uint32_t *from, const struct weights *w,
                                  int64_t cols, int64_t rows, int32_t *to) {
    sum_tile(g, from, w, cols, rows, 1, to);
}

static void sum_pairs(const struct conv *g, const uint32_t *from, const struct weights *w, int64_t cols,
                      int64_t rows, int32_t *to) {
    sum_tile(g, from, w, cols, rows, 0, to);
}

/* Passes a tile of pixels to the hook, or stores it. */
static int32_t deliver(const struct conv *g, const struct block *o, int64_t at, int64_t cols, int32_t *tile) {
    if (g->hook.call)
        return call_hook(&g->hook, tile, TILE_COLUMNS, o->image, o->channel, 1, at, cols);
    memcpy(g->y + o->image * g->s.y_n + o->channel * g->s.y_c + at, tile, (size_t)cols * sizeof *tile);
    return 0;
}

static int32_t run_block(const struct conv *g, const struct block *o, const uint32_t *expanded,
                         const struct weights *w) {
    int32_t tile[TILE_COLUMNS + VL] __attribute__((aligned(64)));
    const int64_t ow = g->s.ow, step = g->s.stride_h * w->count * g->columns;
    const int64_t most_cols = smaller(ow, TILE_COLUMNS), most_rows = TILE_COLUMNS / most_cols;
    for (int64_t row = o->first; row < o->last; row += most_rows)
        for (int64_t col = 0; col < ow; col += most_cols) {
            const int64_t rows = smaller(o->last - row, most_rows), cols = smaller(ow - col, most_cols);
            const uint32_t *from = expanded + (row - o->first) * step + col;
            (w->are_quads ? sum_quads : sum_pairs)(g, from, w, cols, rows, tile);
            const int32_t error = deliver(g, o, row * ow + col, rows * cols, tile);
            if (error)
                return error;
        }
    return 0;
}

static int32_t run_units(const struct conv *g, int64_t begin, int64_t end, uint8_t *scratch) {
    const struct byte_depthwise_args *s = &g->s;
    const int64_t pitch = ceildiv(g->columns * s->stride_w + (s->kw + 3) * s->dilation_w + 4 * VL, 4) * 4;
    const int64_t rows = smaller(s->oh, s->ow < UNIT_PIXELS ? UNIT_PIXELS / s->ow : 1);
    const int64_t blocks = ceildiv(s->oh, rows), features = s->groups * s->cout;
    struct weights w = {.room = (uint32_t *)(void *)scratch};
    uint32_t *expanded = w.room + s->kh * ceildiv(s->kw, 2);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t plane = unit / blocks, first = unit % blocks * rows;
        const int64_t last = smaller(s->oh, first + rows), top = first * s->stride_h - s->pad_top;
        const int64_t count = (last - 1 - first) * s->stride_h + (s->kh - 1) * s->dilation_h + 1;
        const struct block o = {plane / features, plane % features, first, last, top, top + count};
        if (unit == begin || first == 0)
            read_weights(g, o.channel, &w);
        uint8_t *lines = (uint8_t *)(expanded + count * w.count * g->columns);
        copy_lines(g, &o, pitch, lines);
        expand(g, &(struct lines){lines, pitch, count, w.count, expanded}, &w);
        const int32_t error = run_block(g, &o, expanded, &w);
        if (error)
            return error;
    }
    return 0;
}

static int32_t run(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch,
                   int vnni) {
    struct conv g = {
        .x = buf[BYTE_DEPTHWISE_X],
        .w = buf[BYTE_DEPTHWISE_W],
        .w_zero = buf[BYTE_DEPTHWISE_W_ZERO],
        .y = buf[BYTE_DEPTHWISE_Y],
        .hook = hook_after(buf, BYTE_DEPTHWISE_OPERANDS, arg, BYTE_DEPTHWISE_ARGS),
        .vnni = vnni,
    };
    memcpy(&g.s, arg, sizeof g.s);
    g.columns = ceildiv(g.s.ow, VL) * VL;
    g.zero = zero_at(buf[BYTE_DEPTHWISE_X_ZERO], 0, g.s.x_signed, g.s.x_signed ? 128 : 0);
    return begin < end ? run_units(&g, begin, end, scratch) : 0;
}

GW_KERNEL(gw_depthwise_bytes) { return run(buf, arg, begin, end, scratch, has_vnni()); }

GW_KERNEL(gw_depthwise_bytes_wide) { return run(buf, arg, begin, end, scratch, 0); }

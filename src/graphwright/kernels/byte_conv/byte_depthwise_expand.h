/* Input rows in memory, expanded to the words that each output column multiplies. */

#ifndef GW_BYTE_DEPTHWISE_EXPAND_H
#define GW_BYTE_DEPTHWISE_EXPAND_H

#include "byte_conv/byte_depthwise.h"

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
            flip_row(line + left, from, copied, g->flip * 0x0101010101010101u);
    }
}

/* Expands the input rows of a block to the words of each output column, at `to`. */
static void expand(const struct conv *g, const struct block *o, const struct weights *w, uint32_t *to) {
    const int64_t taps = g->s.kw + 3, count = o->end - o->begin;
    const int64_t pitch = ceildiv(g->columns * g->s.stride_w + taps * g->s.dilation_w + 4 * VL, 4) * 4;
    uint8_t *lines = (uint8_t *)(to + count * w->count * g->columns);
    copy_lines(g, o, pitch, lines);
    const struct lines l = {lines, pitch, count, w->count, to};
    if (w->form == QUADS)
        expand_in(g, &l, 8);
    else
        expand_in(g, &l, 16);
}

#endif

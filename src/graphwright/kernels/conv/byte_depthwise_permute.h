/* Words of windows that are permuted from the image: with AVX512-VBMI, one vpermb takes the words of a vector
 * of outputs from 64 neighboring pixels. A vector has VL columns of an output row, or, if rows have fewer, as
 * many whole rows as fit. */

#ifndef GW_BYTE_DEPTHWISE_PERMUTE_H
#define GW_BYTE_DEPTHWISE_PERMUTE_H

#include "conv/byte_depthwise.h"

enum { SPAN = 64 }; /* pixels of a load */

/* Where vectors of outputs begin to read an input row. */
struct row {
    int64_t at;      /* the first pixel, counted from the plane's first one */
    uint64_t inside; /* the bytes of the words whose rows are in the image */
};

/* How planes of an image are read. */
struct permutation {
    uint8_t order[SPAN]; /* the pixel of each byte of the words, from the first pixel of a vector */
    uint64_t *inside;    /* for each vector and word of a row, the bytes whose columns are in the image */
    struct row *rows;    /* for each row of the padded plane */
    uint8_t *rest;       /* scratch memory after the tables */
    int64_t slack;       /* bytes before and after the rows of a block that loads can reach */
    int64_t height;      /* output rows of a vector */
};

/* The columns, and the rows, of a vector of outputs. */
GW_INLINE int64_t vector_columns(const struct byte_depthwise_args *s) { return smaller(s->ow, VL); }
GW_INLINE int64_t vector_rows(const struct byte_depthwise_args *s) {
    return s->ow ? VL / vector_columns(s) : 1;
}

/* Whether a load has all pixels of a vector. */
static int can_permute(const struct byte_depthwise_args *s) {
    const int64_t rows = (vector_rows(s) - 1) * s->stride_h, columns = (vector_columns(s) - 1) * s->stride_w;
    return rows * s->w + columns + 3 * s->dilation_w < SPAN && s->pad_left >= 0 && s->pad_left <= VL;
}

/* `bytes` of the words of one output row, for each output row of a vector. */
static uint64_t in_each_row(const struct byte_depthwise_args *s, uint64_t bytes) {
    uint64_t all = 0;
    for (int64_t row = 0; row < vector_rows(s); row++)
        all |= bytes << 4 * vector_columns(s) * row;
    return all;
}

static void order_pixels(const struct byte_depthwise_args *s, uint8_t *order) {
    memset(order, 0, SPAN);
    for (int64_t row = 0; row < vector_rows(s); row++)
        for (int64_t column = 0; column < vector_columns(s); column++)
            for (int64_t tap = 0; tap < 4; tap++, order++)
                *order = (uint8_t)(row * s->stride_h * s->w + column * s->stride_w + tap * s->dilation_w);
}

/* The bytes of word `word` of the vector at column c that are in the image. */
static uint64_t columns_inside(const struct byte_depthwise_args *s, int64_t c, int64_t word) {
    uint64_t inside = 0;
    for (int64_t i = 0; i < 4 * vector_columns(s); i++) {
        const int64_t x = (c + i / 4) * s->stride_w + (4 * word + i % 4) * s->dilation_w - s->pad_left;
        inside |= (uint64_t)(x >= 0 && x < s->w) << i;
    }
    return in_each_row(s, inside);
}

/* A row of the image: y, or the nearest one. */
GW_INLINE int64_t nearest_row(const struct byte_depthwise_args *s, int64_t y) {
    return y < 0 ? 0 : smaller(y, s->h > 0 ? s->h - 1 : 0);
}

/* Row y as the first row that a vector reads. */
static struct row row_at(const struct byte_depthwise_args *s, int64_t y) {
    struct row row = {y * s->w - s->pad_left, ~0ull};
    if (y >= 0 && y + (vector_rows(s) - 1) * s->stride_h < s->h)
        return row;
    row.inside = 0;
    for (int64_t r = 0; r < vector_rows(s); r++)
        if (y + r * s->stride_h >= 0 && y + r * s->stride_h < s->h)
            row.inside |= ~0ull >> (64 - 4 * vector_columns(s)) << 4 * vector_columns(s) * r;
    if (!row.inside)
        row.at = nearest_row(s, y) * s->w;
    return row;
}

/* A permutation with tables in scratch memory; words: of a row of taps. */
static struct permutation permutation_at(const struct conv *g, int64_t words, uint8_t *scratch) {
    const struct byte_depthwise_args *s = &g->s;
    const int64_t vectors = g->columns / VL;
    const int64_t rows = (s->oh - 1) * s->stride_h + (s->kh - 1) * s->dilation_h + 1;
    struct permutation p = {.inside = (uint64_t *)(void *)scratch, .height = vector_rows(s)};
    p.rows = (struct row *)(void *)(p.inside + vectors * words);
    p.rest = (uint8_t *)(p.rows + rows);
    p.slack = g->columns * s->stride_w + (s->kw + 3) * s->dilation_w + 2 * SPAN;
    order_pixels(s, p.order);
    for (int64_t i = 0; i < vectors * words; i++)
        p.inside[i] = columns_inside(s, i / words * VL, i % words);
    for (int64_t i = 0; i < rows; i++)
        p.rows[i] = row_at(s, i - s->pad_top);
    return p;
}

/* The plane of a block. Loads can reach beyond the rows of the block: near the ends of the tensor, these rows
 * are copied. */
static const uint8_t *plane_of(const struct conv *g, const struct block *o, const struct permutation *p) {
    const struct byte_depthwise_args *s = &g->s;
    const int64_t size = s->h * s->w, plane = (o->image * s->groups + quotient(o->channel, s->cout)) * size;
    const int64_t begin = nearest_row(s, o->begin) * s->w, end = smaller(o->end, s->h) * s->w;
    if (plane + begin >= p->slack && plane + end + p->slack <= s->images * s->groups * size)
        return g->x + plane;
    if (begin < end)
        memcpy(p->rest + p->slack, g->x + plane + begin, (size_t)(end - begin));
    return p->rest + p->slack - begin;
}

#if VL == 16
#define PERMUTE_TARGET __attribute__((target("avx512vnni,avx512vbmi")))
typedef uint8_t v64 __attribute__((vector_size(64), aligned(1), may_alias));

/* The words of VL outputs whose windows begin at `first`. */
GW_INLINE vi permuted(const struct conv *g, const struct permutation *p, const uint8_t *first,
                      uint64_t inside) {
    const v64 x = *(const v64 *)first ^ (uint8_t)g->flip, order = *(const v64 *)p->order;
    v64 words = (v64){0} + (uint8_t)g->zero;
    __asm__("vpermb %2, %1, %0%{%3%}" : "+v"(words) : "v"(order), "v"(x), "Yk"(inside));
    return (vi)words;
}
#else
#define PERMUTE_TARGET
GW_INLINE vi permuted(const struct conv *g, const struct permutation *p, const uint8_t *first,
                      uint64_t inside) {
    (void)g, (void)p, (void)first, (void)inside;
    return vi_set1(0);
}
#endif

#endif

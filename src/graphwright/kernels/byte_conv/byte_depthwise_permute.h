/* Words of windows that are permuted from the image: with AVX512-VBMI, one vpermb takes the words of a vector
 * of outputs from 64 neighboring pixels. */

#ifndef GW_BYTE_DEPTHWISE_PERMUTE_H
#define GW_BYTE_DEPTHWISE_PERMUTE_H

#include "byte_conv/byte_depthwise.h"

enum { SPAN = 64 }; /* pixels of a load */

/* A row of the padded plane, as the first one that a vector of outputs reads. */
struct row {
    int64_t at;      /* where vectors of column 0 begin to read, counted from the plane's first pixel */
    uint64_t inside; /* the bytes of the words whose rows are in the image */
};

/* How planes of an image are read. */
struct permutation {
    uint8_t order[SPAN]; /* the pixel of each byte of the words, from the first pixel of a vector */
    uint64_t *inside;    /* for each vector and word of a row, the bytes whose columns are in the image */
    struct row *rows;    /* of the padded plane */
    uint8_t *outside;    /* `slack` zero points, which are read for rows outside the image */
    uint8_t *rest;       /* scratch memory after the tables */
    int64_t slack;       /* bytes before and after the rows of a block that loads can reach */
};

static struct shape vector_shape(const struct byte_depthwise_args *s) {
    const int64_t columns = smaller(s->ow, VL);
    return (struct shape){VL / columns, columns};
}

/* Whether a load has all pixels of a vector. */
static int can_permute(const struct byte_depthwise_args *s, struct shape v) {
    const int64_t last =
        (v.rows - 1) * s->stride_h * s->w + (v.columns - 1) * s->stride_w + 3 * s->dilation_w;
    return last < SPAN && s->pad_left >= 0 && s->pad_left <= VL;
}

/* `bytes` of the words of one output row, for each output row of a vector. */
static uint64_t in_each_row(struct shape v, uint64_t bytes) {
    uint64_t all = 0;
    for (int64_t row = 0; row < v.rows; row++)
        all |= bytes << 4 * v.columns * row;
    return all;
}

static void order_pixels(const struct byte_depthwise_args *s, struct shape v, uint8_t *order) {
    memset(order, 0, SPAN);
    for (int64_t row = 0; row < v.rows; row++)
        for (int64_t column = 0; column < v.columns; column++)
            for (int64_t tap = 0; tap < 4; tap++, order++)
                *order = (uint8_t)(row * s->stride_h * s->w + column * s->stride_w + tap * s->dilation_w);
}

/* The bytes of word `word` of the vector at column c that are in the image. */
static uint64_t columns_inside(const struct byte_depthwise_args *s, struct shape v, int64_t c, int64_t word) {
    const int64_t first = c * s->stride_w + 4 * word * s->dilation_w - s->pad_left;
    if (first >= 0 && first + (v.columns - 1) * s->stride_w + 3 * s->dilation_w < s->w)
        return ~0ull;
    uint64_t inside = 0;
    for (int64_t i = 0; i < 4 * v.columns; i++) {
        const int64_t x = first + i / 4 * s->stride_w + i % 4 * s->dilation_w;
        inside |= (uint64_t)(x >= 0 && x < s->w) << i;
    }
    return in_each_row(v, inside);
}

/* A mask of the bytes of a vector whose rows are in the image, if the vector reads rows from y on. */
static uint64_t rows_inside(const struct byte_depthwise_args *s, struct shape v, int64_t y) {
    if (y >= 0 && y + (v.rows - 1) * s->stride_h < s->h)
        return ~0ull;
    uint64_t inside = 0;
    for (int64_t r = 0; r < v.rows; r++)
        if (y + r * s->stride_h >= 0 && y + r * s->stride_h < s->h)
            inside |= ~0ull >> (64 - 4 * v.columns) << 4 * v.columns * r;
    return inside;
}

/* A permutation with tables in scratch memory; words: of a row of taps. */
static struct permutation permutation_at(const struct conv *g, int64_t words, uint8_t *scratch) {
    const struct byte_depthwise_args *s = &g->s;
    const int64_t vectors = g->columns / VL;
    const int64_t rows = (s->oh - 1) * s->stride_h + (s->kh - 1) * s->dilation_h + 1;
    const struct shape v = g->vector;
    struct permutation p = {.inside = (uint64_t *)(void *)scratch};
    p.rows = (struct row *)(void *)(p.inside + vectors * words);
    p.outside = (uint8_t *)(p.rows + rows);
    p.slack = ceildiv(g->columns * s->stride_w + (s->kw + 3) * s->dilation_w + 2 * SPAN, 8) * 8;
    p.rest = p.outside + p.slack;
    order_pixels(s, v, p.order);
    memset(p.outside, g->zero ^ g->flip, (size_t)p.slack);
    for (int64_t i = 0; i < vectors * words; i++)
        p.inside[i] = columns_inside(s, v, i / words * VL, i % words);
    for (int64_t i = 0; i < rows; i++)
        p.rows[i] = (struct row){(i - s->pad_top) * s->w - s->pad_left, rows_inside(s, v, i - s->pad_top)};
    return p;
}

/* The plane of a block. Loads can reach beyond its rows: near the ends of the tensor, the rows are copied. */
static const uint8_t *plane_of(const struct conv *g, const struct block *o, const struct permutation *p) {
    const struct byte_depthwise_args *s = &g->s;
    const int64_t size = s->h * s->w, plane = (o->image * s->groups + quotient(o->channel, s->cout)) * size;
    const int64_t first = o->begin > 0 ? o->begin : 0, count = smaller(o->end, s->h) - first;
    const int64_t begin = plane + first * s->w;
    if (count <= 0 || (begin >= p->slack && begin + count * s->w + p->slack <= s->images * s->groups * size))
        return g->x + plane;
    memcpy(p->rest + p->slack, g->x + begin, (size_t)(count * s->w));
    return p->rest + p->slack - first * s->w;
}

/* The plane of a block; rows outside the image read zero points. */
static const uint8_t *padded_plane(const struct conv *g, const struct block *o, const struct permutation *p) {
    const uint8_t *plane = plane_of(g, o, p);
    const int64_t outside = (int64_t)((uintptr_t)p->outside - (uintptr_t)plane);
    struct row *rows = p->rows + g->s.pad_top;
    for (int64_t y = o->begin; y < o->end && !rows[y].inside; y++)
        rows[y].at = outside;
    for (int64_t y = o->end - 1; y >= o->begin && !rows[y].inside; y--)
        rows[y].at = outside;
    return plane;
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

/* Packs keys, values and scaled queries into panels. */

#ifndef GW_ATTENTION_PACK_H
#define GW_ATTENTION_PACK_H

#include "library/sizes.h"
#include "library/templates.h"

#include "attention/head.h"

/* Loads the first n elements, at most one vector of them. */
GW_INLINE vf load_upto(const float *p, int64_t n) { return n == VL ? vf_load(p) : vf_load_n(p, n); }

/* Prefetches rows that are read or written soon, n elements of each. */
GW_INLINE void fetch_rows(const float *x, int64_t x_row, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < n; j += 16)
            __builtin_prefetch(x + r * x_row + j, 0, 2);
}

/* Packs x[rows][cols], whose rows are dense, into panels to[col / NR][rows][NR]; the last panel is padded
 * with zeros. */
static void copy_panels(const float *x, int64_t x_row, int64_t rows, int64_t cols, float *to, int64_t apart) {
    for (int64_t r = 0; r < rows; r++, x += x_row, to += NR) {
        fetch_rows(x + ROWS_AHEAD * x_row, 0, 1, cols);
        float *panel = to;
        for (int64_t col = 0; col < cols; col += NR, panel += apart)
            for (int64_t c = 0; c < NR; c += VL) {
                const int64_t n = smaller(VL, cols - col - c);
                vf_store(panel + c, n > 0 ? load_upto(x + col + c, n) : (vf){0});
            }
    }
}

/* Packs x[rows][cols] into panels to[col / NR][rows][NR] that are `apart` elements apart; the last panel is
 * padded with zeros. */
static void pack_panels(const float *x, int64_t x_row, int64_t x_col, int64_t rows, int64_t cols, float *to,
                        int64_t apart) {
    if (x_col == 1) {
        copy_panels(x, x_row, rows, cols, to, apart);
        return;
    }
    for (int64_t col = 0; col < cols; col += NR, to += apart) {
        for (int64_t c = 0; c < NR; c += VL) {
            const int64_t n = smaller(VL, cols - col - c);
            const float *from = x + (col + c) * x_col;
            float *panel = to + c;
            if (n <= 0) {
                for (int64_t r = 0; r < rows; r++)
                    vf_store(panel + r * NR, (vf){0});
            } else if (x_row == 1) {
                fetch_rows(from + VL * x_col, x_col, VL, rows);
                for (int64_t r = 0; r < rows; r += VL)
                    transpose(from + r, x_col, n, smaller(VL, rows - r), panel + r * NR, NR);
            } else {
                for (int64_t r = 0; r < rows; r++)
                    for (int64_t i = 0; i < VL; i++)
                        panel[r * NR + i] = i < n ? from[r * x_row + i * x_col] : 0;
            }
        }
    }
}

/* VL pairs of n <= 2 * VL numbers times factor, padded with zeros. */
GW_INLINE vf pairs_at(const struct numbers *x, int64_t offset, int64_t step, int64_t n, float factor) {
    uint16_t made[2 * VL] = {0};
    if (step != 1) {
        for (int64_t i = 0; i < n; i++)
            made[i] = number_at(x, offset + i * step, factor);
    } else if (!x->single && factor == 1) {
        memcpy(made, (const uint16_t *)x->at + offset, (size_t)n * sizeof *made);
    } else {
        for (int64_t i = 0; i < n; i += VL)
            *(vh_any *)(made + i) = rounded(vf_set1(factor) * numbers_at(x, offset + i, n - i), x->native);
    }
    return vf_load((const float *)(const void *)made);
}

/* Packs the keys of the block as panels [depth / 2][NR] of pairs, padded with zeros. */
static void pack_pairs_of_keys(const struct attention_args *t, const head *h, const block *b) {
    const int64_t deep = ceildiv(t->depth, 2);
    float rows[VL * VL] __attribute__((aligned(64)));
    for (int64_t c = 0; c < ceildiv(b->count, NR) * NR; c += VL) {
        const int64_t n = smaller(VL, b->count - c), from = (b->first + c) * t->k_row;
        float *to = h->keys + c / NR * deep * NR + c % NR;
        for (int64_t r = 0; r < deep; r += VL) {
            const int64_t count = smaller(VL, deep - r);
            for (int64_t i = 0; i < n; i++)
                vf_store(rows + i * VL, pairs_at(&h->k, from + i * t->k_row + 2 * r * t->k_col, t->k_col,
                                                 smaller(2 * VL, t->depth - 2 * r), 1));
            transpose(rows, VL, n > 0 ? n : 0, count, to + r * NR, NR);
        }
    }
}

/* n <= VL numbers in the lower halves of lanes, padded with zeros. */
GW_INLINE vw halves_at(const struct numbers *x, int64_t offset, int64_t step, int64_t n) {
    uint16_t made[VL] = {0};
    if (step == 1)
        return __builtin_convertvector(rounded(numbers_at(x, offset, n), x->native), vw);
    for (int64_t i = 0; i < n; i++)
        made[i] = number_at(x, offset + i * step, 1);
    return __builtin_convertvector(*(const vh_any *)made, vw);
}

/* Packs the values of the block as panels [length / 2][NR] of pairs, padded with zeros. */
static void pack_pairs_of_values(const struct attention_args *t, const head *h, const block *b,
                                 int64_t length) {
    for (int64_t r = 0; r < b->count; r += 2) {
        const int64_t from = (b->first + r) * t->v_row;
        for (int64_t c = 0; c < ceildiv(t->width, NR) * NR; c += VL) {
            const int64_t n = smaller(VL, t->width - c), offset = from + c * t->v_col;
            float *to = h->values + c / NR * NR * steps_of(h, length) + r / 2 * NR + c % NR;
            vw pair = {0};
            if (n > 0)
                pair = halves_at(&h->v, offset, t->v_col, n);
            if (n > 0 && r + 1 < b->count)
                pair |= halves_at(&h->v, offset + t->v_row, t->v_col, n) << 16;
            vf_store(to, (vf)pair);
        }
    }
}

static void pack_block(const struct attention_args *t, const head *h, const block *b, int64_t length) {
    if (h->pairs) {
        pack_pairs_of_keys(t, h, b);
        pack_pairs_of_values(t, h, b, length);
        return;
    }
    const float *k = h->k.at, *v = h->v.at;
    pack_panels(k + b->first * t->k_row, t->k_col, t->k_row, t->depth, b->count, h->keys, t->depth * NR);
    pack_panels(v + b->first * t->v_row, t->v_row, t->v_col, b->count, t->width, h->values, length * NR);
}

/* The factor of queries. Exponentials are powers of 2: a factor of log2(e) in the scores saves a
 * multiplication of each. Scores that are masked or capped are multiplied later, since a mask of -FLT_MAX
 * would become -inf. */
GW_INLINE float scale_of(const struct attention_args *t, const head *h) {
    return (float)(h->in_log2 ? t->scale * LOG2_E : t->scale);
}

/* Packs one row of queries, times the scale, in parts of KEY_BLOCK that are MR * PITCH elements apart. */
static void scale_query(const struct attention_args *t, float scale, const float *from, float *to) {
    for (int64_t d0 = 0; d0 < t->depth; d0 += KEY_BLOCK, to += MR * PITCH) {
        const int64_t n = smaller(KEY_BLOCK, t->depth - d0);
        const float *part = from + d0 * t->q_col;
        if (t->q_col != 1) {
            for (int64_t j = 0; j < n; j++)
                to[j] = part[j * t->q_col] * scale;
            continue;
        }
        int64_t j = 0;
        for (; j + VL <= n; j += VL)
            vf_store(to + j, vf_load(part + j) * scale);
        if (j < n)
            vf_store_n(to + j, vf_load_n(part + j, n - j) * scale, n - j);
    }
}

/* Packs one row of queries, times the scale, as pairs. */
static void scale_pairs(const struct attention_args *t, const float *from, int native, float *to) {
    const struct numbers q = {from, 1, native};
    for (int64_t d0 = 0; d0 < t->depth; d0 += 2 * KEY_BLOCK, to += MR * PITCH) {
        const int64_t n = smaller(2 * KEY_BLOCK, t->depth - d0);
        for (int64_t j = 0; j < n; j += 2 * VL)
            vf_store(to + j / 2,
                     pairs_at(&q, (d0 + j) * t->q_col, t->q_col, smaller(2 * VL, n - j), (float)t->scale));
    }
}

/* Converts the first n scores to pairs in place; an odd last one is paired with 0. */
static void narrow_scores(float *s, int native, int64_t n) {
    const struct numbers scores = {s, 1, native};
    for (int64_t j = 0; j < n; j += 2 * VL)
        vf_store(s + j / 2, pairs_at(&scores, j, 1, smaller(2 * VL, n - j), 1));
}

#endif

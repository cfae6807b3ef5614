/* Products, masks and exponentials of tiles of scores. */

#ifndef GW_ATTENTION_SCORES_H
#define GW_ATTENTION_SCORES_H

#include "attention/pack.h"

/* c[rows][vectors * VL] (+)= a @ b of bf16 pairs, for CPUs without an instruction for pairs. */
static void product_of_halves(int64_t rows, int64_t vectors, int64_t k, const float *a, const float *b,
                              float *c, int add) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t v = 0; v < vectors * VL; v += VL) {
            vf sum = add ? vf_load(c + r * PITCH + v) : (vf){0};
            for (int64_t j = 0; j < k; j++) {
                int32_t bits;
                memcpy(&bits, a + r * PITCH + j, sizeof bits);
                const vf pair = (vf)vi_set1(bits), x = vf_load(b + j * NR + v);
                sum = vf_fma(lower_half(pair), lower_half(x), sum);
                sum = vf_fma(upper_half(pair), upper_half(x), sum);
            }
            vf_store(c + r * PITCH + v, sum);
        }
}

/* c[rows][] (+)= a @ b, for one or two vectors of columns. */
GW_INLINE void multiply(const head *h, int64_t rows, int two, int64_t k, const float *a, const float *b,
                        float *c, int add) {
#if VL == 16
    if (h->pairs && h->k.native) {
        pair_product_of[rows - 1][two](k, a, b, c, add);
        return;
    }
#endif
    if (h->pairs)
        product_of_halves(rows, two + 1, k, a, b, c, add);
    else
        product_of[rows - 1][two](k, a, b, c, add);
}

/* The mask of n <= VL scores, from column j on. */
GW_INLINE vf mask_at(const struct attention_args *t, const float *row, int64_t j, int64_t n) {
    float lane[VL] = {0};
    if (t->mask_col == 0)
        return vf_set1(*row);
    if (t->mask_col == 1)
        return load_upto(row + j, n);
    for (int64_t i = 0; i < n; i++)
        lane[i] = row[(j + i) * t->mask_col];
    return vf_load(lane);
}

/* Applies a mask to scores x: adds it, or takes the mask where it is not 0. */
GW_INLINE vf masked(const struct attention_args *t, vf x, vf mask) {
    return t->fill ? vf_select(mask == (vf){0}, x, mask) : x + mask;
}

/* Applies softcap and mask to scores, pads them with -inf from column n to a whole vector, and returns the
 * maxima of the lanes. */
GW_INLINE vf finish_scores(const struct attention_args *t, const float *mask, int64_t n, float *s) {
    const vf below = vf_set1(-__builtin_inff());
    const vf cap = vf_set1((float)t->softcap), inverse = vf_set1(1.0f / (float)t->softcap);
    vf most = below;
    if (!mask && t->softcap == 0) {
        int64_t j = 0;
        for (; j + VL <= n; j += VL)
            most = vf_larger(vf_load(s + j), most);
        if (j < n) {
            const vf x = vf_select(vi_first(n - j), vf_load(s + j), below);
            vf_store(s + j, x);
            most = vf_larger(x, most);
        }
        return most;
    }
    for (int64_t j = 0; j < n; j += VL) {
        const int64_t m = smaller(VL, n - j);
        vf x = vf_load(s + j);
        if (t->softcap != 0)
            x = cap * VF_MATH(tanh)(x * inverse);
        if (mask)
            x = masked(t, x, mask_at(t, mask, j, m));
        if (m < VL)
            x = vf_select(vi_first(m), x, below);
        vf_store(s + j, x);
        most = vf_larger(x, most);
    }
    return most;
}

/* The exponent of 2 for the exponential of a difference of scores. */
GW_INLINE vf exponent(vf x, int in_log2) { return in_log2 ? x : x * (float)LOG2_E; }

/* Computes s = exp(s - largest) up to column n, pads with zeros up to column end, and returns the sums of the
 * lanes. */
GW_INLINE vf exponentials(float largest, int64_t n, int64_t end, float *s, int in_log2) {
    const vf shift = vf_set1(largest);
    vf total = {0};
    int64_t j = 0;
    for (; j + 3 * VL < n; j += 4 * VL) {
        vf e[4]; /* in registers, if both loops are unrolled */
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            e[i] = exponent(vf_load(s + j + i * VL) - shift, in_log2);
        vf_powers(e);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            vf_store(s + j + i * VL, e[i]);
        total += (e[0] + e[1]) + (e[2] + e[3]);
    }
    for (; j < n; j += VL) {
        const vf e = vf_power(exponent(vf_load(s + j) - shift, in_log2));
        total += e;
        vf_store(s + j, e);
    }
    for (; j < end; j += VL)
        vf_store(s + j, (vf){0});
    return total;
}

#endif

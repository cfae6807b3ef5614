/* A tile of bf16 pairs for CPUs without instructions for pairs: two FMAs per pair. */

#ifndef GW_HALVES_TILE_H
#define GW_HALVES_TILE_H

#include "conv/blocked_tile.h"
#include "library/pairs.h"

/* Pixel p of a tap; the first and the last pixel of a row may be in the padding. */
static const float *pixel_at(const struct tile *t, const float *x, const struct tap *tap, int64_t p,
                             int64_t pixels, int64_t step) {
    const int64_t outside = tap->outside & t->edges;
    if ((outside & 1 && p == 0) || (outside & 2 && p == pixels - 1))
        return t->zeros;
    return x + tap->at + p * step * VL;
}

/* sum plus what is added to its pixel. */
static vf add_addends(const struct tile *t, int64_t p, int64_t block, vf sum) {
    if (t->added)
        sum += vf_load(t->added + block * t->added_block + p * VL);
    return t->bias ? sum + vf_load(t->bias + block * VL) : sum;
}

static void tile_of_halves(const struct tile *t, int64_t pixels, int64_t blocks, int64_t step) {
    for (int64_t block = 0; block < blocks; block++)
        for (int64_t p = 0; p < pixels; p++) {
            vf sum = {0};
            const float *x = t->x, *w = t->w + block * t->w_out;
            for (int64_t left = t->channels; left > 0; left -= VL, x += t->x_block, w += t->w_skip)
                for (int64_t k = 0; k < t->tap_count; k++, w += VL * VL) {
                    const float *from = pixel_at(t, x, t->taps + k, p, pixels, step);
                    for (int64_t c = 0; c < smaller(left, VL); c++) {
                        int32_t bits;
                        memcpy(&bits, from + c, sizeof bits);
                        const vf pair = (vf)vi_set1(bits), weights = vf_load(w + c * VL);
                        sum = vf_fma(lower_half(pair), lower_half(weights), sum);
                        sum = vf_fma(upper_half(pair), upper_half(weights), sum);
                    }
                }
            sum = add_addends(t, p, block, sum);
            if (t->act)
                sum = vf_max(sum, vf_set1(t->lo));
            if (t->act > 1)
                sum = vf_min(sum, vf_set1(t->hi));
            vf_store(t->to + block * t->to_block + p * VL, sum);
        }
}

#endif

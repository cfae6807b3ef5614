/* Register tiles of pairs: tile.py writes those with instructions for them. */

#ifndef GW_PAIR_TILE_H
#define GW_PAIR_TILE_H

#include "library/pairs.h"
#include "library/tile.h"

/* c += both products of pairs. */
#define DOT_PAIRS(c, a, b) __asm__("vdpbf16ps %1, %2, %0" : "+v"(c) : "v"(a), "v"(b))

/* A tile without instructions for pairs: row r of A is at a + r * a_row, K_RUN pairs of it and the next so
   many run_step apart. */
static void tile_of_halves(int64_t rows, int64_t vectors, int64_t k, const float *a, int64_t a_row,
                           int64_t run_step, const float *b, int64_t ldb, const struct tile *t) {
    enum { SOME = 4 };
    for (int64_t r = 0; r < rows; r += SOME)
        for (int64_t v = 0; v < vectors; v++) {
            const float *row[SOME];
            vf sum[SOME];
            for (int i = 0; i < SOME; i++) { /* the last row again where there is none */
                const int64_t at = smaller(r + i, rows - 1);
                row[i] = a + at * a_row;
                sum[i] = t->from_kind == FROM_TILE   ? vf_load(t->from + at * t->from_ld + v * VL)
                         : t->from_kind == FROM_ROWS ? vf_set1(t->from[at * t->from_ld])
                                                     : (vf){0};
            }
            for (int64_t j = 0; j < k; j++) {
                const vf x = vf_load(b + j * ldb + v * VL), low = lower_half(x), high = upper_half(x);
                const int64_t place = j / K_RUN * run_step + j % K_RUN;
                for (int i = 0; i < SOME; i++) {
                    int32_t bits;
                    memcpy(&bits, row[i] + place, sizeof bits);
                    const vf pair = (vf)vi_set1(bits);
                    sum[i] = vf_fma(lower_half(pair), low, sum[i]);
                    sum[i] = vf_fma(upper_half(pair), high, sum[i]);
                }
            }
            for (int i = 0; i < SOME && r + i < rows; i++) {
                vf x = t->relu ? vf_relu(sum[i]) : sum[i];
                if (t->clip)
                    x = vf_min(vf_max(x, vf_set1(t->clip[0])), vf_set1(t->clip[1]));
                vf_store(t->to + (r + i) * t->to_ld + v * VL, x);
            }
        }
}

#endif

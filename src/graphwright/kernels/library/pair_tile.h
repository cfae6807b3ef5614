/* Register tiles of bf16 pairs; tile.py generates those for CPUs with instructions for pairs. */

#ifndef GW_PAIR_TILE_H
#define GW_PAIR_TILE_H

#include "library/pairs.h"
#include "library/tile.h"

/* What is added to row r, for the VL columns from v on. */
GW_INLINE vf addend_of(const struct tile *t, int64_t r, int64_t v) {
    vf sum = t->added ? vf_load(t->added + r * t->added_ld + v) : (vf){0};
    if (t->row)
        sum += vf_load(t->row + v);
    return t->column ? sum + vf_set1(t->column[r * t->column_ld]) : sum;
}

GW_INLINE vf activated(const struct tile *t, vf x) {
    x = t->relu ? vf_relu(x) : x;
    return t->clip ? vf_min(vf_max(x, vf_set1(t->clip[0])), vf_set1(t->clip[1])) : x;
}

#ifdef AMX_TARGET
#include "library/amx_pair_tile.h"
#endif

/* c += both products of each pair. */
#define DOT_PAIRS(c, a, b) __asm__("vdpbf16ps %1, %2, %0" : "+v"(c) : "v"(a), "v"(b))

/* A tile for CPUs without instructions for pairs. Row r of A begins at a + r * a_row; K_RUN pairs are
 * contiguous, and the next K_RUN begin run_step further. */
static void tile_of_halves(int64_t rows, int64_t vectors, int64_t k, const float *a, int64_t a_row,
                           int64_t run_step, const float *b, int64_t ldb, const struct tile *t) {
    enum { ROWS_AT_ONCE = 4 };
    for (int64_t r = 0; r < rows; r += ROWS_AT_ONCE)
        for (int64_t v = 0; v < vectors; v++) {
            const float *row[ROWS_AT_ONCE];
            vf sum[ROWS_AT_ONCE];
            for (int i = 0; i < ROWS_AT_ONCE; i++) { /* rows beyond the last one repeat it */
                const int64_t at = smaller(r + i, rows - 1);
                row[i] = a + at * a_row;
                sum[i] = (vf){0};
            }
            for (int64_t j = 0; j < k; j++) {
                const vf x = vf_load(b + j * ldb + v * VL), low = lower_half(x), high = upper_half(x);
                const int64_t offset = j / K_RUN * run_step + j % K_RUN;
                for (int i = 0; i < ROWS_AT_ONCE; i++) {
                    int32_t bits;
                    memcpy(&bits, row[i] + offset, sizeof bits);
                    const vf pair = (vf)vi_set1(bits);
                    sum[i] = vf_fma(lower_half(pair), low, sum[i]);
                    sum[i] = vf_fma(upper_half(pair), high, sum[i]);
                }
            }
            for (int i = 0; i < ROWS_AT_ONCE && r + i < rows; i++)
                vf_store(t->to + (r + i) * t->to_ld + v * VL,
                         activated(t, sum[i] + addend_of(t, r + i, v * VL)));
        }
}

#endif

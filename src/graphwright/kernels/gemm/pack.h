/* Packs f32 operands: row tiles of A, and column panels of B. */

#ifndef GW_GEMM_PACK_H
#define GW_GEMM_PACK_H

#include "gemm/problem.h"

/* Packs a tile of dense rows, all of which are read in parallel; the last vector of a row is written whole.
 */
static void pack_rows(const float *a, int64_t a_m, int64_t rows, int64_t k, float scale, float *to) {
    const vf factor = vf_set1(scale);
    for (; k >= K_RUN; k -= K_RUN, a += K_RUN, to += MR * K_RUN)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = 0; i < K_RUN; i += VL)
                vf_store(to + r * K_RUN + i, factor * vf_load(a + r * a_m + i));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < k; i += VL)
            vf_store(to + r * K_RUN + i, factor * vf_load_n(a + r * a_m + i, smaller(k - i, VL)));
}

/* Packs a tile: to[j / K_RUN][r][j % K_RUN] = scale * a[r][j]. */
static void pack_a(const float *a, int64_t a_m, int64_t a_k, int64_t rows, int64_t k, float scale,
                   float *to) {
    if (a_k == 1) {
        pack_rows(a, a_m, rows, k, scale, to);
        return;
    }
    for (int64_t j = 0; j < k; j += K_RUN, to += MR * K_RUN) {
        const int64_t run = smaller(K_RUN, k - j);
        const float *from = a + j * a_k;
        if (a_m == 1)
            for (int64_t i = 0; i < run; i += VL)
                transpose(from + i * a_k, a_k, smaller(VL, run - i), rows, to + i, K_RUN);
        else
            for (int64_t r = 0; r < rows; r++)
                for (int64_t i = 0; i < run; i++)
                    to[r * K_RUN + i] = from[r * a_m + i * a_k];
        for (int64_t i = 0; scale != 1 && i < rows * K_RUN; i += VL)
            vf_store(to + i, vf_load(to + i) * vf_set1(scale));
    }
}

/* Packs the first cols columns of b to a panel to[k][NR], padded with zeros to whole vectors. */
static void pack_b(const float *b, int64_t b_k, int64_t b_n, int64_t k, int64_t cols, float *to) {
    if (b_n == 1) {
        for (int64_t j = 0; j < k; j++)
            for (int64_t v = 0; v < cols; v += VL)
                vf_store(to + j * NR + v, load_most(b + j * b_k + v, cols - v));
        return;
    }
    if (b_k == 1) {
        for (int64_t v = 0; v < cols; v += VL)
            for (int64_t j = 0; j < k; j += VL)
                transpose(b + v * b_n + j, b_n, smaller(VL, cols - v), smaller(VL, k - j), to + j * NR + v,
                          NR);
        return;
    }
    for (int64_t j = 0; j < k; j++)
        for (int64_t i = 0; i < NR; i++)
            to[j * NR + i] = i < cols ? b[j * b_k + i * b_n] : 0;
}

#endif

/* Tiles of products of bf16 pairs with AMX: 32 rows and up to three vectors of columns. Registers 0 to 2 are
 * the sums of the first 16 rows, 3 to 5 those of the others; 6 is A and 7 is B. */

#ifndef GW_AMX_PAIR_TILE_H
#define GW_AMX_PAIR_TILE_H

#include "library/amx.h"
#include "library/tile.h"

#define TILE_DOT(sums, a, b) __asm__ volatile("tdpbf16ps %tmm" #b ", %tmm" #a ", %tmm" #sums)

/* The start value of VL columns of row r. */
GW_INLINE vf start_of(const struct tile *t, int64_t r, int64_t v) {
    if (t->from_kind == FROM_ROWS)
        return vf_set1(t->from[r * t->from_ld]);
    if (t->from_kind == FROM_ZERO)
        return (vf){0};
    const vf from = vf_load(t->from + r * t->from_ld + v);
    return t->row ? from + vf_load(t->row + v) : from;
}

/* Adds the products of K_RUN pairs, for 16 rows. */
GW_INLINE void multiply_one(int64_t vectors, const float *a, const float *b, int64_t pitch) {
    TILE_LOAD(6, a, AMX_ROW_BYTES);
    TILE_LOAD(7, b, pitch);
    TILE_DOT(0, 6, 7);
    if (vectors > 1) {
        TILE_LOAD(7, b + VL, pitch);
        TILE_DOT(1, 6, 7);
    }
    if (vectors > 2) {
        TILE_LOAD(7, b + 2 * VL, pitch);
        TILE_DOT(2, 6, 7);
    }
}

/* Adds the products of K_RUN pairs, for 32 rows. */
GW_INLINE void multiply_both(int64_t vectors, const float *a, const float *b, int64_t pitch) {
    const float *second = a + AMX_ROWS * K_RUN;
    TILE_LOAD(6, a, AMX_ROW_BYTES);
    TILE_LOAD(7, b, pitch);
    TILE_DOT(0, 6, 7);
    TILE_LOAD(6, second, AMX_ROW_BYTES);
    TILE_DOT(3, 6, 7);
    if (vectors > 1) {
        TILE_LOAD(7, b + VL, pitch);
        TILE_DOT(4, 6, 7);
        TILE_LOAD(6, a, AMX_ROW_BYTES);
        TILE_DOT(1, 6, 7);
    }
    if (vectors > 2) {
        TILE_LOAD(7, b + 2 * VL, pitch);
        TILE_DOT(2, 6, 7);
        TILE_LOAD(6, second, AMX_ROW_BYTES);
        TILE_DOT(5, 6, 7);
    }
}

GW_INLINE void multiply_run(int64_t rows, int64_t vectors, const float *a, const float *b, int64_t ldb) {
    const int64_t pitch = ldb * (int64_t)sizeof *b;
    if (rows > AMX_ROWS)
        multiply_both(vectors, a, b, pitch);
    else
        multiply_one(vectors, a, b, pitch);
}

/* A tile of packed A, whose runs of K_RUN pairs end with zeros. All MR rows of `a` are computed, and the
 * first `rows` stored. */
AMX_TARGET static void pair_tile_with_amx(int64_t rows, int64_t vectors, int64_t k, const float *a,
                                          const float *b, int64_t ldb, const struct tile *t) {
    float sums[2 * AMX_ROWS * NR] __attribute__((aligned(64)));
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    TILE_ZERO(4);
    TILE_ZERO(5);
    for (; k >= K_RUN; k -= K_RUN, a += 2 * AMX_ROWS * K_RUN, b += K_RUN * ldb)
        multiply_run(rows, vectors, a, b, ldb);
    if (k) { /* there may be no rows of B beyond the last */
        float last[K_RUN * NR] __attribute__((aligned(64))) = {0};
        for (int64_t j = 0; j < k; j++)
            for (int64_t v = 0; v < vectors * VL; v += VL)
                vf_store(last + j * NR + v, vf_load(b + j * ldb + v));
        multiply_run(rows, vectors, a, last, NR);
    }
    const int64_t pitch = sizeof(float) * NR;
    TILE_STORE(0, sums, pitch);
    TILE_STORE(1, sums + VL, pitch);
    TILE_STORE(2, sums + 2 * VL, pitch);
    TILE_STORE(3, sums + AMX_ROWS * NR, pitch);
    TILE_STORE(4, sums + AMX_ROWS * NR + VL, pitch);
    TILE_STORE(5, sums + AMX_ROWS * NR + 2 * VL, pitch);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t v = 0; v < vectors * VL; v += VL) {
            vf x = vf_load(sums + r * NR + v) + start_of(t, r, v);
            x = t->relu ? vf_relu(x) : x;
            if (t->clip)
                x = vf_min(vf_max(x, vf_set1(t->clip[0])), vf_set1(t->clip[1]));
            vf_store(t->to + r * t->to_ld + v, x);
        }
}

#endif

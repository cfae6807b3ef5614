/* Tiles of products of bf16 pairs with AMX. */

#ifndef GW_AMX_PAIR_TILE_H
#define GW_AMX_PAIR_TILE_H

#include "library/tile.h"

#define TILE_DOT(sums, a, b) __asm__ volatile("tdpbf16ps %tmm" #b ", %tmm" #a ", %tmm" #sums)
#include "library/amx_tile.h"

_Static_assert(K_RUN == AMX_ROWS, "a run of pairs is a row of a register");

/* The start value of VL columns of row r. */
GW_INLINE vf start_of(const struct tile *t, int64_t r, int64_t v) {
    if (t->from_kind == FROM_ROWS)
        return vf_set1(t->from[r * t->from_ld]);
    if (t->from_kind == FROM_ZERO)
        return (vf){0};
    const vf from = vf_load(t->from + r * t->from_ld + v);
    return t->row ? from + vf_load(t->row + v) : from;
}

AMX_TARGET static void pair_tile_with_amx(int64_t rows, int64_t vectors, int64_t k, const float *a,
                                          const float *b, int64_t ldb, const struct tile *t) {
    float sums[AMX_TILE_ROWS * NR] __attribute__((aligned(64)));
    clear_tiles();
    multiply_tile(AMX_TILE_ROWS, rows, vectors, k, a, b, ldb * (int64_t)sizeof *b);
    store_tiles(rows, sums, NR * (int64_t)sizeof *sums);
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

/* Tiles of products of bf16 pairs with AMX. */

#ifndef GW_AMX_PAIR_TILE_H
#define GW_AMX_PAIR_TILE_H

#include "library/tile.h"

#define TILE_DOT(sums, a, b) __asm__ volatile("tdpbf16ps %tmm" #b ", %tmm" #a ", %tmm" #sums)
#include "library/amx_tile.h"

_Static_assert(K_RUN == AMX_ROWS, "a run of pairs is a row of a register");

AMX_TARGET static void pair_tile_with_amx(int64_t rows, int64_t vectors, int64_t k, const float *a,
                                          const float *b, int64_t ldb, const struct tile *t) {
    float sums[AMX_TILE_ROWS * NR] __attribute__((aligned(64)));
    clear_tiles();
    multiply_tile(AMX_TILE_ROWS, rows, vectors, k, a, b, ldb * (int64_t)sizeof *b);
    store_tiles(rows, sums, NR * (int64_t)sizeof *sums);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t v = 0; v < vectors * VL; v += VL) {
            const vf x = vf_load(sums + r * NR + v) + addend_of(t, r, v);
            vf_store(t->to + r * t->to_ld + v, activated(t, x));
        }
}

#endif

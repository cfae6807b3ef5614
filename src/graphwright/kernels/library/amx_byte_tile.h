/* Tiles of products of bytes with AMX; the including file defines A_SIGNED. */

#ifndef GW_AMX_BYTE_TILE_H
#define GW_AMX_BYTE_TILE_H

#include "library/byte_tile.h"

#if A_SIGNED
#define TILE_DOT(sums, a, b) __asm__ volatile("tdpbsud %tmm" #b ", %tmm" #a ", %tmm" #sums)
#else
#define TILE_DOT(sums, a, b) __asm__ volatile("tdpbusd %tmm" #b ", %tmm" #a ", %tmm" #sums)
#endif
#include "library/amx_tile.h"

_Static_assert(RUN == AMX_ROW_BYTES, "a run of bytes is a row of a register");

AMX_TARGET static void byte_tile_with_amx(int64_t tile_rows, int64_t rows, int64_t vectors, int64_t quads,
                                          const uint8_t *a, const uint8_t *b, const struct byte_tile *t) {
    int32_t sums[AMX_TILE_ROWS * NR] __attribute__((aligned(64)));
    clear_tiles();
    multiply_tile(tile_rows, rows, vectors, quads, a, b, PANEL_ROW);
    store_tiles(rows, sums, PANEL_ROW);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t v = 0; v < vectors * VL; v += VL) {
            const vi start = t->from_rows ? vi_set1(t->from[r]) : vi_load(t->from + v);
            vi_store(t->to + r * t->to_ld + v, wrapping_sum(vi_load(sums + r * NR + v), start));
        }
}

#endif

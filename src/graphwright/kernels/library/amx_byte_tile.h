/* Tiles of products of bytes with AMX; the including file defines A_SIGNED. Registers 0 to 2 are the sums of
 * the vectors of columns. */

#ifndef GW_AMX_BYTE_TILE_H
#define GW_AMX_BYTE_TILE_H

#include "library/amx.h"
#include "library/byte_tile.h"

#if A_SIGNED
#define TILE_DOT(sums, a, b) __asm__ volatile("tdpbsud %tmm" #b ", %tmm" #a ", %tmm" #sums)
#else
#define TILE_DOT(sums, a, b) __asm__ volatile("tdpbusd %tmm" #b ", %tmm" #a ", %tmm" #sums)
#endif

AMX_TARGET static void start_tiles(int64_t vectors, const struct byte_tile *t) {
    int32_t rows[TILE_ROWS * VL] __attribute__((aligned(64)));
    const int32_t *from = t->from;
    if (t->from_rows) {
        for (int64_t r = 0; r < TILE_ROWS; r++)
            vi_store(rows + r * VL, vi_set1(t->from[r]));
        from = rows;
    }
    const int64_t pitch = t->from_rows ? AMX_ROW_BYTES : 0, step = t->from_rows ? 0 : VL;
    TILE_LOAD(0, from, pitch);
    if (vectors > 1)
        TILE_LOAD(1, from + step, pitch);
    if (vectors > 2)
        TILE_LOAD(2, from + 2 * step, pitch);
}

AMX_TARGET static void store_tiles(int64_t vectors, int32_t *to, int64_t ld) {
    const int64_t pitch = ld * (int64_t)sizeof *to;
    TILE_STORE(0, to, pitch);
    if (vectors > 1)
        TILE_STORE(1, to + VL, pitch);
    if (vectors > 2)
        TILE_STORE(2, to + 2 * VL, pitch);
}

/* Computes a tile. All TILE_ROWS rows of `a` are computed, and the first `rows` stored. */
AMX_TARGET static void run_amx(int64_t rows, int64_t vectors, int64_t quads, const uint8_t *a,
                               const uint8_t *b, const struct byte_tile *t) {
    start_tiles(vectors, t);
    for (; quads >= AMX_ROWS; quads -= AMX_ROWS, a += TILE_ROWS * RUN, b += AMX_ROWS * PANEL_ROW) {
        TILE_LOAD(3, a, RUN);
        TILE_LOAD(4, b, PANEL_ROW);
        TILE_DOT(0, 3, 4);
        if (vectors > 1) {
            TILE_LOAD(5, b + AMX_ROW_BYTES, PANEL_ROW);
            TILE_DOT(1, 3, 5);
        }
        if (vectors > 2) {
            TILE_LOAD(4, b + 2 * AMX_ROW_BYTES, PANEL_ROW);
            TILE_DOT(2, 3, 4);
        }
    }
    if (quads) {
        TILE_LOAD(6, a, RUN);
        TILE_LOAD(7, b, PANEL_ROW);
        TILE_DOT(0, 6, 7);
        if (vectors > 1) {
            TILE_LOAD(7, b + AMX_ROW_BYTES, PANEL_ROW);
            TILE_DOT(1, 6, 7);
        }
        if (vectors > 2) {
            TILE_LOAD(7, b + 2 * AMX_ROW_BYTES, PANEL_ROW);
            TILE_DOT(2, 6, 7);
        }
    }
    if (rows == TILE_ROWS) {
        store_tiles(vectors, t->to, t->to_ld);
        return;
    }
    int32_t out[TILE_ROWS * NR] __attribute__((aligned(64)));
    store_tiles(vectors, out, NR);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t v = 0; v < vectors * VL; v += VL)
            vi_store(t->to + r * t->to_ld + v, vi_load(out + r * NR + v));
}

#endif

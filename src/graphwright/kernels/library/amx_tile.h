/* Tiles of products of bytes with AMX: registers of 16 rows of 64 bytes, and an instruction that adds the
 * products of 16 quads of k (Intel, Architecture Instruction Set Extensions Programming Reference, 2020). The
 * including file defines A_SIGNED. */

#ifndef GW_AMX_TILE_H
#define GW_AMX_TILE_H

#include "library/byte_tile.h"

enum {
    AMX_ROWS = 16,
    AMX_ROW_BYTES = 64,
};

/* The operand of ldtilecfg. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Registers 0 to 2 are sums, one for each vector of columns; 3 is A; 4 and 5 are B; 6 and 7 are A and B for
 * the last quads of k, fewer than 16. */
#define TILE_LOAD(tile, p, pitch)                                                                            \
    __asm__ volatile("tileloadd (%0,%1), %%tmm" #tile : : "r"(p), "r"((int64_t)(pitch)) : "memory")
#define TILE_STORE(tile, p, pitch)                                                                           \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1)" : : "r"(p), "r"((int64_t)(pitch)) : "memory")
#if A_SIGNED
#define TILE_DOT(sums, a, b) __asm__ volatile("tdpbsud %tmm" #b ", %tmm" #a ", %tmm" #sums)
#else
#define TILE_DOT(sums, a, b) __asm__ volatile("tdpbusd %tmm" #b ", %tmm" #a ", %tmm" #sums)
#endif

/* Prepares the registers of this thread for products of so many quads of k. */
AMX_TARGET static void configure_tiles(int64_t quads) {
    struct tile_config config = {.palette = 1};
    for (int i = 0; i < 6; i++) {
        config.row_bytes[i] = AMX_ROW_BYTES;
        config.rows[i] = i < 4 ? TILE_ROWS : AMX_ROWS;
    }
    const int64_t rest = quads % AMX_ROWS;
    if (rest) {
        config.row_bytes[6] = (uint16_t)(4 * rest);
        config.rows[6] = TILE_ROWS;
        config.row_bytes[7] = AMX_ROW_BYTES;
        config.rows[7] = (uint8_t)rest;
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(config));
}

/* Frees the registers, whose content is otherwise saved at each switch of threads. */
AMX_TARGET static void release_tiles(void) { __asm__ volatile("tilerelease"); }

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

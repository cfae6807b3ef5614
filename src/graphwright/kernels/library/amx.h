/* Intel AMX: registers of up to 16 rows of 64 bytes, and instructions that multiply them (Intel, Architecture
 * Instruction Set Extensions Programming Reference, 2020). A product takes as long for few rows of A as
 * for 16. */

#ifndef GW_AMX_H
#define GW_AMX_H

#include "cpu/vector.h"

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

#define TILE_ZERO(tile) __asm__ volatile("tilezero %tmm" #tile)
#define TILE_LOAD(tile, p, pitch)                                                                            \
    __asm__ volatile("tileloadd (%0,%1), %%tmm" #tile : : "r"(p), "r"((int64_t)(pitch)) : "memory")
#define TILE_STORE(tile, p, pitch)                                                                           \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1)" : : "r"(p), "r"((int64_t)(pitch)) : "memory")

/* Prepares the registers of this thread: 0 to 2 are sums and 3 is A, with a_rows rows; 4 and 5 are B. 6 and 7
 * are A and B for the last elements of K: `rest` lanes of A, and as many rows of B. */
AMX_TARGET static void configure_tiles(int64_t a_rows, int64_t rest) {
    struct tile_config config = {.palette = 1};
    for (int i = 0; i < 6; i++) {
        config.row_bytes[i] = AMX_ROW_BYTES;
        config.rows[i] = i < 4 ? (uint8_t)a_rows : AMX_ROWS;
    }
    if (rest) {
        config.row_bytes[6] = (uint16_t)(4 * rest);
        config.rows[6] = (uint8_t)a_rows;
        config.row_bytes[7] = AMX_ROW_BYTES;
        config.rows[7] = (uint8_t)rest;
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(config));
}

/* Frees the registers, whose content is otherwise saved at each switch of threads. */
AMX_TARGET static void release_tiles(void) { __asm__ volatile("tilerelease"); }

#endif

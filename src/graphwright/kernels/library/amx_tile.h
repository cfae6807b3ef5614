/* Register tiles with Intel AMX: up to 32 rows of A, in two registers, which share the loads of B, times up
 * to three vectors of columns (Intel, Architecture Instruction Set Extensions Programming Reference, 2020). A
 * lane of A holds two bf16 or four bytes. The including file defines TILE_DOT, the product of two registers.
 *
 * Registers 0 to 2 are the sums of the first rows, 3 to 5 those of the other rows; 6 is A and 7 is B. A
 * product takes as long for few rows as for 16. */

#ifndef GW_AMX_TILE_H
#define GW_AMX_TILE_H

#include "cpu/vector.h"

enum {
    AMX_ROWS = AMX_TILE_ROWS / 2, /* of a register */
    AMX_ROW_BYTES = 64,           /* 16 lanes */
};

/* The operand of ldtilecfg. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

#define TILE_LOAD(tile, p, pitch)                                                                            \
    __asm__ volatile("tileloadd (%0,%1), %%tmm" #tile : : "r"(p), "r"((int64_t)(pitch)) : "memory")
#define TILE_STORE(tile, p, pitch)                                                                           \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1)" : : "r"(p), "r"((int64_t)(pitch)) : "memory")
#define TILE_ZERO(tile) __asm__ volatile("tilezero %tmm" #tile)

/* Prepares the registers of this thread for tiles of this many rows. */
AMX_TARGET static void configure_tiles(int64_t tile_rows) {
    struct tile_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = AMX_ROW_BYTES;
        config.rows[i] = i == 7 || tile_rows > AMX_ROWS ? AMX_ROWS : (uint8_t)tile_rows;
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(config));
}

/* Frees the registers, whose content is otherwise saved at each switch of threads. */
AMX_TARGET static void release_tiles(void) { __asm__ volatile("tilerelease"); }

AMX_TARGET static void clear_tiles(void) {
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    TILE_ZERO(4);
    TILE_ZERO(5);
}

/* Stores all sums; rows are `pitch` bytes apart. */
AMX_TARGET static void store_tiles(int64_t rows, void *to, int64_t pitch) {
    char *first = to, *second = first + AMX_ROWS * pitch;
    TILE_STORE(0, first, pitch);
    TILE_STORE(1, first + AMX_ROW_BYTES, pitch);
    TILE_STORE(2, first + 2 * AMX_ROW_BYTES, pitch);
    if (rows <= AMX_ROWS)
        return;
    TILE_STORE(3, second, pitch);
    TILE_STORE(4, second + AMX_ROW_BYTES, pitch);
    TILE_STORE(5, second + 2 * AMX_ROW_BYTES, pitch);
}

/* Adds the products of 16 lanes of one register of A. The rows of B are `pitch` bytes apart. */
GW_INLINE void multiply_one(int64_t vectors, const char *a, const char *b, int64_t pitch) {
    TILE_LOAD(6, a, AMX_ROW_BYTES);
    TILE_LOAD(7, b, pitch);
    TILE_DOT(0, 6, 7);
    if (vectors > 1) {
        TILE_LOAD(7, b + AMX_ROW_BYTES, pitch);
        TILE_DOT(1, 6, 7);
    }
    if (vectors > 2) {
        TILE_LOAD(7, b + 2 * AMX_ROW_BYTES, pitch);
        TILE_DOT(2, 6, 7);
    }
}

/* The same for two registers of A. */
GW_INLINE void multiply_both(int64_t vectors, const char *a, const char *b, int64_t pitch) {
    const char *second = a + AMX_ROWS * AMX_ROW_BYTES;
    TILE_LOAD(6, a, AMX_ROW_BYTES);
    TILE_LOAD(7, b, pitch);
    TILE_DOT(0, 6, 7);
    TILE_LOAD(6, second, AMX_ROW_BYTES);
    TILE_DOT(3, 6, 7);
    if (vectors > 1) {
        TILE_LOAD(7, b + AMX_ROW_BYTES, pitch);
        TILE_DOT(4, 6, 7);
        TILE_LOAD(6, a, AMX_ROW_BYTES);
        TILE_DOT(1, 6, 7);
    }
    if (vectors > 2) {
        TILE_LOAD(7, b + 2 * AMX_ROW_BYTES, pitch);
        TILE_DOT(2, 6, 7);
        TILE_LOAD(6, second, AMX_ROW_BYTES);
        TILE_DOT(5, 6, 7);
    }
}

/* Adds the products of packed A, in which 16 lanes of all tile_rows rows follow one another, with a panel of
 * B. The last 16 lanes of A end with zeros. All rows of a register are computed. */
AMX_TARGET static void multiply_tile(int64_t tile_rows, int64_t rows, int64_t vectors, int64_t lanes,
                                     const void *packed_a, const void *panel, int64_t pitch) {
    const char *a = packed_a, *b = panel;
    for (; lanes > 0; lanes -= AMX_ROWS, a += tile_rows * AMX_ROW_BYTES, b += AMX_ROWS * pitch) {
        char last[AMX_ROWS * 3 * AMX_ROW_BYTES] __attribute__((aligned(64)));
        const int is_last = lanes < AMX_ROWS;
        if (is_last) { /* there may be no rows of B beyond the last */
            memset(last, 0, sizeof last);
            for (int64_t i = 0; i < lanes; i++)
                memcpy(last + i * 3 * AMX_ROW_BYTES, b + i * pitch, (size_t)(vectors * AMX_ROW_BYTES));
        }
        const char *from = is_last ? last : b;
        const int64_t step = is_last ? 3 * AMX_ROW_BYTES : pitch;
        if (rows > AMX_ROWS)
            multiply_both(vectors, a, from, step);
        else
            multiply_one(vectors, a, from, step);
    }
}

#endif

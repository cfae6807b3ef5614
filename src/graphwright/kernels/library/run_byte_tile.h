/* Chooses among the micro-kernels of byte_tile.py: those with VNNI if the CPU has it. */

#ifndef GW_RUN_BYTE_TILE_H
#define GW_RUN_BYTE_TILE_H

#include "library/byte_tile.h"
#include "library/features.h"

static void run_wide(int64_t rows, int64_t vectors, int64_t quads, const uint8_t *a, const uint8_t *b,
                     const struct byte_tile *t) {
    for (int64_t r = 0; r < rows; r += 4) {
        struct byte_tile part = *t;
        part.from += t->from_rows ? r : 0;
        part.to += r * t->to_ld;
        wide_of[(rows - r < 4 ? rows - r : 4) - 1][vectors - 1](quads, a + r * RUN, b, &part);
    }
}

#if VL == 16
GW_INLINE void run_byte_tile(int wide, int64_t rows, int64_t vectors, int64_t quads, const uint8_t *a,
                             const uint8_t *b, const struct byte_tile *t) {
    if (wide)
        run_wide(rows, vectors, quads, a, b, t);
    else
        vnni_of[rows - 1][vectors - 1](quads, a, b, t);
}
#else
GW_INLINE void run_byte_tile(int wide, int64_t rows, int64_t vectors, int64_t quads, const uint8_t *a,
                             const uint8_t *b, const struct byte_tile *t) {
    (void)wide;
    run_wide(rows, vectors, quads, a, b, t);
}
#endif

#endif

/* Chooses among the micro-kernels of bytes: with AMX, with AVX512-VNNI (byte_tile.py), or with neither. */

#ifndef GW_RUN_BYTE_TILE_H
#define GW_RUN_BYTE_TILE_H

#include "library/byte_tile.h"
#include "library/features.h"

#ifdef AMX_TARGET
#include "library/amx_byte_tile.h"
#endif

/* What multiplies bytes. */
enum byte_unit { AS_16_BITS, WITH_VNNI, WITH_AMX };

/* The fastest unit of this CPU up to `most`. */
GW_INLINE enum byte_unit byte_unit_up_to(enum byte_unit most) {
    if (most == WITH_AMX && has_amx())
        return WITH_AMX;
    return most >= WITH_VNNI && has_vnni() ? WITH_VNNI : AS_16_BITS;
}

/* Begins products on this thread; tile_rows: the rows that are packed together. */
static void start_byte_tiles(enum byte_unit unit, int64_t tile_rows) {
    (void)unit, (void)tile_rows;
#ifdef AMX_TARGET
    if (unit == WITH_AMX)
        configure_tiles(tile_rows);
#endif
}

static void end_byte_tiles(enum byte_unit unit) {
    (void)unit;
#ifdef AMX_TARGET
    if (unit == WITH_AMX)
        release_tiles();
#endif
}

static void run_in_16_bits(int64_t rows, int64_t vectors, int64_t quads, const uint8_t *a, const uint8_t *b,
                           const struct byte_tile *t) {
    for (int64_t r = 0; r < rows; r += 4) {
        struct byte_tile part = *t;
        part.from += t->from_rows ? r : 0;
        part.to += r * t->to_ld;
        wide_of[(rows - r < 4 ? rows - r : 4) - 1][vectors - 1](quads, a + r * RUN, b, &part);
    }
}

GW_INLINE void run_byte_tile(enum byte_unit unit, int64_t tile_rows, int64_t rows, int64_t vectors,
                             int64_t quads, const uint8_t *a, const uint8_t *b, const struct byte_tile *t) {
#ifdef AMX_TARGET
    if (unit == WITH_AMX) {
        byte_tile_with_amx(tile_rows, rows, vectors, quads, a, b, t);
        return;
    }
#endif
#if VL == 16
    if (unit == WITH_VNNI) {
        vnni_of[rows - 1][vectors - 1](quads, a, b, t);
        return;
    }
#endif
    (void)unit, (void)tile_rows;
    run_in_16_bits(rows, vectors, quads, a, b, t);
}

#endif

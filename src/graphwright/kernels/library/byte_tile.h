/* Tiles of products of bytes; byte_tile.py generates the micro-kernels. RUN bytes of a row of A are
 * contiguous, TILE_ROWS rows are packed together, and NR is the number of columns of a panel of B. */

#ifndef GW_BYTE_TILE_H
#define GW_BYTE_TILE_H

#include "library/byte_dots.h"

#define PANEL_ROW (NR * 4) /* bytes of a panel of B per quad of k */

/* A tile: where its sums start and where they are stored, and data of a later tile to prefetch to L2. */
struct byte_tile {
    const int32_t *from; /* start values: one per row if from_rows, else one per column */
    int32_t *to;
    int64_t to_ld;
    int from_rows;
    const uint8_t *ahead;
    int64_t ahead_lines; /* cache lines that are prefetched for each run of k */
};

/* tile[r][c] -= of_row[r] * of_column[c] */
static void subtract_products(int32_t *tile, int64_t ld, int64_t rows, int64_t vectors, const int32_t *of_row,
                              const int32_t *of_column) {
    for (int64_t r = 0; r < rows; r++, tile += ld) {
        const vq factor = (vq)vi_set1(of_row[r]);
        for (int64_t v = 0; v < vectors * VL; v += VL)
            vi_store(tile + v, (vi)((vq)vi_load(tile + v) - factor * (vq)vi_load(of_column + v)));
    }
}

#endif

/* The blocks of a GEMM's output, with the constants of grid.py. */

#ifndef GW_GEMM_BLOCK_H
#define GW_GEMM_BLOCK_H

#include "library/sizes.h"

/* A block of the output: row tiles [tile0, tile1) and column panels [panel0, panel1) of one batch. */
struct block {
    int64_t batch0, batch1, tile0, tile1, panel0, panel1;
};

/* Parts [at, end) of `count` parts that the row tiles are cut into. */
struct part {
    int64_t at, end, count;
};

/* The number of parts of the rows: one per block, and more if these give too few units (the same as in
 * grid.py). others: units per part. */
GW_INLINE int64_t row_parts(int64_t blocks, int64_t tiles, int64_t others) {
    const int64_t wanted = smaller(tiles / PART_TILES, ceildiv(ENOUGH_UNITS, others > 1 ? others : 1));
    return blocks > wanted ? blocks : wanted;
}

/* Joins as many parts from `at` on as one block of `most` tiles can hold, up to part `end`. */
GW_INLINE struct part joined(int64_t at, int64_t end, int64_t count, int64_t tiles, int64_t most) {
    struct part made = {at, at + 1, count};
    while (made.end < end && part_begin(tiles, made.end + 1, count) - part_begin(tiles, at, count) <= most)
        made.end++;
    return made;
}

/* The block of `units` units of panels, for index `batch` of two batch axes. */
GW_INLINE struct block block_of(int64_t batch, int64_t batch1, int64_t tiles, struct part rows,
                                int64_t panels, int64_t unit, int64_t units) {
    return (struct block){
        .batch0 = batch / batch1,
        .batch1 = batch % batch1,
        .tile0 = part_begin(tiles, rows.at, rows.count),
        .tile1 = part_begin(tiles, rows.end, rows.count),
        .panel0 = unit * UNIT_PANELS,
        .panel1 = smaller(panels, (unit + units) * UNIT_PANELS),
    };
}

/* Cuts the rows of a block into tiles of at most `height` rows, and returns the number of tiles. row_of[i]
 * becomes the first row of tile i, and the element after the last tile becomes the end of the rows. Tiles of
 * grid_rows rows are those of the grid. */
GW_INLINE int64_t cut_rows(const struct block *o, int64_t m, int64_t grid_rows, int64_t height,
                           int64_t *row_of) {
    const int64_t tiles = ceildiv(m, grid_rows);
    const int64_t first = part_begin(m, o->tile0, tiles), end = part_begin(m, o->tile1, tiles);
    const int64_t count = height == grid_rows ? o->tile1 - o->tile0 : ceildiv(end - first, height);
    for (int64_t i = 0; i <= count; i++)
        row_of[i] =
            height == grid_rows ? part_begin(m, o->tile0 + i, tiles) : smaller(first + i * height, end);
    return count;
}

#endif

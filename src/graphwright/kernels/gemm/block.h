/* The part of a product that is computed together, with the constants of grid.py. */

#ifndef GW_GEMM_BLOCK_H
#define GW_GEMM_BLOCK_H

#include "library/sizes.h"

/* A block of the output: rows of tiles [tile0, tile1) and panels [panel0, panel1) of one batch. */
struct block {
    int64_t batch0, batch1, tile0, tile1, panel0, panel1;
};

/* Parts [at, end) of count. */
struct part {
    int64_t at, end, count;
};

/* Parts that rows are cut into: their blocks, and more where these make too few units: as grid.py has it.
   others: units of a part. */
GW_INLINE int64_t row_parts(int64_t blocks, int64_t tiles, int64_t others) {
    const int64_t wanted = smaller(tiles / PART_TILES, parts(ENOUGH_UNITS, others > 1 ? others : 1));
    return blocks > wanted ? blocks : wanted;
}

/* The parts of rows from at that make up one block of most tiles, of those up to end. */
GW_INLINE struct part joined(int64_t at, int64_t end, int64_t count, int64_t tiles, int64_t most) {
    struct part made = {at, at + 1, count};
    while (made.end < end && cut(tiles, made.end + 1, count) - cut(tiles, at, count) <= most)
        made.end++;
    return made;
}

/* The block of so many units of panels, in two axes of batches. */
GW_INLINE struct block block_of(int64_t batch, int64_t batch1, int64_t tiles, struct part rows,
                                int64_t panels, int64_t unit, int64_t units) {
    return (struct block){
        .batch0 = batch / batch1,
        .batch1 = batch % batch1,
        .tile0 = cut(tiles, rows.at, rows.count),
        .tile1 = cut(tiles, rows.end, rows.count),
        .panel0 = unit * UNIT_PANELS,
        .panel1 = smaller(panels, (unit + units) * UNIT_PANELS),
    };
}

#endif

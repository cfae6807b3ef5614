/* The part of a product that is computed together. The file that includes this defines UNIT_PANELS. */

#ifndef GW_GEMM_BLOCK_H
#define GW_GEMM_BLOCK_H

#include "library/sizes.h"

/* A block of the output: rows of tiles [tile0, tile1) and panels [panel0, panel1) of one batch. */
struct block {
    int64_t batch0, batch1, tile0, tile1, panel0, panel1;
};

/* A number of things, of which it is the at-th. */
struct part {
    int64_t at, count;
};

/* The block of so many units of panels, in two axes of batches. */
GW_INLINE struct block block_of(int64_t batch, int64_t batch1, int64_t tiles, struct part rows,
                                int64_t panels, int64_t unit, int64_t units) {
    return (struct block){
        .batch0 = batch / batch1,
        .batch1 = batch % batch1,
        .tile0 = cut(tiles, rows.at, rows.count),
        .tile1 = cut(tiles, rows.at + 1, rows.count),
        .panel0 = unit * UNIT_PANELS,
        .panel1 = smaller(panels, (unit + units) * UNIT_PANELS),
    };
}

#endif

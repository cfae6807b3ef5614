/* How a register tile starts and where it goes: tile.py writes the tiles themselves. */

#ifndef GW_TILE_H
#define GW_TILE_H

#include "cpu/vector.h"

/* GCC would choose forms of the FMA that need moves between registers. */
#define ACCUMULATE(c, a, b) __asm__("vfmadd231ps %1, %2, %0" : "+v"(c) : "v"(a), "v"(b))

/* How a tile starts (from nothing, one number per row, or a whole tile) and where it goes. */
enum { FROM_ZERO, FROM_ROWS, FROM_TILE };
struct tile {
    int from_kind, relu;
    const float *from;
    float *to;
    int64_t from_ld, to_ld;
    const float *row;    /* FROM_TILE in tile.py: a row that is added to each row of from, or NULL */
    const float *clip;   /* the lowest and the highest value stored, or NULL */
    const float *ahead;  /* what a later tile reads is fetched to L2, or NULL ... */
    int64_t ahead_step;  /* ... a cache line every 2 values of k, so many elements apart ... */
    int64_t ahead_skip;  /* ... and one more after K_RUN values, so many before the next */
    int64_t ahead_lines; /* of a stream: cache lines fetched a turn */
    int wide;            /* of pairs: without the instructions for them */
};

#endif

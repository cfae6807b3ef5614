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
    const float *clip;   /* the lowest and the highest value stored, or NULL */
    const float *ahead;  /* what a later tile reads is fetched to L2, or NULL ... */
    int64_t ahead_step;  /* ... a cache line every 2 values of k, so many elements apart ... */
    int64_t ahead_skip;  /* ... and one more after K_RUN values, so many before the next */
    int64_t ahead_lines; /* of a stream: cache lines fetched a turn */
    int wide;            /* of pairs: without the instructions for them */
};

/* Activation of a finished tile. */
static void activate(int64_t rows, int64_t vectors, const struct tile *t) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t v = 0; v < vectors; v++) {
            float *at = t->to + r * t->to_ld + v * VL;
            vf x = vf_load(at);
            if (t->relu)
                x = vf_relu(x);
            if (t->clip)
                x = vf_min(vf_max(x, vf_set1(t->clip[0])), vf_set1(t->clip[1]));
            vf_store(at, x);
        }
}

#endif

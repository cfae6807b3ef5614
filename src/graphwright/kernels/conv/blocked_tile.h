/* One tile of a direct convolution: blocked_tile.py writes the tiles themselves. */

#ifndef GW_BLOCKED_TILE_H
#define GW_BLOCKED_TILE_H

#include "cpu/vector.h"

/* A tap: where it stands from the first one, and whether it lies in the padding for the first (1) and the
   last (2) pixel of a row of the image. */
struct tap {
    int64_t at, outside;
};

/* Channel c of input block b of pixel p at tap k:
   x[b * x_block + taps[k].at + p * STEP * LANES + c], LANES channels a block; or zero for the first and the
   last pixel where taps[k].outside & edges has their bit (in a blocked input only).
   Its VL weights for output block o: w[o * w_out + (k * LANES + c) * VL], and w_skip further on after each
   input block.
   Sums begin as `from` plus `add` (unless null); act (0 none, 1 at least lo, 2 at most hi too) is applied and
   they go to `to`. Blocks lie *_block apart, pixels VL; where from_pixel is 0, `from` is the same for all. */
struct tile {
    const float *x;
    int64_t x_block;
    int64_t x_next; /* from the last input block to the next tile's first one */
    const struct tap *taps;
    int64_t tap_count, channels;
    const float *w;
    int64_t w_skip, w_out;
    const float *from;
    int64_t from_block, from_pixel;
    const float *add;
    int64_t add_block;
    float *to;
    int64_t to_block;
    int64_t far;  /* whether what the next tile writes is fetched at once, since it is in no cache */
    int64_t deep; /* whether the weights do not stay in L1 */
    int64_t edges;
    const float *zeros; /* LANES of them */
    const float *ahead; /* what later tiles read is fetched to L2 ... */
    int64_t ahead_step; /* ... so many bytes further every other step */
    int64_t act;
    float lo, hi;
};

typedef void (*tile_fn)(const struct tile *t);

#endif

/* One tile of a direct convolution: blocked_tile.py generates the micro-kernels. */

#ifndef GW_BLOCKED_TILE_H
#define GW_BLOCKED_TILE_H

#include "cpu/vector.h"

/* A tap of the window: its offset from the first tap, and bits for whether it is in the padding for the first
 * (1) and the last (2) pixel of a row of the image. */
struct tap {
    int64_t at, outside;
};

/* The operands of a micro-kernel. Channel c of input block b of pixel p at tap k is x[b * x_block +
 * taps[k].at + p * STEP * LANES + c], with LANES channels per block. For the first and last pixel it is zero
 * if taps[k].outside & edges has the pixel's bit (blocked inputs only). The VL weights of this channel for
 * output block o are at w[o * w_out + (k * LANES + c) * VL], and w advances by w_skip more after each input
 * block. To the finished sums, `added` (a residual, or partial sums) and `bias` are added if not NULL; sums
 * that began with them would lose more bits. The activation act (0: none, 1: at least lo, 2: also at most hi)
 * is applied, and the result is stored to `to`. Output blocks of `added` and `to` are *_block elements apart,
 * their pixels VL elements; bias has VL elements per output block. */
struct tile {
    const float *x;
    int64_t x_block;
    int64_t x_next; /* elements from the last input block of this tile to the first one of the next tile */
    const struct tap *taps;
    int64_t tap_count, channels;
    const float *w;
    int64_t w_skip, w_out;
    const float *bias, *added;
    int64_t added_block;
    float *to;
    int64_t to_block;
    int64_t far;  /* prefetch the next tile's output for writing, since it is in no cache */
    int64_t deep; /* the weights do not stay in L1 */
    int64_t edges;
    const float *zeros; /* LANES zeros */
    const float *ahead; /* what later tiles read is prefetched to L2 from here ... */
    int64_t ahead_step; /* ... advancing by this many bytes every other step */
    int64_t act;
    float lo, hi;
};

typedef void (*tile_fn)(const struct tile *t);

#endif

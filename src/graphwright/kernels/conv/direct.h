/* One direct convolution and its bands. */

#ifndef GW_DIRECT_H
#define GW_DIRECT_H

#include "library/windows.h"

struct conv {
    struct direct_args s;
    const float *x, *w, *bias, *residual;
    float *y;
    gw_hook hook;
    void *const *hook_buf;
    const int64_t *hook_arg;
    float lo, hi;
    int64_t lanes;        /* channels per input block */
    int64_t group_blocks; /* input blocks of a group, as they lie in memory */
    int nhwc;             /* all channels of a pixel of y lie together: of a hook they are the columns */
    int pairs;            /* channels are pairs of bf16, which are copied from blocks of f32 */
    int native;           /* of pairs: whether the CPU has instructions for them */
    /* Tiles by step - 1, output blocks - 1 and pixels, and those of this convolution. */
    const tile_fn (*families)[MAX_BLOCKS][WIDEST + 1];
    const tile_fn (*tiles)[WIDEST + 1];
    int64_t blocks, units, unit_blocks; /* output blocks of a group, their units, and those of one unit */
    int64_t part;                       /* input channels of a part */
    int64_t row_bands, column_bands;
    int copied;                        /* bands are copied to scratch */
    int flat;                          /* a band of rows is one row of pixels */
    int streamed;                      /* weights do not stay in the L2 cache */
    int64_t row_pitch, plane, x_block; /* of the image or of the copy */
    int64_t row_step;                  /* from the input row of an output row to that of the next */
    int64_t step;                      /* between pixels: columns of the image, 1 of a sorted copy */
    struct tap *taps;
    float *copy, *sums;
};

/* Output pixels [y0, y1) x [x0, x1) of a group of an image. */
struct band {
    int64_t image, group, y0, y1, x0, x1;
    const float *in;
    int64_t at; /* in[at + y * row_step + x * step * lanes] is the first tap of pixel (y, x) */
};

static const float zeros[VL];

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Rows of the window of output row y that lie inside the image. */
GW_INLINE struct taps rows_inside(const struct direct_args *s, int64_t y) {
    return taps_inside(y * s->stride_h - s->pad_top, s->h, s->kh, s->dilation_h);
}

#endif

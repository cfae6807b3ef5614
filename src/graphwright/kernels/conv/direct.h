/* One direct convolution and its bands. */

#ifndef GW_DIRECT_H
#define GW_DIRECT_H

#include "library/hook.h"
#include "library/windows.h"

struct conv {
    struct direct_args s;
    const float *x, *w, *bias, *residual;
    float *y;
    struct hook hook;
    float lo, hi;
    int64_t lanes;        /* channels per input block */
    int64_t group_blocks; /* input blocks of a group, in the layout of x */
    int nhwc;             /* y is channels last; the channels are the columns of the hook */
    int pairs;            /* channels are pairs of bf16, copied from blocks of f32 */
    int native;           /* whether the CPU has instructions for pairs */
    /* Micro-kernels, indexed by step - 1, output blocks - 1 and pixels; and those of this convolution. */
    const tile_fn (*families)[MAX_BLOCKS][WIDEST + 1];
    const tile_fn (*tiles)[WIDEST + 1];
    int64_t blocks, units,
        unit_blocks; /* output blocks of a group, units of a group, and output blocks of one unit */
    int64_t part;    /* input channels per cache block */
    int64_t chain;   /* input channels per partial sum */
    int64_t row_bands, column_bands;
    int copied;                        /* bands are copied to scratch */
    int dilated;                       /* some taps may be in the padding for all pixels of a tile */
    int flat;                          /* the rows of a band are contiguous, and are treated as one row */
    int streamed;                      /* the weights do not fit the L2 cache */
    int64_t row_pitch, plane, x_block; /* of the image or of the copy */
    int64_t row_step;                  /* elements between the input rows of adjacent output rows */
    int64_t tap_rows;                  /* rows of the image, or of the copy, between adjacent rows of taps */
    int64_t step; /* columns between pixels: in the image, or 1 in a copy sorted by remainder */
    struct tap *taps;
    float *copy, *sums;
};

/* Output pixels [y0, y1) x [x0, x1) of one group of one image. */
struct band {
    int64_t image, group, y0, y1, x0, x1;
    const float *in;
    int64_t at; /* in[at + y * row_step + x * step * lanes] is the first tap of pixel (y, x) */
};

static const float zeros[VL];

/* The rows of the window of output row y that are inside the image. */
GW_INLINE struct taps rows_inside(const struct direct_args *s, int64_t y) {
    return taps_inside(y * s->stride_h - s->pad_top, s->h, s->kh, s->dilation_h);
}

#endif

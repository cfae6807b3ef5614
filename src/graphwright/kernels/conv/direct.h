/* One direct convolution, its bands, and which rows of a window lie inside the image. */

#ifndef GW_DIRECT_H
#define GW_DIRECT_H

#include "library/sizes.h"

#include "conv/direct.gen.h"

struct conv {
    struct direct_args s;
    const float *x, *w, *bias, *residual;
    float *y;
    gw_hook hook;
    void *const *hook_buf;
    const int64_t *hook_arg;
    float lo, hi;
    int64_t lanes; /* channels per input block */
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

/* Rows of the window inside the image for output row y: [first, last). */
struct rows {
    int64_t first, last;
};

static struct rows rows_inside(const struct direct_args *s, int64_t y) {
    const int64_t top = y * s->stride_h - s->pad_top;
    struct rows r = {.first = top < 0 ? smaller(s->kh, parts(-top, s->dilation_h)) : 0};
    r.last = top < s->h ? smaller(s->kh, parts(s->h - top, s->dilation_h)) : 0;
    if (r.last < r.first)
        r.last = r.first;
    return r;
}

#endif

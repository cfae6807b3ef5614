/* What the parts of the depthwise convolution of bytes share: see byte_depthwise.py. */

#ifndef GW_BYTE_DEPTHWISE_H
#define GW_BYTE_DEPTHWISE_H

#include "library/hook.h"
#include "library/sizes.h"

#include "byte_conv/byte_depthwise.gen.h"

#include "library/byte_dots.h"

/* How words of neighboring taps are multiplied: two 16-bit integers or, with VNNI, four bytes, both from
 * expanded rows; or, with VBMI, four bytes that are permuted from the image, for vectors of one or several
 * rows. */
enum form { PAIRS, QUADS, PERMUTED_ROW, PERMUTED_ROWS };

/* The outputs of a vector: VL columns of one row; or as many whole rows as fit, if they are shorter. */
struct shape {
    int64_t rows, columns;
};

struct conv {
    struct byte_depthwise_args s;
    const uint8_t *x, *w, *w_zero;
    int32_t *y;
    struct hook hook;
    int64_t columns;      /* of a row of words: whole vectors */
    int64_t rows, blocks; /* output rows per block, and blocks per image */
    int64_t tile_rows;    /* output rows that a hook gets at a time */
    int32_t zero;         /* the zero point of x as u8 */
    int32_t flip;         /* the bits that turn a pixel into u8 */
    struct shape vector;  /* of permuted words */
    enum form form;       /* for signed weights without a zero point; others are pairs */
};

/* The weights of a channel, in words of neighboring taps. */
struct weights {
    const uint32_t *words;
    uint32_t *room; /* for pairs */
    int64_t count;  /* words of a row */
    int32_t start;  /* minus the zero point of x times the sum of the weights */
    enum form form;
};

/* Output rows [first, last) of a channel, and the input rows [begin, end) that they read. */
struct block {
    int64_t image, channel, first, last, begin, end;
};

#endif

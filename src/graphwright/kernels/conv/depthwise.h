/* A band of output rows of a depthwise convolution: depthwise.py generates kernels for the usual windows. */

#ifndef GW_DEPTHWISE_H
#define GW_DEPTHWISE_H

#include "cpu/vector.h"

/* A band of output rows. For row r and column x of the output, tap (i, j) is at planes[(r * stride_h + i *
 * dilation_h) * row_pitch + (j * dilation_w % stride_w) * plane + j * dilation_w / stride_w + x]. */
struct band {
    const float *planes, *w;
    float bias;
    int relu;
    int64_t plane, row_pitch, rows, ow;
    float *to;
    int64_t to_ld;
    const struct depthwise_args *s;
};

GW_INLINE void finish(const struct band *b, int64_t x, vf y, float *to) {
    y += vf_set1(b->bias);
    if (b->relu)
        y = vf_relu(y);
    if (b->ow - x >= VL)
        vf_store(to, y);
    else
        vf_store_n(to, y, b->ow - x);
}

#endif

/* The one-dimensional Winograd transforms. */

#ifndef GW_WINOGRAD_LINES_H
#define GW_WINOGRAD_LINES_H

#include "winograd/winograd.gen.h"

/* Input transform: 6 or 4 points of as many pixels. */
GW_INLINE void input_line(int64_t n, const vf *d, vf *to) {
    if (n == 6) {
        const vf p = d[4] - 2.0f * d[2], q = d[3] - 2.0f * d[1];
        const vf r = d[4] - 0.5f * d[2], s = d[3] - 0.5f * d[1];
        to[0] = d[4] - 2.5f * d[2] + d[0];
        to[1] = d[5] - 2.5f * d[3] + d[1];
        to[2] = p + A * q;
        to[3] = p - A * q;
        to[4] = r + B * s;
        to[5] = r - B * s;
    } else {
        to[0] = d[2] - 0.5f * d[0];
        to[1] = d[3] - 0.5f * d[1];
        to[2] = d[2] + A * d[1];
        to[3] = d[2] - A * d[1];
    }
}

/* Output transform: 4 pixels of 6 points, or 2 of 4. */
GW_INLINE void output_line(int64_t n, const vf *d, vf *to) {
    if (n == 6) {
        const vf p = -2 / 3.0f * (d[2] + d[3]), q = -2 / 3.0f * A * (d[2] - d[3]);
        const vf r = 1 / 6.0f * (d[4] + d[5]), s = 1 / 6.0f * B * (d[4] - d[5]);
        to[0] = d[0] + p + r;
        to[1] = q + s;
        to[2] = 0.5f * p + 2.0f * r;
        to[3] = 0.5f * q + (2.0f * s + d[1]);
    } else {
        to[0] = d[2] + d[3] - 2.0f * d[0];
        to[1] = A * (d[2] - d[3]) + d[1];
    }
}

#endif

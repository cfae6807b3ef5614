/* Stores channel blocks as planes; the including file defines `transpose` before. */

#ifndef GW_UNBLOCK_ROW_H
#define GW_UNBLOCK_ROW_H

#include "library/sizes.h"

/* plain[c][i] = blocked[i][c] for n pixels of 1 <= channels <= VL channels. */
static void unblock_row(float *plain, int64_t plain_c, float *blocked, int64_t channels, int64_t n) {
    if (n < VL) {
        float part[VL * VL] __attribute__((aligned(64)));
        if (n == 1 && plain_c == 1) {
            vf_store_n(plain, vf_load_n(blocked, channels), channels);
            return;
        }
        transpose(blocked, VL, n, channels, part, VL);
        for (int64_t c = 0; c < channels; c++)
            vf_store_n(plain + c * plain_c, vf_load(part + c * VL), n);
        return;
    }
    for (int64_t i = 0; i < n; i += VL) {
        const int64_t at = smaller(i, n - VL);
        transpose(blocked + at * VL, VL, VL, channels, plain + at, plain_c);
    }
}

#endif

/* Copies of f32 elements; the including file's header defines strided_4 (strided.py). */

#ifndef GW_SCALARS_H
#define GW_SCALARS_H

#include "library/sizes.h"

/* to[i] = from[i * step] */
static void copy_scalars(const float *from, int64_t step, int64_t n, float *to) {
    if (step == 1) {
        copy_row(from, n, to);
        return;
    }
    if (strided_4((char *)to, (const char *)from, step * 4, n))
        return;
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i * step];
}

#endif

/* Copies of f32 elements; the including file's header defines pick_STEP_4 (strided.py). */

#ifndef GW_SCALARS_H
#define GW_SCALARS_H

#include "library/sizes.h"

/* to[i] = from[i * step] */
static void copy_scalars(const float *from, int64_t step, int64_t n, float *to) {
    if (step == 1) {
        copy_row(from, n, to);
        return;
    }
    if (step >= 2 && step <= 4) {
        static void (*const pick[])(char *, const char *, int64_t) = {pick_2_4, pick_3_4, pick_4_4};
        pick[step - 2]((char *)to, (const char *)from, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i * step];
}

#endif

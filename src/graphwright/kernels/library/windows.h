/* Which taps of a window lie inside an axis. */

#ifndef GW_WINDOWS_H
#define GW_WINDOWS_H

#include "library/sizes.h"

/* Taps [first, last) of a window; none where both are equal. */
struct taps {
    int64_t first, last;
};

/* Those of a window whose tap 0 stands at `at`, maybe outside, that lie inside [0, size). */
GW_INLINE struct taps taps_inside(int64_t at, int64_t size, int64_t kernel, int64_t dilation) {
    struct taps t = {.first = at < 0 ? smaller(kernel, parts(-at, dilation)) : 0};
    t.last = at < size ? smaller(kernel, parts(size - at, dilation)) : 0;
    if (t.last < t.first)
        t.last = t.first;
    return t;
}

#endif

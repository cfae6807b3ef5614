/* The taps of a window that are inside an axis. */

#ifndef GW_WINDOWS_H
#define GW_WINDOWS_H

#include "library/sizes.h"

/* Taps [first, last) of a window; empty if both are equal. */
struct taps {
    int64_t first, last;
};

/* The taps inside [0, size) of a window whose tap 0 is at `at`, which may be outside. */
GW_INLINE struct taps taps_inside(int64_t at, int64_t size, int64_t kernel, int64_t dilation) {
    struct taps t = {.first = at < 0 ? smaller(kernel, ceildiv(-at, dilation)) : 0};
    t.last = at < size ? smaller(kernel, ceildiv(size - at, dilation)) : 0;
    if (t.last < t.first)
        t.last = t.first;
    return t;
}

#endif

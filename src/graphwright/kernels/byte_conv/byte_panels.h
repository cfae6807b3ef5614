/* Panels of interleaved pixels: see byte_interleave.py. */

#ifndef GW_BYTE_PANELS_H
#define GW_BYTE_PANELS_H

#include "library/sizes.h"

typedef uint32_t quad; /* four channels of a pixel */

/* The pixels of an image are cut into vectors, and these into panels; the last up to REST pixels may be in no
 * vector. */
struct panels {
    int64_t pixels, vectors, count;
};

static struct panels panels_of(int64_t pixels) {
    const int64_t vectors = (pixels + VL - 1 - REST) / VL, count = ceildiv(vectors * VL, NR);
    return (struct panels){pixels, vectors, count + (!count && pixels)};
}

/* The first pixel of panel p; panels get nearly equal numbers of vectors. */
GW_INLINE int64_t pixel_of(const struct panels *s, int64_t p) {
    return smaller(part_begin(s->vectors, p, s->count) * VL, s->pixels);
}

/* The pixels of a panel: those of its vectors, and the rest of the image, which no vector has. */
struct columns {
    int64_t at, cols, rest;
};

GW_INLINE struct columns columns_of(const struct panels *s, int64_t p) {
    const int64_t at = pixel_of(s, p), end = pixel_of(s, p + 1);
    return (struct columns){at, end - at, p + 1 == s->count ? s->pixels - end : 0};
}

#endif

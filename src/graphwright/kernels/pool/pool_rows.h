/* The output rows of pooling, and the taps of their windows. It follows a header with struct pool_args. */

#ifndef GW_POOL_ROWS_H
#define GW_POOL_ROWS_H

#include "library/windows.h"

enum { D, H, W };

/* The taps of output position o that are inside the axis. */
GW_INLINE struct taps taps_of(const struct pool_args *t, int axis, int64_t o) {
    return taps_inside(o * t->stride[axis] - t->before[axis], t->size[axis], t->kernel[axis],
                       t->dilation[axis]);
}

/* The position of an output row. */
struct position {
    int64_t n, c, d, h;
};

GW_INLINE struct position position_of(const struct pool_args *t, int64_t row) {
    struct position p;
    p.h = row % t->out[H];
    row /= t->out[H];
    p.d = row % t->out[D];
    row /= t->out[D];
    p.c = row % t->channels;
    p.n = row / t->channels;
    return p;
}

GW_INLINE void next_position(const struct pool_args *t, struct position *p) {
    if (++p->h < t->out[H])
        return;
    p->h = 0;
    if (++p->d < t->out[D])
        return;
    p->d = 0;
    if (++p->c < t->channels)
        return;
    p->c = 0;
    p->n++;
}

/* Where an output row begins, in elements. */
GW_INLINE int64_t output_at(const struct pool_args *t, const struct position *p) {
    return p->n * t->ys[0] + p->c * t->ys[1] + p->d * t->ys[2] + p->h * t->ys[3];
}

#endif

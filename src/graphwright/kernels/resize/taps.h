/* The taps of an output position along one axis, for each mode. */

#ifndef GW_RESIZE_TAPS_H
#define GW_RESIZE_TAPS_H

#include "library/templates.h"

/* floor by comparison, which depends on no rounding mode and no library. A tiny or NaN scale gives
 * coordinates beyond int64: x is clamped to a range in which taps can be added and the sign changed. */
static int64_t floor_of(double x) {
    x = x > -0x1p62 ? x : -0x1p62; /* also replaces NaN */
    x = x < 0x1p62 ? x : 0x1p62;
    int64_t i = (int64_t)x;
    return i - ((double)i > x);
}
static int64_t clamp_index(int64_t i, int64_t n) { return i < 0 ? 0 : i < n ? i : n - 1; }

#define T float
#include "resize/coordinate_of.h"
#undef T
#define T double
#include "resize/coordinate_of.h"
#undef T

/* The taps of output o: input indices, clamped to the axis, and weights. */
static void taps_nearest(const sampling *t, const axis *a, int64_t o, int64_t *index, float *weight) {
    double x = (double)coordinate_float(t, a, o); /* ties are decided with f32 scales: 3 / (1/3) is 9 */
    int64_t i = floor_of(x);
    if (t->rounding == ROUND_PREFER_FLOOR)
        i = -floor_of(0.5 - x); /* ceil(x - 0.5) */
    if (t->rounding == ROUND_PREFER_CEIL)
        i = floor_of(x + 0.5);
    if (t->rounding == CEIL)
        i = -floor_of(-x);
    index[0] = clamp_index(i, a->in);
    weight[0] = 1.0f;
}

static void taps_linear(const sampling *t, const axis *a, int64_t o, int64_t *index, float *weight) {
    double x = coordinate_double(t, a, o), last = (double)(a->in - 1);
    x = x < 0.0 ? 0.0 : x > last ? last : x;
    int64_t i = floor_of(x);
    index[0] = clamp_index(i, a->in); /* a NaN scale must not index outside x */
    index[1] = clamp_index(index[0] + 1, a->in);
    weight[1] = (float)(x - (double)i);
    weight[0] = 1.0f - weight[1];
}

static void taps_cubic(const sampling *t, const axis *a, int64_t o, int64_t *index, float *weight) {
    double x = coordinate_double(t, a, o), k = t->cubic_a, sum = 0.0, w[4];
    int64_t i = floor_of(x);
    for (int j = 0; j < 4; j++) {
        double d = x - (double)(i - 1 + j); /* the distance from tap j */
        d = d < 0.0 ? -d : d;
        w[j] = d <= 1.0 ? ((k + 2.0) * d - (k + 3.0)) * d * d + 1.0
                        : ((k * d - 5.0 * k) * d + 8.0 * k) * d - 4.0 * k;
        index[j] = clamp_index(i - 1 + j, a->in);
        if (t->exclude_outside && index[j] != i - 1 + j)
            w[j] = 0.0;
        sum += w[j];
    }
    for (int j = 0; j < 4; j++)
        weight[j] = (float)(t->exclude_outside ? w[j] / sum : w[j]);
}

#endif

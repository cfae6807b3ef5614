/* Samples of images at points: see grid_sample.py. */

#include "library/lanes.h"
#include "library/sizes.h"

#include "resize/grid_sample.gen.h"

enum { MOST_TAPS = 4 };

/* p[index] of each lane. */
GW_INLINE vf gather(const float *p, vi index) {
    vf y = {0};
#if VL == 16
    __asm__("kxnorw %%k1, %%k1, %%k1\n\tvgatherdps (%1,%2,4), %0%{%%k1%}"
            : "+&v"(y)
            : "r"(p), "v"(index)
            : "k1", "memory");
#else
    vi all = vi_set1(-1);
    __asm__("vgatherdps %1, (%2,%3,4), %0" : "+&x"(y), "+&x"(all) : "r"(p), "x"(index) : "memory");
#endif
    return y;
}

/* The pixels of an axis that samples read, and their weights. */
struct taps {
    vi position[MOST_TAPS];
    vf weight[MOST_TAPS];
};

/* Positions on an axis of `size` pixels; points are in [-1, 1]. */
GW_INLINE vf positions_of(vf point, int64_t size, int64_t aligned) {
    const vf limit = vf_set1(MAX_COORDINATE);
    vf at;
    if (aligned) {
        at = (point + 1) / 2 * (float)(size - 1);
    } else {
        vf scaled = (point + 1) * (float)size;
        __asm__("" : "+v"(scaled)); /* the product is rounded, as the nearest pixel depends on it */
        at = (scaled - 1) / 2;
    }
    return vf_min(vf_max(at, -limit), limit);
}

GW_INLINE vf cubic_weight(vf d) {
    const float a = CUBIC_A;
    const vf near = ((a + 2) * d - (a + 3)) * d * d + 1, far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
    return vf_select(d <= 1, near, far);
}

/* Mirrors positions outside of the image, at the centers or the edges of its outer pixels. */
static vi reflected(vi position, int32_t size, int64_t aligned) {
    const int32_t period = aligned ? 2 * size - 2 : 2 * size, mirror = aligned ? period : period - 1;
    int32_t lane[VL];
    memcpy(lane, &position, sizeof lane);
    for (int l = 0; l < VL; l++) {
        if (lane[l] >= 0 && lane[l] < size)
            continue;
        const int32_t rest = period ? lane[l] % period : 0, at = rest < 0 ? rest + period : rest;
        lane[l] = at < mirror - at ? at : mirror - at;
    }
    return vi_load(lane);
}

GW_INLINE struct taps taps_of(vf point, int64_t size, const struct grid_sample_args *a, const int MODE) {
    const int TAPS = MODE == NEAREST ? 1 : MODE == LINEAR ? 2 : 4;
    const vf at = positions_of(point, size, a->aligned);
    vi first = __builtin_convertvector(at, vi);
    first += __builtin_convertvector(first, vf) > at; /* rounds down */
    const vf fraction = at - __builtin_convertvector(first, vf);
    struct taps found;
    if (MODE == NEAREST)
        first -= (fraction > 0.5f) | ((fraction == 0.5f) & ((first & 1) != 0));
    for (int k = 0; k < TAPS; k++) {
        const int32_t offset = MODE == CUBIC ? k - 1 : k;
        const vf distance = offset > 0 ? (float)offset - fraction : fraction - (float)offset;
        vi position = first + offset;
        vf weight = vf_set1(1);
        if (MODE != NEAREST)
            weight = MODE == LINEAR ? 1 - distance : cubic_weight(distance);
        if (a->padding == ZEROS)
            weight = (vf)((vi)weight & (position >= 0) & (position < (int32_t)size));
        else if (a->padding == REFLECTION)
            position = reflected(position, (int32_t)size, a->aligned);
        const vi last = vi_set1((int32_t)size - 1);
        position = vi_select(position < last, position, last);
        found.position[k] = vi_select(position > 0, position, (vi){0});
        found.weight[k] = weight;
    }
    return found;
}

/* The pixels of a unit, and their weights. */
struct samples {
    vi index[MOST_TAPS * MOST_TAPS][UNIT / VL];
    vf weight[MOST_TAPS * MOST_TAPS][UNIT / VL];
};

/* Samples n points of an image. */
GW_INLINE void sample_unit(const struct grid_sample_args *a, const float *x, const float *points, int64_t n,
                           float *y, const int MODE) {
    const int TAPS = MODE == NEAREST ? 1 : MODE == LINEAR ? 2 : 4;
    struct samples s;
    for (int64_t v = 0; v * VL < n; v++) {
        const int64_t left = 2 * (n - v * VL), low = smaller(VL, left), high = smaller(VL, left - low);
        const vf p = vf_load_n(points + 2 * v * VL, low);
        const vf q = high ? vf_load_n(points + (2 * v + 1) * VL, high) : (vf){0};
        const struct taps columns = taps_of(__builtin_shufflevector(p, q, LANES(EVEN)), a->width, a, MODE);
        const struct taps rows = taps_of(__builtin_shufflevector(p, q, LANES(ODD)), a->height, a, MODE);
        for (int k = 0; k < TAPS * TAPS; k++) {
            s.index[k][v] = rows.position[k / TAPS] * (int32_t)a->width + columns.position[k % TAPS];
            s.weight[k][v] = rows.weight[k / TAPS] * columns.weight[k % TAPS];
        }
    }
    for (int64_t c = 0; c < a->channels; c++, x += a->height * a->width, y += a->points)
        for (int64_t v = 0; v * VL < n; v++) {
            vf total = {0};
            for (int k = 0; k < TAPS * TAPS; k++) {
                const vf weight = s.weight[k][v], pixels = gather(x, s.index[k][v]);
                const vf product = MODE == NEAREST ? pixels : weight * pixels;
                total += (vf)((vi)product & (weight != 0)); /* infinite pixels without weight */
            }
            vf_store_n(y + v * VL, total, smaller(VL, n - v * VL));
        }
}

GW_KERNEL(gw_grid_sample_f32) {
    (void)scratch;
    const struct grid_sample_args *a = grid_sample_args(arg);
    const int64_t units = ceildiv(a->points, UNIT);
    for (int64_t index = begin; index < end; index++) {
        const int64_t image = index / units, first = index % units * UNIT,
                      n = smaller(UNIT, a->points - first);
        const float *x = (const float *)buf[GRID_SAMPLE_X] + image * a->channels * a->height * a->width;
        const float *points = (const float *)buf[GRID_SAMPLE_GRID] + 2 * (image * a->points + first);
        float *y = (float *)buf[GRID_SAMPLE_Y] + image * a->channels * a->points + first;
        switch (a->mode) {
        case NEAREST: sample_unit(a, x, points, n, y, NEAREST); break;
        case LINEAR: sample_unit(a, x, points, n, y, LINEAR); break;
        default: sample_unit(a, x, points, n, y, CUBIC);
        }
    }
    return 0;
}

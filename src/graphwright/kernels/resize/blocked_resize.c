/* Resize in channel-blocked layouts: see blocked_resize.py. */

#include "resize/blocked_resize.gen.h"

#include "library/bits.h"
#include "library/sizes.h"
#include "resize/taps.h"

static axis axis_of(int64_t in, int64_t out, int64_t scale) {
    const double given = double_of(scale);
    return (axis){in, out, given != 0.0 ? given : (double)out / (double)in};
}

/* The weighted sum over the taps of a row. */
GW_INLINE vf row_sum(const float *row, const int64_t *offset, const float *weight, int taps) {
    vf sum = vf_load(row + offset[0]) * vf_set1(weight[0]);
#pragma GCC unroll 4
    for (int k = 1; k < taps; k++)
        sum = vf_fma(vf_load(row + offset[k]), vf_set1(weight[k]), sum);
    return sum;
}

/* An output pixel: the weighted sum over rows and taps. */
GW_INLINE vf pixel(const float *const *row, const float *row_weight, const int64_t *offset,
                   const float *weight, int taps) {
    if (taps == 1)
        return vf_load(row[0] + offset[0]);
    vf total = row_sum(row[0], offset, weight, taps) * vf_set1(row_weight[0]);
#pragma GCC unroll 4
    for (int i = 1; i < taps; i++)
        total = vf_fma(row_sum(row[i], offset, weight, taps), vf_set1(row_weight[i]), total);
    return total;
}

#define KERNEL gw_resize_nearest_blocked_f32
#define MODE nearest
#define TAPS 1
#include "resize/blocked_resize_of.h"
#undef MODE
#undef KERNEL
#undef TAPS

#define KERNEL gw_resize_linear_blocked_f32
#define MODE linear
#define TAPS 2
#include "resize/blocked_resize_of.h"
#undef MODE
#undef KERNEL
#undef TAPS

#define KERNEL gw_resize_cubic_blocked_f32
#define MODE cubic
#define TAPS 4
#include "resize/blocked_resize_of.h"
#undef MODE
#undef KERNEL
#undef TAPS

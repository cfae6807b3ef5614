/* Resizing: see resize.py. */

#include "resize/resize.gen.h"

#include "library/lanes.h"
#include "resize/taps.h"

GW_INLINE void copy_line(float *to, const float *from, int64_t n) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(to + i, vf_load(from + i));
    if (i < n)
        vf_store_n(to + i, vf_load_n(from + i, n - i), n - i);
}

#define KERNEL gw_resize_nearest_f32
#define MODE nearest
#define TAPS 1
#include "resize/resize_of.h"
#undef MODE
#undef KERNEL
#undef TAPS

#define KERNEL gw_resize_linear_f32
#define MODE linear
#define TAPS 2
#include "resize/resize_of.h"
#undef MODE
#undef KERNEL
#undef TAPS

#define KERNEL gw_resize_cubic_f32
#define MODE cubic
#define TAPS 4
#include "resize/resize_of.h"
#undef MODE
#undef KERNEL
#undef TAPS

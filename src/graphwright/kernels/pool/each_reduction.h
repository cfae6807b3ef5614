/* Includes the file TEMPLATE for maxima and for averages, which are sums at first: OP is the name, COMBINE
 * the function of two vectors, and IDENTITY its identity. */

#include "library/windows.h"

/* The larger one, NaN if either is NaN: the instruction returns b if one is NaN, so only a needs a test. */
GW_INLINE vf vf_larger(vf a, vf b) {
    vf r;
    __asm__("vmaxps %2, %1, %0" : "=v"(r) : "v"(a), "v"(b));
    return vf_select(a != a, a, r);
}
GW_INLINE vf vf_add(vf a, vf b) { return a + b; }

/* The divisor of an average over a window at `at`: the taps inside the image, or also those in the `after`
 * elements of padding that follow it; 1 if there is none, since the sum is 0 then. */
GW_INLINE int64_t divisor_of(int64_t at, int64_t size, int64_t kernel, int64_t dilation, int64_t after,
                             int64_t include_pad) {
    if (!include_pad) {
        const struct taps inside = taps_inside(at, size, kernel, dilation);
        return inside.last > inside.first ? inside.last - inside.first : 1;
    }
    return at < size + after ? smaller(ceildiv(size + after - at, dilation), kernel) : 1;
}

#define OP max
#define IDENTITY -__builtin_inff()
#define COMBINE vf_larger
#include TEMPLATE
#undef OP
#undef IDENTITY
#undef COMBINE
#define OP average
#define IDENTITY 0.0f
#define COMBINE vf_add
#include TEMPLATE
#undef OP
#undef IDENTITY
#undef COMBINE
#undef TEMPLATE

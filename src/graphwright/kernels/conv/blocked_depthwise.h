/* An output row of a depthwise convolution: blocked_depthwise.py generates the micro-kernels. */

#ifndef GW_BLOCKED_DEPTHWISE_H
#define GW_BLOCKED_DEPTHWISE_H

#include "cpu/vector.h"

/* One output row: for pixel o, tap j of row i is at rows[i] + o * step - left + j * tap. */
struct row {
    const float *const *rows;
    const float *w;
    int64_t taps, kw, step, left, tap;
    vf bias, lo, hi;
    const float *add;
    float *to;
    int64_t act;
};
typedef void (*tile_fn)(const struct row *r, int64_t ox);

/* Both return x if it is NaN: the instructions return their second source in that case. */
GW_INLINE vf at_least(vf lo, vf x) {
    __asm__("vmaxps %0, %1, %0" : "+v"(x) : "v"(lo));
    return x;
}
GW_INLINE vf at_most(vf hi, vf x) {
    __asm__("vminps %0, %1, %0" : "+v"(x) : "v"(hi));
    return x;
}
/* Keeps x in a register from here on. GCC would otherwise move the load to every use, and join the FMAs of
 * each sum into one dependent chain. */
#define HOLD(x) __asm__("" : "+v"(x))
#define ADD(c, a, b)                                                                                         \
    do {                                                                                                     \
        c = vf_fma(a, b, c);                                                                                 \
        HOLD(c);                                                                                             \
    } while (0)

#endif

/* Helpers of the micro-kernels that attention.py generates. */

#ifndef GW_ATTENTION_REGISTERS_H
#define GW_ATTENTION_REGISTERS_H

#include "library/assembly.h"

/* The larger element of each lane; b if one is NaN. */
GW_INLINE vf vf_larger(vf a, vf b) {
    vf y;
    __asm__("vmaxps %2, %1, %0" : "=" VECTOR_REGISTER(y) : VECTOR_REGISTER(a), VECTOR_REGISTER(b));
    return y;
}

#if VL == 16
/* x - floor(x), 0 for infinity. */
GW_INLINE vf vf_fraction(vf x) {
    vf y;
    __asm__("vreduceps $9, %1, %0" : "=v"(y) : "v"(x));
    return y;
}
#endif

/* Keeps broadcasts in program order: GCC would hoist them, and then the accumulators no longer fit the
 * registers. */
#define BROADCAST(x, p) __asm__ volatile("vbroadcastss %1, %0" : "=" VECTOR_REGISTER(x) : "m"(p))
#define ACCUMULATE(c, a, b)                                                                                  \
    __asm__ volatile("vfmadd231ps %1, %2, %0"                                                                \
                     : "+" VECTOR_REGISTER(c)                                                                \
                     : VECTOR_REGISTER(a), VECTOR_REGISTER(b))

#endif

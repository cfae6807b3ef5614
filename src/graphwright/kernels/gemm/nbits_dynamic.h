/* Quantizes rows of A to bytes: nbits_dynamic.py generates the products. */

#ifndef GW_GEMM_NBITS_DYNAMIC_H
#define GW_GEMM_NBITS_DYNAMIC_H

#include <float.h>

#include "gemm/nbits.h"
#include "library/sizes.h"

typedef int8_t vb16 __attribute__((vector_size(16)));
typedef vb16 vb16_any __attribute__((aligned(1), may_alias));
typedef int8_t vb_lanes __attribute__((vector_size(VL)));

/* Rounds numbers whose magnitude is below 2**22: the sum with 1.5 * 2**23 ends in the bits of the integer. */
GW_INLINE vi to_integers(vf x) {
    const float shift = 0x1.8p23f;
    return (vi)(x + shift) - (vi)vf_set1(shift);
}

/* The bytes of x at the positions in `order`. */
GW_INLINE vb16 permuted(vb16 x, vb16 order) {
    vb16 y;
    __asm__("vpshufb %2, %1, %0" : "=v"(y) : "v"(x), "v"(order));
    return y;
}

GW_INLINE vf load_or_zero(const float *p, int64_t n) { return n > 0 ? load_most(p, n) : (vf){0}; }

/* Quantizes 16 numbers, of which n exist, and adds their bytes to *sums. */
GW_INLINE vb16 bytes_of(const float *x, int64_t n, float factor, vi *sums) {
    const vi low = to_integers(load_or_zero(x, n) * factor);
    *sums += low;
#if VL == 16
    return __builtin_convertvector(low, vb_lanes);
#else
    const vi high = to_integers(load_or_zero(x + VL, n - VL) * factor);
    *sums += high;
    return __builtin_shufflevector(__builtin_convertvector(low, vb_lanes),
                                   __builtin_convertvector(high, vb_lanes), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
                                   11, 12, 13, 14, 15);
#endif
}

/* Quantizes a row of A. Returns whether all numbers are finite; if not, the result is not valid. */
static int quantize_row(const struct codes *q, const float *a, int64_t k, const int8_t *order, uint8_t *to,
                        float *scales, float *sums) {
    const vb16 from = *(const vb16_any *)order;
    vf odd = {0}; /* NaN if a number is not finite */
    for (int64_t b = 0; b < q->blocks; b++, a += q->block) {
        const int64_t count = smaller(q->block, k - b * q->block);
        vf most = {0};
        for (int64_t j = 0; j < count; j += VL) {
            const vf x = load_most(a + j, count - j), size = (vf)((vi)x & 0x7fffffff);
            odd += x - x;
            most = vf_select(size > most, size, most);
        }
        float largest = 0;
        for (int i = 0; i < VL; i++)
            largest = most[i] > largest ? most[i] : largest;
        if (largest < FLT_MIN * BYTE_MOST) /* its quotient would be infinite */
            largest = 0;
        const float factor = largest > 0 ? BYTE_MOST / largest : 0;
        vi total = {0};
        for (int64_t j = 0; j < q->block; j += 16, to += 16)
            *(vb16_any *)to = permuted(bytes_of(a + j, count - j, factor, &total), from);
        int32_t sum = 0;
        for (int i = 0; i < VL; i++)
            sum += total[i];
        scales[b] = largest / BYTE_MOST;
        sums[b] = (float)sum;
    }
    return vf_sum(odd) == 0;
}

#endif

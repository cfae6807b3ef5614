/* Pairs of bf16 in the 32 bits of an f32; the first number is in the low half. Multiplying a pair of a row by
 * a pair of a column adds two products to an f32 sum: with AVX512-BF16 in one instruction, which flushes
 * subnormal numbers to 0, else by two FMAs. */

#ifndef GW_PAIRS_H
#define GW_PAIRS_H

#include "library/features.h"
#include "library/sizes.h"

typedef uint32_t vw __attribute__((vector_size(4 * VL)));
typedef uint16_t vh __attribute__((vector_size(2 * VL)));
typedef uint16_t vh_any __attribute__((vector_size(2 * VL), aligned(1), may_alias));

GW_INLINE vf lower_half(vf x) { return (vf)((vw)x << 16); }
GW_INLINE vf upper_half(vf x) { return (vf)((vw)x & 0xffff0000u); }
GW_INLINE vf widened(const uint16_t *p) {
    return (vf)(__builtin_convertvector(*(const vh_any *)p, vw) << 16);
}

/* Rounds to the nearest bf16, ties to even; NaN stays NaN. */
GW_INLINE vh rounded_exactly(vf x) {
    const vw bits = (vw)x, nan = (vw)(x != x);
    const vw up = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return __builtin_convertvector((up & ~nan) | ((bits >> 16 | 0x40) & nan), vh);
}
#if VL == 16
GW_INLINE vh rounded(vf x, int native) {
    if (!native)
        return rounded_exactly(x);
    vh y;
    __asm__("vcvtneps2bf16 %1, %0" : "=v"(y) : "v"(x));
    return y;
}
#else
GW_INLINE vh rounded(vf x, int native) {
    (void)native;
    return rounded_exactly(x);
}
#endif

/* Rounds with AVX512-BF16. */
#define ACCUMULATE_PAIRS(c, a, b) __asm__ volatile("vdpbf16ps %1, %2, %0" : "+v"(c) : "v"(a), "v"(b))

/* An operand of bf16, or of f32 that is rounded when it is read; offsets are in elements. */
struct numbers {
    const void *at;
    int single, native; /* single: the operand is f32; native: the CPU has AVX512-BF16 */
};

/* The first n of VL numbers, padded with zeros. */
GW_INLINE vf numbers_at(const struct numbers *x, int64_t offset, int64_t n) {
    if (x->single)
        return load_most((const float *)x->at + offset, n);
    const uint16_t *p = (const uint16_t *)x->at + offset;
    if (n >= VL)
        return widened(p);
    uint16_t last[VL] = {0};
    memcpy(last, p, (size_t)n * sizeof *last);
    return widened(last);
}

GW_INLINE uint16_t number_at(const struct numbers *x, int64_t offset, float factor) {
    if (!x->single && factor == 1)
        return ((const uint16_t *)x->at)[offset];
    return rounded(vf_set1(factor) * numbers_at(x, offset, 1), x->native)[0];
}

#endif

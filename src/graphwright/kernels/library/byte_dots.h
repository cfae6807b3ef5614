/* Dot products of vectors of bytes and of 16-bit integers, and their zero points. */

#ifndef GW_BYTE_DOTS_H
#define GW_BYTE_DOTS_H

#include "cpu/vector.h"

/* The attribute of functions that multiply bytes with AVX512-VNNI. */
#if VL == 16
#define VNNI_TARGET __attribute__((target("avx512vnni")))
#else
#define VNNI_TARGET
#endif

typedef int16_t vs __attribute__((vector_size(sizeof(vi))));
typedef uint16_t vu __attribute__((vector_size(sizeof(vi))));
typedef uint32_t vq __attribute__((vector_size(sizeof(vi))));

/* Dot products of unsigned with signed bytes, two for each 16 bits. */
GW_INLINE vs dots_16(vi unsigned_, vi signed_) {
    vs y;
    __asm__("vpmaddubsw %2, %1, %0" : "=v"(y) : "v"(unsigned_), "v"(signed_));
    return y;
}

/* c += dot products of unsigned with signed bytes; DOT_AT broadcasts one quad at p to all lanes. */
#define DOT(c, unsigned_, signed_) __asm__("vpdpbusd %2, %1, %0" : "+v"(c) : "v"(unsigned_), "v"(signed_))
#define DOT_AT(c, unsigned_, p)                                                                              \
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(c) : "v"(unsigned_), "m"(*(const struct quad_bytes *)(p)))
struct quad_bytes {
    uint8_t x[4];
};

GW_INLINE uint32_t quad_at(const uint8_t *p) {
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}
GW_INLINE vi quad_all(const uint8_t *p) { return (vi)(quad_at(p) - (vq){0}); }
GW_INLINE vi pairs_dot(vs a, vs b) {
    vi c;
    __asm__("vpmaddwd %2, %1, %0" : "=v"(c) : "v"(a), "v"(b));
    return c;
}

GW_INLINE vi quads_at(const uint8_t *p) {
    vi x;
    memcpy(&x, p, sizeof x);
    return x;
}
/* a + b with wraparound, as an instruction: in C, signed overflow is undefined, and the compiler reorders
 * unsigned sums so that they take 1.3 times as long. */
GW_INLINE vi wrapping_sum(vi a, vi b) {
    __asm__("vpaddd %1, %0, %0" : "+v"(a) : "v"(b));
    return a;
}
/* Widens even and odd bytes to 16 bits. */
GW_INLINE vs even_unsigned(vi x) { return (vs)((vu)x & 0xff); }
GW_INLINE vs odd_unsigned(vi x) { return (vs)((vu)x >> 8); }
GW_INLINE vs even_signed(vi x) { return (vs)((vu)x << 8) >> 8; }
GW_INLINE vs odd_signed(vi x) { return (vs)x >> 8; }
/* The sum of the lanes, by halves and with wraparound. */
GW_INLINE uint32_t lanes_sum(vi x) {
    typedef uint32_t half4 __attribute__((vector_size(16)));
#if VL == 16
    typedef uint32_t half8 __attribute__((vector_size(32)));
    const vq y = (vq)x;
    const half8 x8 = __builtin_shufflevector(y, y, 0, 1, 2, 3, 4, 5, 6, 7) +
                     __builtin_shufflevector(y, y, 8, 9, 10, 11, 12, 13, 14, 15);
#else
    const vq x8 = (vq)x;
#endif
    const half4 x4 =
        __builtin_shufflevector(x8, x8, 0, 1, 2, 3) + __builtin_shufflevector(x8, x8, 4, 5, 6, 7);
    return x4[0] + x4[2] + (x4[1] + x4[3]);
}

/* A zero point in the number format of the products: shifted by `moved` if its operand is shifted. */
GW_INLINE int32_t zero_at(const uint8_t *zero, int64_t i, int64_t is_signed, int moved) {
    if (!zero)
        return moved;
    return (is_signed ? (int32_t)(int8_t)zero[i] : (int32_t)zero[i]) + moved;
}

/* Sums the bytes of each quad. */
GW_INLINE vi quad_sums(vi x) {
    const vs one = (vs){0} + 1;
    return pairs_dot(even_unsigned(x), one) + pairs_dot(odd_unsigned(x), one);
}

struct bytes {
    uint8_t x[VL];
};

/* VL bytes, one in each lane. */
GW_INLINE vq spread(const uint8_t *p) {
    vq x;
    __asm__("vpmovzxbd %1, %0" : "=v"(x) : "m"(*(const struct bytes *)(const void *)p));
    return x;
}

/* In each 128 bits of x, the bytes that `order` names; 0 where its highest bit is set. */
GW_INLINE vi bytes_in_order(vi x, vi order) {
    __asm__("vpshufb %1, %0, %0" : "+v"(x) : "v"(order));
    return x;
}

#endif

/* Dot products of vectors of bytes and of 16-bit integers. */

#ifndef GW_BYTE_DOTS_H
#define GW_BYTE_DOTS_H

#include "cpu/vector.h"

typedef int16_t vs __attribute__((vector_size(sizeof(vi))));
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

#endif

/* B quantized to codes of 2, 4 or 8 bits: nbits.py generates the decoders. */

#ifndef GW_GEMM_NBITS_H
#define GW_GEMM_NBITS_H

#include "library/byte_dots.h"
#include "library/features.h"

/* B as codes. width: 0, 1, 2 for codes of 2, 4, 8 bits. Codes of 8 bits are bytes, ordered by panel and k. */
struct codes {
    const int32_t *words;
    const float *scales;
    const void *zeros;
    int64_t width, block, blocks, panel_words, floats, dynamic;
};

/* Rows of A, quantized to bytes, `pitch` apart. For each row and block of K, its numbers are its bytes times
 * a scale; sums are those of the bytes. */
struct byte_rows {
    uint8_t *bytes;
    float *scales, *sums;
    int64_t pitch;
};

typedef uint8_t vb_any __attribute__((vector_size(VL), aligned(1), may_alias));

/* The zero points of VL columns; all of them are `middle` if the weights have none. */
GW_INLINE vf zeros_or(const struct codes *q, int64_t at, float middle) {
    if (!q->zeros)
        return vf_set1(middle);
    if (q->floats)
        return vf_load((const float *)q->zeros + at);
    vi y;
    __asm__("vpmovzxbd %1, %0" : "=v"(y) : "m"(*(const vb_any *)((const uint8_t *)q->zeros + at)));
    return __builtin_convertvector(y, vf);
}

/* The zero points of VL columns minus `middle`. */
GW_INLINE vf zeros_at(const struct codes *q, int64_t at, float middle) {
    return zeros_or(q, at, middle) - middle;
}

/* Loads signed bytes as lanes. */
GW_INLINE vf byte_numbers(const int8_t *p) {
    vi y;
    __asm__("vpmovsxbd %1, %0" : "=v"(y) : "m"(*(const vb_any *)p));
    return __builtin_convertvector(y, vf);
}

#endif

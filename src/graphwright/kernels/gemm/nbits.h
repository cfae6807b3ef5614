/* B quantized to codes of 2, 4 or 8 bits: nbits.py generates the decoders. */

#ifndef GW_GEMM_NBITS_H
#define GW_GEMM_NBITS_H

#include "cpu/vector.h"
#include "library/pairs.h"

/* B as codes. width: 0, 1, 2 for codes of 2, 4, 8 bits. Codes of 8 bits are bytes, ordered by panel and k. */
struct codes {
    const int32_t *words;
    const float *scales;
    const void *zeros;
    int64_t width, block, blocks, panel_words, floats, exact;
};

typedef uint8_t vb_any __attribute__((vector_size(VL), aligned(1), may_alias));
typedef uint32_t vu __attribute__((vector_size(4 * VL)));

/* Writes a row of A as the kernels for few rows read it. */
typedef void (*prepare_row_fn)(const float *a, int64_t k, float *to);

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

#if VL == 16
/* Table lookup: the bf16 pairs that the low 5 bits of each half of a lane select from 32 numbers. */
GW_INLINE vf pairs_chosen(vu index, vw table) {
    vf y;
    __asm__("vpermw %1, %2, %0" : "=v"(y) : "v"(table), "v"(index));
    return y;
}

/* Rounds to the nearest bf16, returned as f32. Rounds towards 0 where the result would be infinite; NaN stays
 * NaN. */
GW_INLINE vf in_bf16(vf x) {
    const vw bits = (vw)x, up = bits + 0x7fff + (bits >> 16 & 1);
    const vw stays = (vw)((up & 0x7fffffff) >= 0x7f800000);
    const vw quiet = bits | ((vw)(x != x) & 0x400000);
    return (vf)(((up & ~stays) | (quiet & stays)) & 0xffff0000u);
}
/* The exact rest of x after rounding it to bf16; 0 for infinity and NaN. */
GW_INLINE vf remaining(vf x, vf rounded) {
    const vf rest = x - rounded;
    return (vf)((vw)rest & (vw)(rest == rest));
}
#endif

#endif

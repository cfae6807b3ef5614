/* B as codes of few bits: nbits.py writes what decodes them. */

#ifndef GW_GEMM_NBITS_H
#define GW_GEMM_NBITS_H

#include "cpu/vector.h"

/* B as codes. width: 0, 1, 2 for 2, 4, 8 bits. */
struct codes {
    const int32_t *words;
    const float *scales;
    const void *zeros;
    int64_t width, block, blocks, panel_words, floats;
};

typedef uint8_t vb_any __attribute__((vector_size(VL), aligned(1), may_alias));
typedef uint32_t vu __attribute__((vector_size(4 * VL)));

/* Zero points of VL columns, less the code that is 0 where there are none. */
GW_INLINE vf zeros_at(const struct codes *q, int64_t at, float middle) {
    if (!q->zeros)
        return (vf){0};
    if (q->floats)
        return vf_load((const float *)q->zeros + at) - middle;
    vi y;
    __asm__("vpmovzxbd %1, %0" : "=v"(y) : "m"(*(const vb_any *)((const uint8_t *)q->zeros + at)));
    return __builtin_convertvector(y, vf) - middle;
}

#if VL == 16
/* The numbers of a table of 16 that the low 4 bits of lanes choose. */
GW_INLINE vf chosen(vu index, vf table) {
    vf y;
    __asm__("vpermps %1, %2, %0" : "=v"(y) : "v"(table), "v"(index));
    return y;
}
#endif

#endif

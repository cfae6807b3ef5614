/* Included by every kernel: the ABI, and vectors as vector extensions of GCC and Clang. VL is the number of
 * f32 lanes; vf and vi are vectors of f32 and int32 (a comparison of vf gives vi lanes of 0 or -1). Pointers
 * need no alignment; functions *_n access only the first n elements, 0 <= n <= VL. Masked loads and stores
 * are inline assembly, since the names and types of their builtins differ between compilers. */

#ifndef GW_VECTOR_H
#define GW_VECTOR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GW_EXPORT __attribute__((visibility("default")))
#define GW_INLINE static inline __attribute__((always_inline, unused))

/* A library kernel: runs chunks [begin, end) of its grid, which are independent. Returns 0 or an error. */
#define GW_KERNEL(name)                                                                                      \
    GW_EXPORT int32_t name(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch)

/* An epilogue: stores the final values of a finished tile [rows x cols] at (batch, row, col). */
typedef int32_t (*gw_hook)(void *const *buf, const int64_t *arg, float *tile, int64_t ld, int64_t batch,
                           int64_t row, int64_t rows, int64_t col, int64_t cols);

#ifdef __AVX512F__
#define VL 16
#else
#define VL 8
#endif

typedef float vf __attribute__((vector_size(4 * VL)));
typedef int32_t vi __attribute__((vector_size(4 * VL)));
/* Unaligned vectors. */
typedef float vf_any __attribute__((vector_size(4 * VL), aligned(4), may_alias));
typedef int32_t vi_any __attribute__((vector_size(4 * VL), aligned(4), may_alias));

GW_INLINE vf vf_load(const float *p) { return *(const vf_any *)p; }
GW_INLINE void vf_store(float *p, vf x) { *(vf_any *)p = x; }
GW_INLINE vi vi_load(const int32_t *p) { return *(const vi_any *)p; }
GW_INLINE void vi_store(int32_t *p, vi x) { *(vi_any *)p = x; }
GW_INLINE vf vf_set1(float x) { return x - (vf){0}; } /* -0 - 0 is -0, where -0 + 0 would be 0 */
GW_INLINE vi vi_set1(int32_t x) { return x - (vi){0}; }
#if VL == 16
GW_INLINE vi vi_iota(void) { return (vi){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; }
#else
GW_INLINE vi vi_iota(void) { return (vi){0, 1, 2, 3, 4, 5, 6, 7}; }
#endif
/* -1 in the first n lanes, 0 after them. */
GW_INLINE vi vi_first(int64_t n) { return vi_iota() < vi_set1((int32_t)n); }

#if VL == 16
/* The first n elements, padded with zeros. */
GW_INLINE vf vf_load_n(const float *p, int64_t n) {
    vf x;
    uint16_t first = (uint16_t)((1u << n) - 1);
    __asm__("vmovups %1, %0 %{%2%}%{z%}" : "=v"(x) : "m"(*(const vf_any *)p), "Yk"(first));
    return x;
}
/* Read-write, since the elements after the first n keep their values. */
GW_INLINE void vf_store_n(float *p, vf x, int64_t n) {
    uint16_t first = (uint16_t)((1u << n) - 1);
    __asm__("vmovups %1, %0 %{%2%}" : "+m"(*(vf_any *)p) : "v"(x), "Yk"(first));
}
#else
/* The first n elements, padded with zeros. */
GW_INLINE vf vf_load_n(const float *p, int64_t n) {
    vf x;
    __asm__("vmaskmovps %1, %2, %0" : "=x"(x) : "m"(*(const vf_any *)p), "x"(vi_first(n)));
    return x;
}
/* Read-write, since the elements after the first n keep their values. */
GW_INLINE void vf_store_n(float *p, vf x, int64_t n) {
    __asm__("vmaskmovps %1, %2, %0" : "+m"(*(vf_any *)p) : "x"(x), "x"(vi_first(n)));
}
#endif

GW_INLINE vf vf_select(vi mask, vf yes, vf no) { return (vf)(((vi)yes & mask) | ((vi)no & ~mask)); }
GW_INLINE vi vi_select(vi mask, vi yes, vi no) { return (vi)vf_select(mask, (vf)yes, (vf)no); }
GW_INLINE vf vf_fma(vf a, vf b, vf c) { return a * b + c; } /* one rounding: -ffp-contract=fast */
GW_INLINE vf vf_max(vf a, vf b) { return vf_select((a > b) | (a != a), a, b); } /* NaN if either is */
GW_INLINE vf vf_min(vf a, vf b) { return vf_select((a < b) | (a != a), a, b); }
GW_INLINE vf vf_relu(vf x) { return (vf)((vi)x & ~(x < (vf){0})); } /* NaN stays NaN */

typedef float vf4 __attribute__((vector_size(16)));

/* Four sums of the lanes k, k + 4, ..., by halves. */
GW_INLINE vf4 vf_sum4(vf x) {
#if VL == 16
    typedef float half8 __attribute__((vector_size(32)));
    const half8 x8 = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +
                     __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
#else
    const vf x8 = x;
#endif
    return __builtin_shufflevector(x8, x8, 0, 1, 2, 3) + __builtin_shufflevector(x8, x8, 4, 5, 6, 7);
}

/* The sum of the lanes. */
GW_INLINE float vf_sum(vf x) {
    const vf4 x4 = vf_sum4(x);
    return x4[0] + x4[2] + (x4[1] + x4[3]);
}

#endif

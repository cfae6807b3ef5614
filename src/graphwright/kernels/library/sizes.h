/* Helpers for sizes and for rows of memory. */

#ifndef GW_SIZES_H
#define GW_SIZES_H

#include "cpu/vector.h"

GW_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
GW_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
/* a / b for a >= 0, b > 0. Usual divisors are 1 or fit in 32 bits, where division takes half the time. */
GW_INLINE int64_t quotient(int64_t a, int64_t b) {
    if (b == 1)
        return a;
    return ((uint64_t)(a | b) >> 32) ? a / b : (int64_t)((uint32_t)a / (uint32_t)b);
}
/* size / part, rounded up: the number of parts that cover size >= 0. */
GW_INLINE int64_t ceildiv(int64_t size, int64_t part) { return quotient(size + part - 1, part); }
/* The begin of part i if size is cut into count parts of nearly equal size. */
GW_INLINE int64_t part_begin(int64_t size, int64_t i, int64_t count) { return quotient(size * i, count); }

/* Loads up to a vector of n elements, padded with zeros. */
GW_INLINE vf load_most(const float *p, int64_t n) { return n < VL ? vf_load_n(p, n) : vf_load(p); }

GW_INLINE void copy_row(const float *from, int64_t n, float *to) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(to + i, vf_load(from + i));
    if (i < n)
        vf_store_n(to + i, vf_load_n(from + i, n - i), n - i);
}

#endif

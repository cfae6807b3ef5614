/* Types of elements of 1, 2, 4, 8 or 16 bytes, which may alias any other type: e_4 has 4 bytes. t4x16 is a
 * vector of 16 bytes, and v_4 one of the register width; t4x16_any and v_any_4 are unaligned. */

#ifndef GW_ELEMENTS_H
#define GW_ELEMENTS_H

#include "cpu/vector.h"

#define VECTOR(size, type, width)                                                                            \
    typedef type t##size##x##width __attribute__((vector_size(width)));                                      \
    typedef type t##size##x##width##_any __attribute__((vector_size(width), aligned(size), may_alias));
#define WIDEST(size, type, width)                                                                            \
    VECTOR(size, type, width)                                                                                \
    typedef t##size##x##width v_##size;                                                                      \
    typedef t##size##x##width##_any v_any_##size;
#if VL == 16
#define ELEMENT(size, type)                                                                                  \
    typedef type e_##size __attribute__((may_alias));                                                        \
    VECTOR(size, type, 16)                                                                                   \
    WIDEST(size, type, 64)
#else
#define ELEMENT(size, type)                                                                                  \
    typedef type e_##size __attribute__((may_alias));                                                        \
    VECTOR(size, type, 16)                                                                                   \
    WIDEST(size, type, 32)
#endif

ELEMENT(1, uint8_t)
ELEMENT(2, uint16_t)
ELEMENT(4, uint32_t)
ELEMENT(8, uint64_t)
typedef struct {
    uint64_t half[2];
} __attribute__((may_alias)) e_16;

#undef ELEMENT
#undef WIDEST
#undef VECTOR

#endif

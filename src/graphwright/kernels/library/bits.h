/* Arguments that are floats, passed as bit patterns: bits.py encodes them. */

#ifndef GW_BITS_H
#define GW_BITS_H

#include "cpu/vector.h"

GW_INLINE double double_of(int64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* An f32 in the lower half of an int64. */
GW_INLINE float float_of(int64_t bits) {
    const uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

#endif

/* Lane indices for shuffles of two vectors: LANES(EVEN) lists EVEN(0), EVEN(1), ... for all lanes. */

#ifndef GW_LANES_H
#define GW_LANES_H

#include "cpu/vector.h"

#if VL == 16
#define LANES(m)                                                                                             \
    m(0), m(1), m(2), m(3), m(4), m(5), m(6), m(7), m(8), m(9), m(10), m(11), m(12), m(13), m(14), m(15)
#else
#define LANES(m) m(0), m(1), m(2), m(3), m(4), m(5), m(6), m(7)
#endif

#define EVEN(i) 2 * (i)
#define ODD(i) 2 * (i) + 1
/* Interleaves the lower, or the upper, halves of two vectors. */
#define LOW(i) (i) / 2 + (i) % 2 * VL
#define HIGH(i) VL / 2 + (i) / 2 + (i) % 2 * VL

#endif

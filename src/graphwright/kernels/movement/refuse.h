/* How a kernel without scratch reports an index out of range: its scratch pointer points to three numbers. */

#ifndef GW_REFUSE_H
#define GW_REFUSE_H

#include "cpu/vector.h"

/* Returns INDEX_OUT_OF_RANGE, and stores to `details` the first of the indices [first, last) that is outside
 * [least, most], and this range. */
static int32_t refuse(void *details, const void *indices, int64_t index_size, int64_t first, int64_t last,
                      int64_t least, int64_t most) {
    const int32_t *narrow = indices;
    const int64_t *wide = indices;
    for (int64_t k = first; details && k < last; k++) {
        int64_t index = index_size == 4 ? narrow[k] : wide[k];
        if (index >= least && index <= most)
            continue;
        memcpy(details, (int64_t[]){index, least, most}, 3 * sizeof index);
        break;
    }
    return INDEX_OUT_OF_RANGE;
}

#endif

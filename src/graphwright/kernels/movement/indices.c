/* Checks of indices: see indices.py. */

#include "movement/indices.gen.h"

#include "library/templates.h"
#include "movement/refuse.h"

#define BITS 32
#define INT int32_t
#define UINT uint32_t
#include "movement/outside_of.h"
#undef BITS
#undef INT
#undef UINT
#define BITS 64
#define INT int64_t
#define UINT uint64_t
#include "movement/outside_of.h"
#undef BITS
#undef INT
#undef UINT

GW_KERNEL(gw_check_indices) {
    const struct check_indices_args *a = check_indices_args(arg);
    if (begin >= end)
        return 0;
    const int64_t grid = a->units, rows = a->rows, depth = a->depth, lengths = a->lengths, *sizes = a->size;
    const int64_t each = (rows + grid - 1) / grid;
    const int64_t first = begin * each, last = end * each < rows ? end * each : rows;
    if (first >= last || depth == 0)
        return 0;
    const int64_t from = first * depth, count = (last - first) * depth;
    const int outside =
        a->index_size == 4
            ? outside_32((const int32_t *)buf[CHECK_INDICES_INDICES] + from, count, sizes, depth, lengths)
            : outside_64((const int64_t *)buf[CHECK_INDICES_INDICES] + from, count, sizes, depth, lengths);
    for (int64_t k = 0; outside && k < count; k++) {
        const int64_t size = sizes[k % depth], at = from + k;
        const int64_t index = a->index_size == 4 ? ((const int32_t *)buf[CHECK_INDICES_INDICES])[at]
                                                 : ((const int64_t *)buf[CHECK_INDICES_INDICES])[at];
        if (index < (lengths ? 0 : -size) || index >= size + lengths)
            return refuse(scratch, buf[CHECK_INDICES_INDICES], a->index_size, at, at + 1, lengths ? 0 : -size,
                          size - 1 + lengths);
    }
    return 0;
}

/* Row copies that the kernels of data movement share: strided.py generates the shuffles. */

#ifndef GW_ROWS_H
#define GW_ROWS_H

#include "library/templates.h"
#include "movement/elements.h"

enum { RANK = 8, BLOCK_BYTES = 1 << 14, LINE_BYTES = 64 };

/* Copies short runs inline: a call of memcpy takes as long as moving 256 bytes. */
GW_INLINE void move_run(char *to, const char *from, int64_t bytes) {
    enum { W = sizeof(vi) };
    if (bytes < W || bytes > 1024) {
        memcpy(to, from, (size_t)bytes);
        return;
    }
    vi last = vi_load((const int32_t *)(from + bytes - W));
    for (int64_t i = 0; i < bytes - W; i += W)
        vi_store((int32_t *)(to + i), vi_load((const int32_t *)(from + i)));
    vi_store((int32_t *)(to + bytes - W), last);
}
/* Copies a run of less than 32 bytes by two moves that overlap. */
GW_INLINE void move_short(char *to, const char *from, int64_t bytes) {
#define MOVE_ENDS(type)                                                                                      \
    if (bytes >= (int64_t)sizeof(type)) {                                                                    \
        type first, last;                                                                                    \
        memcpy(&first, from, sizeof(type));                                                                  \
        memcpy(&last, from + bytes - sizeof(type), sizeof(type));                                            \
        memcpy(to, &first, sizeof(type));                                                                    \
        memcpy(to + bytes - sizeof(type), &last, sizeof(type));                                              \
        return;                                                                                              \
    }
    MOVE_ENDS(t1x16)
    MOVE_ENDS(uint64_t)
    MOVE_ENDS(uint32_t)
    MOVE_ENDS(uint16_t)
#undef MOVE_ENDS
    if (bytes)
        *to = *from;
}
/* Writes `count` - 1 more copies behind a run, each from those before it. */
GW_INLINE void repeat_run(char *to, int64_t bytes, int64_t count) {
    int64_t done = bytes;
    for (; 2 * done <= bytes * count; done *= 2)
        memcpy(to + done, to, (size_t)done);
    memcpy(to + done, to, (size_t)(bytes * count - done));
}
/* The range [first, last) of `count` items that units [begin, end) of `grid` process. */
GW_INLINE void unit_items(int64_t count, int64_t grid, int64_t begin, int64_t end, int64_t *first,
                          int64_t *last) {
    int64_t each = count / grid, rest = count % grid;
    *first = each * begin + (begin < rest ? begin : rest);
    *last = each * end + (end < rest ? end : rest);
}

/* Copies a block of rows x cols elements: dst + i * d[0] + j * d[1] = src + i * s[0] + j * s[1]. */
typedef void block_copy(char *dst, const int64_t *d, const char *src, const int64_t *s, int64_t rows,
                        int64_t cols);

#define TEMPLATE "movement/rows_of.h"
#include "movement/each_size.h"

static int size_index(int64_t size) {
    return size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : size == 8 ? 3 : 4;
}

static block_copy *const ROWS[] = {rows_1, rows_2, rows_4, rows_8, rows_16};

#endif

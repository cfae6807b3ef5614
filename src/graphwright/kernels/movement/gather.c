/* Slices along one axis: see gather.py. */

#include "movement/gather.gen.h"

#include "movement/refuse.h"
#include "movement/rows.h"

#define SIZE 1
#include "movement/pick_of.h"
#undef SIZE
#define SIZE 2
#include "movement/pick_of.h"
#undef SIZE
#define SIZE 4
#include "movement/pick_of.h"
#undef SIZE
#define SIZE 8
#include "movement/pick_of.h"
#undef SIZE
#define SIZE 16
#include "movement/pick_of.h"
#undef SIZE

/* Prefetches the beginning of a row that is read soon: hardware prefetchers cannot predict rows in random
 * order. */
static void fetch_row(const char *row, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += 64)
        __builtin_prefetch(row + at);
    __builtin_prefetch(row + bytes - 1);
}

typedef int pick(char *dst, int64_t d, const char *src, int64_t s, const void *indices, int64_t index_size,
                 int64_t axis, int64_t first, int64_t last);
static pick *const PICK[] = {pick_1, pick_2, pick_4, pick_8, pick_16};

GW_KERNEL(gw_gather) {
    enum { SHORT_RUN = 32, AHEAD_BYTES = 2048, FETCHED_BYTES = 512 };
    const struct gather_args *a = gather_args(arg);
    int64_t size = a->size, outer = a->outer, axis = a->axis, count = a->count, inner = a->inner;
    int64_t dst_outer = a->dst_outer * size, dst_stride = a->dst * size;
    int64_t src_outer = a->src_outer * size, src_stride = a->src * size;
    const int32_t *narrow = buf[GATHER_INDICES];
    const int64_t *wide = buf[GATHER_INDICES];
    block_copy *copy = ROWS[size_index(size)];
    if (outer == 0 || count == 0 || inner == 0)
        return 0;

    int64_t strides[2] = {0, size}, block = inner * size < BLOCK_BYTES ? inner : BLOCK_BYTES / size;
    int64_t blocks = (inner + block - 1) / block, first, last;
    share(outer * count * blocks, a->shares, begin, end, &first, &last);
    if (inner == 1) {
        for (int64_t at = first; at < last;) {
            int64_t o = at / count, k = at % count, stop = count - k < last - at ? count : k + last - at;
            char *dst = (char *)buf[GATHER_DST] + o * dst_outer;
            const char *src = (const char *)buf[GATHER_SRC] + o * src_outer;
            if (!PICK[size_index(size)](dst, dst_stride, src, src_stride, buf[GATHER_INDICES], a->index_size,
                                        axis, k, stop))
                return refuse(scratch, buf[GATHER_INDICES], a->index_size, k, stop, -axis, axis - 1);
            at += stop - k;
        }
        return 0;
    }
    int64_t part = first % blocks, k = first / blocks % count, o = first / blocks / count;
    int64_t row = inner * size, ahead = AHEAD_BYTES / row + 1;
    int64_t fetched = row < FETCHED_BYTES ? row : FETCHED_BYTES;
    for (int64_t item = first; item < last; item++) {
        if (row >= SHORT_RUN && part == 0 && k + ahead < count) {
            int64_t later = a->index_size == 4 ? narrow[k + ahead] : wide[k + ahead];
            later += later < 0 ? axis : 0;
            if ((uint64_t)later < (uint64_t)axis)
                fetch_row((const char *)buf[GATHER_SRC] + o * src_outer + later * src_stride, fetched);
        }
        int64_t index = a->index_size == 4 ? narrow[k] : wide[k];
        index += index < 0 ? axis : 0;
        if (index < 0 || index >= axis)
            return refuse(scratch, buf[GATHER_INDICES], a->index_size, k, k + 1, -axis, axis - 1);
        int64_t at = part * block, cols = inner - at < block ? inner - at : block;
        char *dst = (char *)buf[GATHER_DST] + o * dst_outer + k * dst_stride + at * size;
        const char *src = (const char *)buf[GATHER_SRC] + o * src_outer + index * src_stride + at * size;
        if (cols * size >= SHORT_RUN)
            move_run(dst, src, cols * size);
        else
            copy(dst, strides, src, strides, 1, cols);
        if (++part < blocks)
            continue;
        part = 0;
        if (++k < count)
            continue;
        k = 0;
        o++;
    }
    return 0;
}

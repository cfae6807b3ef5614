/* Slices along one axis: see gather.py. */

#include "movement/gather.gen.h"

#include "movement/refuse.h"
#include "movement/rows.h"

#define TEMPLATE "movement/pick_of.h"
#include "movement/each_size.h"

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

static int64_t index_at(const struct gather_args *a, const void *indices, int64_t k) {
    const int64_t index = a->index_size == 4 ? ((const int32_t *)indices)[k] : ((const int64_t *)indices)[k];
    return index < 0 ? index + a->axis : index;
}

/* Whether indices [first, last) are consecutive positions of the axis. */
static int are_consecutive(const struct gather_args *a, const void *indices, int64_t first, int64_t last) {
    const int64_t from = index_at(a, indices, first), to = index_at(a, indices, last - 1);
    if (from < 0 || from >= a->axis || to < 0 || to >= a->axis || to - from != last - 1 - first)
        return 0;
    const int64_t count = last - first;
    uint64_t others = 0;
    if (a->index_size == 4) {
        const int32_t *index = (const int32_t *)indices + first;
        for (int64_t k = 0; k < count; k++)
            others |= (uint64_t)((int64_t)index[k] - index[0] - k);
    } else {
        const int64_t *index = (const int64_t *)indices + first;
        for (int64_t k = 0; k < count; k++)
            others |= (uint64_t)index[k] - (uint64_t)index[0] - (uint64_t)k;
    }
    return !others;
}

/* Gathers slices of one element: elements [first, last) of the result. */
static int32_t gather_elements(const struct gather_args *a, void *const *buf, int64_t first, int64_t last,
                               void *scratch) {
    const int64_t size = a->size, count = a->count;
    for (int64_t at = first; at < last;) {
        const int64_t o = at / count, k = at % count, stop = count - k < last - at ? count : k + last - at;
        char *dst = (char *)buf[GATHER_DST] + o * a->dst_outer * size;
        const char *src = (const char *)buf[GATHER_SRC] + o * a->src_outer * size;
        if (a->src == 1 && a->dst == 1 && are_consecutive(a, buf[GATHER_INDICES], k, stop))
            move_run(dst + k * size, src + index_at(a, buf[GATHER_INDICES], k) * size, (stop - k) * size);
        else if (!PICK[size_index(size)](dst, a->dst * size, src, a->src * size, buf[GATHER_INDICES],
                                         a->index_size, a->axis, k, stop))
            return refuse(scratch, buf[GATHER_INDICES], a->index_size, k, stop, -a->axis, a->axis - 1);
        at += stop - k;
    }
    return 0;
}

/* Gathers longer slices: parts [first, last), of which each slice has `blocks` of up to `block` elements. */
static int32_t gather_slices(const struct gather_args *a, void *const *buf, int64_t first, int64_t last,
                             int64_t block, int64_t blocks, void *scratch) {
    enum { SHORT_RUN = 32, AHEAD_BYTES = 2048, FETCHED_BYTES = 512 };
    const void *indices = buf[GATHER_INDICES];
    const int64_t size = a->size, axis = a->axis, count = a->count, inner = a->inner, row = inner * size;
    const int64_t dst_outer = a->dst_outer * size, dst_stride = a->dst * size;
    const int64_t src_outer = a->src_outer * size, src_stride = a->src * size;
    const int64_t ahead = AHEAD_BYTES / row + 1, fetched = row < FETCHED_BYTES ? row : FETCHED_BYTES;
    int64_t part = first % blocks, k = first / blocks % count, o = first / blocks / count;
    for (int64_t item = first; item < last; item++) {
        if (row >= SHORT_RUN && part == 0 && k + ahead < count) {
            const int64_t later = index_at(a, indices, k + ahead);
            if ((uint64_t)later < (uint64_t)axis)
                fetch_row((const char *)buf[GATHER_SRC] + o * src_outer + later * src_stride, fetched);
        }
        const int64_t index = index_at(a, indices, k);
        if (index < 0 || index >= axis)
            return refuse(scratch, indices, a->index_size, k, k + 1, -axis, axis - 1);
        const int64_t at = part * block, cols = inner - at < block ? inner - at : block;
        char *dst = (char *)buf[GATHER_DST] + o * dst_outer + k * dst_stride + at * size;
        const char *src = (const char *)buf[GATHER_SRC] + o * src_outer + index * src_stride + at * size;
        if (cols * size >= SHORT_RUN)
            move_run(dst, src, cols * size);
        else
            move_short(dst, src, cols * size);
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

GW_KERNEL(gw_gather) {
    const struct gather_args *a = gather_args(arg);
    const int64_t size = a->size, inner = a->inner;
    if (a->outer == 0 || a->count == 0 || inner == 0)
        return 0;
    const int64_t block = inner * size < BLOCK_BYTES ? inner : BLOCK_BYTES / size;
    const int64_t blocks = (inner + block - 1) / block;
    int64_t first, last;
    unit_items(a->outer * a->count * blocks, a->units, begin, end, &first, &last);
    return inner == 1 ? gather_elements(a, buf, first, last, scratch)
                      : gather_slices(a, buf, first, last, block, blocks, scratch);
}

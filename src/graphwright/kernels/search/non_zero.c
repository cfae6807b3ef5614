/* NonZero: see non_zero.py. */

#include "search/non_zero.gen.h"

#include "library/templates.h"

enum { GROUP = 64 };

/* The output of indices: [rank, total], and the number of columns filled so far. */
typedef struct {
    int64_t *indices, total, at, rank;
    const int64_t *shape;
    int64_t index[MAX_RANK]; /* of the current element */
} target;

GW_INLINE int64_t block_start(const struct non_zero_args *a, int64_t block) {
    const int64_t each = (a->elements + a->blocks - 1) / a->blocks;
    return each * block < a->elements ? each * block : a->elements;
}

#define BITS 8
#define UINT uint8_t
#include "search/non_zero_of.h"
#undef BITS
#undef UINT
#define BITS 16
#define UINT uint16_t
#include "search/non_zero_of.h"
#undef BITS
#undef UINT
#define BITS 32
#define UINT uint32_t
#include "search/non_zero_of.h"
#undef BITS
#undef UINT
#define BITS 64
#define UINT uint64_t
#include "search/non_zero_of.h"
#undef BITS
#undef UINT

GW_KERNEL(gw_count_non_zero) {
    (void)scratch;
    const struct non_zero_args *a = non_zero_args(arg);
    const uint64_t mask = (uint64_t)a->mask;
    int64_t *counts = buf[NON_ZERO_COUNTS];
    for (int64_t block = begin; block < end; block++) {
        const int64_t at = block_start(a, block), n = block_start(a, block + 1) - at;
        const char *x = (const char *)buf[NON_ZERO_X] + at * a->size;
        switch (a->size) {
        case 1: counts[block] = count_8((const uint8_t *)x, n, mask); break;
        case 2: counts[block] = count_16((const uint16_t *)x, n, mask); break;
        case 4: counts[block] = count_32((const uint32_t *)x, n, mask); break;
        default: counts[block] = count_64((const uint64_t *)x, n, mask); break;
        }
    }
    return 0;
}

/* Advances to the first column of the next row. */
GW_INLINE void next_row(target *t) {
    t->index[t->rank - 1] = 0;
    for (int64_t axis = t->rank - 2; axis >= 0 && ++t->index[axis] == t->shape[axis]; axis--)
        t->index[axis] = 0;
}

static void write_block(const char *x, const struct non_zero_args *a, int64_t block, target *t) {
    const uint64_t mask = (uint64_t)a->mask;
    const int64_t last = block_start(a, block + 1), row = t->shape[t->rank - 1];
    int64_t at = block_start(a, block), rest = at;
    if (at == last)
        return;
    for (int64_t axis = t->rank - 1; axis >= 0; axis--) {
        t->index[axis] = rest % t->shape[axis];
        rest /= t->shape[axis];
    }
    while (at < last) {
        const int64_t left = row - t->index[t->rank - 1], n = left < last - at ? left : last - at;
        switch (a->size) {
        case 1: write_8((const uint8_t *)x + at, n, mask, t); break;
        case 2: write_16((const uint16_t *)x + at, n, mask, t); break;
        case 4: write_32((const uint32_t *)x + at, n, mask, t); break;
        default: write_64((const uint64_t *)x + at, n, mask, t); break;
        }
        at += n;
        next_row(t);
    }
}

GW_KERNEL(gw_non_zero) {
    (void)scratch;
    const struct non_zero_args *a = non_zero_args(arg);
    const int64_t *counts = buf[NON_ZERO_COUNTS];
    int64_t before = 0, total = 0;
    for (int64_t block = 0; block < a->blocks; block++) {
        before += block < begin ? counts[block] : 0;
        total += counts[block];
    }
    if (begin == 0 && end > 0)
        *(int64_t *)buf[NON_ZERO_TOTAL] = total;
    target t = {
        .indices = buf[NON_ZERO_INDICES], .total = total, .at = before, .rank = a->rank, .shape = a->n};
    if (!t.rank)
        return 0;
    for (int64_t block = begin; block < end; block++)
        write_block(buf[NON_ZERO_X], a, block, &t);
    return 0;
}

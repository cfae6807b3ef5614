/* The state of attention for one head of keys. */

#ifndef GW_ATTENTION_HEAD_H
#define GW_ATTENTION_HEAD_H

#include "library/pairs.h"

#include "attention/attention.gen.h"

_Static_assert(MR <= VL, "the rows of a tile are lanes of a vector");

#define LOG2_E 1.4426950408889634

/* The operands for one batch and one head of keys, and the intermediate results of a run. A run is a sequence
 * of consecutive tiles that share packed keys and values. */
typedef struct {
    const float *q, *mask;
    struct numbers k, v;
    float *y;
    float *keys, *values;    /* the current block: panels [depth][NR] and [keys][NR] */
    float *queries, *scores; /* the current tile */
    int64_t *unhidden;       /* for each row of the run: from this key on, its mask hides all keys */
    int64_t keys_seen;       /* from this key on, no row of the run sees a key */
    int64_t rows;            /* rows of the run */
    int64_t sum_rows;        /* rows of accumulators: of a tile if there is one block, else of the run */
    int pairs;               /* whether both products take pairs of bf16 */
    int in_log2;             /* whether scores are multiplied by log2(e): see scale_of */
} head;

/* The current tile. Each row has a lane of the vectors `largest` and `total`. */
typedef struct {
    int64_t rows;
    float *sums; /* accumulators [width / KEY_BLOCK][sum_rows][PITCH] */
    float *largest, *total;
} tile;

/* The numbers x, advanced by `count` elements. */
GW_INLINE struct numbers numbers_from(struct numbers x, int64_t count) {
    x.at = (const char *)x.at + (x.single ? 4 : 2) * count;
    return x;
}

/* The number of rows of a packed operand for n summed values: half as many if they are in pairs. */
GW_INLINE int64_t steps_of(const head *h, int64_t n) { return h->pairs ? ceildiv(n, 2) : n; }

/* A block of keys. */
typedef struct {
    int64_t first, count;
} block;

/* A query: one row of Q, and the keys that it sees. */
typedef struct {
    const float *q, *mask;
    float *y;
    int64_t limit;    /* the number of keys that the row sees */
    int64_t unhidden; /* from this key on, the mask of the row hides all keys */
    /* The number of keys of the block whose scores are computed: the visible keys, rounded up to a multiple
     * of SCORES. So the order of the sums does not depend on the number of hidden keys. */
    int64_t visible;
} query;

#endif

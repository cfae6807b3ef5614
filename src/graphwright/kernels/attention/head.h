/* The state of attention for one head of keys. */

#ifndef GW_ATTENTION_HEAD_H
#define GW_ATTENTION_HEAD_H

#include "library/pairs.h"

#include "attention/attention.gen.h"

/* The operands for one batch and one head of keys, and the intermediate results of a run: consecutive tiles
   that share packed keys and values. */
typedef struct {
    const float *q, *mask;
    struct numbers k, v;
    float *y;
    float *keys, *values;          /* the block at hand: panels [depth][NR] and [keys][NR] */
    float *queries, *scores;       /* a tile */
    float *sums, *largest, *total; /* of each row of the run */
    int64_t *unhidden;             /* of each row of the run: its mask hides all keys from there on */
    int64_t keys_seen;             /* no row of the run sees a key from there on */
    struct numbers next_k, next_v; /* of the head after the run; at NULL unless the chunk goes on */
    int64_t rows;                  /* of the run; sums are [width / KEY_BLOCK][rows][PITCH] */
    int pairs;                     /* of bf16 are what both products take */
} head;

/* x, `count` elements further on. */
GW_INLINE struct numbers numbers_from(struct numbers x, int64_t count) {
    x.at = (const char *)x.at + (x.single ? 4 : 2) * count;
    return x;
}

/* The number of rows that a product reads for n values that it sums: in pairs, half as many. */
GW_INLINE int64_t steps_of(const head *h, int64_t n) { return h->pairs ? parts(n, 2) : n; }

/* A block of keys. */
typedef struct {
    int64_t first, count;
} block;

/* A row of queries. */
typedef struct {
    const float *q, *mask;
    float *y;
    int64_t limit;    /* of the keys that it sees */
    int64_t unhidden; /* its mask hides all keys from there on */
} place;

#endif

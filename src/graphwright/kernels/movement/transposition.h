/* Transposition in registers: transposition.py generates the shuffles. */

#ifndef GW_TRANSPOSITION_H
#define GW_TRANSPOSITION_H

#include "movement/lanes.h"
#include "movement/rows.h"

#define SIZE 1
#include "movement/transpose_of.h"
#undef SIZE
#define SIZE 2
#include "movement/transpose_of.h"
#undef SIZE
#define SIZE 4
#include "movement/transpose_of.h"
#undef SIZE
#define SIZE 8
#include "movement/transpose_of.h"
#undef SIZE

/* dst is contiguous along columns, src along rows; squares of one cache line keep both sides in L1. */
static void transpose_16(char *dst, const int64_t *d, const char *src, const int64_t *s, int64_t rows,
                         int64_t cols) {
    enum { LINE = 64 / 16 };
    for (int64_t i = 0; i < rows; i += LINE)
        for (int64_t j = 0; j < cols; j += LINE)
            rows_16(dst + i * d[0] + j * 16, d, src + i * 16 + j * s[1], s, rows - i < LINE ? rows - i : LINE,
                    cols - j < LINE ? cols - j : LINE);
}

static block_copy *const TRANSPOSE[] = {transpose_1, transpose_2, transpose_4, transpose_8, transpose_16};
static block_copy *const STREAMED[] = {streamed_1, streamed_2, streamed_4, streamed_8, transpose_16};

#endif

/* The addend and the destination of a register tile: tile.py generates the micro-kernels. */

#ifndef GW_TILE_H
#define GW_TILE_H

#include "cpu/vector.h"

/* The accumulating form of the FMA: GCC would choose other forms, which need moves between registers. */
#define ACCUMULATE(c, a, b) __asm__("vfmadd231ps %1, %2, %0" : "+v"(c) : "v"(a), "v"(b))

/* What multiplies pairs of bf16: f32 FMAs of their halves, AVX512-BF16, or AMX. */
enum pair_unit { WITH_FMA, WITH_BF16, WITH_AMX };

/* To the finished sums of a tile are added, if not NULL: a tile (a residual, or partial sums), a row of it to
 * each row, and a column of it to each column. Sums that began with them would lose more bits. */
struct tile {
    const float *added, *row, *column;
    float *to;
    int64_t added_ld, column_ld, to_ld;
    int relu;
    const float *clip;   /* the bounds of stored values, or NULL */
    const float *ahead;  /* what a later tile reads, to prefetch to L2, or NULL: */
    int64_t ahead_step;  /* elements between cache lines that are prefetched every 2 values of k, */
    int64_t ahead_skip;  /* and the step after each K_RUN values */
    int64_t ahead_lines; /* for streamed panels: cache lines to prefetch per iteration */
    enum pair_unit unit; /* for pairs: what multiplies them */
};

#endif

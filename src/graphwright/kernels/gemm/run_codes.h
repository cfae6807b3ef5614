/* The loops of products whose B is quantized to codes: few rows of A, and rows of A that are quantized too.
 */

#ifndef GW_GEMM_RUN_CODES_H
#define GW_GEMM_RUN_CODES_H

#include "gemm/nbits_dynamic.h"
#include "gemm/run.h"

static int are_bytes(const struct codes *q) { return q->width == 2; }

/* Whether products of few rows read the sums of A. */
static int reads_sums(const struct codes *q) { return q->zeros || !are_bytes(q); }

/* Sums the rows of A over quantization blocks. Returns whether all sums are finite. */
static int sum_blocks(const struct gemm *g, float *sums) {
    const struct codes *q = g->codes;
    float rest = 0;
    for (int64_t i = 0; i < g->s.m * q->blocks; i++) {
        const int64_t row = i / q->blocks, k0 = i % q->blocks * q->block;
        const int64_t k1 = smaller(g->s.k, k0 + q->block);
        vf total = {0};
        for (int64_t j = k0; j < k1; j += VL)
            total += load_most(g->a + row * g->s.a_m + j, k1 - j);
        sums[i] = vf_sum(total);
        rest += sums[i] - sums[i]; /* NaN if the sum is not finite */
    }
    return rest == 0;
}

/* Few rows: packed codes are decoded in registers. `sums` are those of A over blocks. */
static int32_t run_few_rows_of_codes(const struct gemm *g, const struct block *o, float *sums) {
    const struct codes *q = g->codes;
    const int64_t m = g->s.m, k = g->s.k;
    float room[(CODES_GROUP + 1) * NR] __attribute__((aligned(64)));
    float out[CODES_GROUP * NR] __attribute__((aligned(64)));
    const float *a = g->a;
    int64_t lda = g->s.a_m;
    if (!are_bytes(q)) {
        const int64_t row = q->blocks * q->block;
        float *scaled = sums + m * q->blocks;
        for (int64_t i = 0; i < m; i++)
            scale_row[q->width](g->a + i * lda, k, scaled + i * row);
        a = scaled;
        lda = row;
    }
    for (int64_t p = o->panel0; p < o->panel1; p++) {
        const int64_t col = p * NR, cols = smaller(g->s.n - col, NR);
        for (int64_t row = 0; row < m; row += CODES_GROUP) {
            const int64_t rows = smaller(m - row, CODES_GROUP);
            struct tile t = {.added = NULL};
            const struct area at = {row, rows, col, cols};
            set_addends(g, o, at, cols == NR, (struct room){room, NR}, &t);
            set_destination(g, o, at, cols == NR, (struct room){out, NR}, &t);
            stream_codes[q->width][rows - 1](q, p, k, a + row * lda, lda, sums + row * q->blocks, &t);
            const int32_t error = deliver_tile(g, o, at, (struct room){out, NR}, &t);
            if (error)
                return error;
        }
    }
    return 0;
}

/* Whether A is quantized to bytes. */
static int quantizes_a(const struct codes *q) {
    return q->dynamic && !are_bytes(q) && (VL == 8 || has_vnni());
}

/* Rows [at, end) of a block. */
struct rows {
    int64_t at, end;
};

/* Quantizes `rows`. bytes: of the rows from `first` on. Returns whether all numbers are finite. */
static int quantize_rows(const struct gemm *g, const struct block *o, struct rows rows, int64_t first,
                         const struct byte_rows *bytes) {
    const struct codes *q = g->codes;
    int finite = 1;
    for (int64_t row = rows.at; row < rows.end; row++) {
        const int64_t i = row - first;
        finite &= quantize_row(q, row_of_a(g, o, row, 0), g->s.k, byte_order[q->width],
                               bytes->bytes + i * bytes->pitch, bytes->scales + i * q->blocks,
                               bytes->sums + i * q->blocks);
    }
    return finite;
}

/* Multiplies quantized rows by panel p. bytes: those of the rows from `first` on. */
static int32_t multiply_bytes(const struct gemm *g, const struct block *o, int64_t p, struct rows rows,
                              int64_t first, const struct byte_rows *bytes) {
    const struct codes *q = g->codes;
    const int64_t col = p * NR, cols = smaller(g->s.n - col, NR);
    float room[(CODES_GROUP + 1) * NR] __attribute__((aligned(64)));
    float out[CODES_GROUP * NR] __attribute__((aligned(64)));
    for (int64_t row = rows.at; row < rows.end; row += CODES_GROUP) {
        const int64_t count = smaller(rows.end - row, CODES_GROUP), i = row - first;
        const struct byte_rows a = {bytes->bytes + i * bytes->pitch, bytes->scales + i * q->blocks,
                                    bytes->sums + i * q->blocks, bytes->pitch};
        struct tile t = {.added = NULL};
        const struct area at = {row, count, col, cols};
        set_addends(g, o, at, cols == NR, (struct room){room, NR}, &t);
        set_destination(g, o, at, cols == NR, (struct room){out, NR}, &t);
        stream_bytes[q->width][count - 1](q, p, &a, &t);
        const int32_t error = deliver_tile(g, o, at, (struct room){out, NR}, &t);
        if (error)
            return error;
    }
    return 0;
}

/* Quantizes rows of A to bytes, and multiplies them. Row tiles with numbers that are not finite are
 * multiplied as they are. */
static int32_t run_quantized_rows(const struct gemm *g, const struct block *o, float *scratch) {
    const struct codes *q = g->codes;
    const int64_t tiles = ceildiv(g->s.m, MR), first = part_begin(g->s.m, o->tile0, tiles);
    const int64_t most = part_begin(g->s.m, o->tile1, tiles) - first;
    const struct byte_rows bytes = {
        .scales = scratch,
        .sums = scratch + most * q->blocks,
        .bytes = (uint8_t *)(scratch + 2 * most * q->blocks),
        .pitch = q->blocks * q->block,
    };
    struct rows finite[BLOCK_TILES];
    struct block rest[BLOCK_TILES]; /* the other tiles */
    int64_t finites = 0, rests = 0;
    for (int64_t tile = o->tile0; tile < o->tile1; tile++) {
        const struct rows rows = {part_begin(g->s.m, tile, tiles), part_begin(g->s.m, tile + 1, tiles)};
        if (!quantize_rows(g, o, rows, first, &bytes)) {
            rest[rests] = *o;
            rest[rests].tile0 = tile;
            rest[rests++].tile1 = tile + 1;
        } else if (finites && finite[finites - 1].end == rows.at) {
            finite[finites - 1].end = rows.end;
        } else {
            finite[finites++] = rows;
        }
    }
    for (int64_t p = o->panel0; p < o->panel1; p++)
        for (int64_t i = 0; i < finites; i++) {
            const int32_t error = multiply_bytes(g, o, p, finite[i], first, &bytes);
            if (error)
                return error;
        }
    for (int64_t i = 0; i < rests; i++) {
        const int32_t error = run_block(g, &rest[i], scratch);
        if (error)
            return error;
    }
    return 0;
}

#endif

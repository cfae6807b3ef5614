/* Fourier transforms: see fft.py, which generates the stages. */

#include "library/sizes.h"

#include "signal/fft.gen.h"

/* Real and imaginary parts. */
typedef struct {
    float *r, *i;
} planes;

/* Transforms a block of VL columns of `side` elements. Returns the block that holds the result, which may be
 * the other one. */
static planes transform_columns(const stages *all, int64_t side, const float *w, planes x, planes y) {
    for (int64_t stage = 0, done = 1, rest = side; stage < all->count; stage++) {
        const int64_t radix = all->radix[stage];
        const float *xr = x.r, *xi = x.i;
        float *yr = y.r, *yi = y.i;
#define CASE(radix)                                                                                          \
    case radix: stage_##radix(rest / radix, done, w, xr, xi, yr, yi); break;
        switch (radix) {
            CASE(4)
            CASE(2)
            CASE(3)
            CASE(5)
            CASE(7)
        }
#undef CASE
        w += 2 * (radix - 1) * (rest / radix);
        rest /= radix;
        done *= radix;
        const planes other = x;
        x = y;
        y = other;
    }
    return x;
}

static int64_t factors_of(const stages *all, int64_t side) {
    int64_t count = 0;
    for (int64_t stage = 0; stage < all->count; side /= all->radix[stage++])
        count += 2 * (all->radix[stage] - 1) * (side / all->radix[stage]);
    return count;
}

/* Rows of a block of columns; rows are ld elements apart in memory. */
static void load_columns(const float *from, int64_t ld, int64_t rows, float *to) {
    for (int64_t r = 0; r < rows; r++)
        vf_store(to + r * VL, vf_load(from + r * ld));
}

static void split_row(const struct fft_args *t, const float *x, planes to) {
    for (int64_t i = 0; i < t->used; i++)
        to.r[i] = x[i * t->parts];
    for (int64_t i = 0; i < t->used; i++)
        to.i[i] = t->parts == 2 ? x[2 * i + 1] : 0;
    memset(to.r + t->used, 0, (size_t)(t->length - t->used) * sizeof *to.r);
    memset(to.i + t->used, 0, (size_t)(t->length - t->used) * sizeof *to.i);
}

static void transform_row(const struct fft_args *t, const float *table, const float *x, float *y,
                          float *scratch) {
    const int64_t n1 = t->n1, n2 = t->n2, n = t->length + 64, side = (n1 > n2 ? n1 : n2) * VL;
    const int64_t first = factors_of(&t->first, n1), second = factors_of(&t->second, n2);
    const float *turn_r = table + first + second, *turn_i = turn_r + t->length;
    planes row = {scratch, scratch + n}, turned = {row.i + n, row.i + 2 * n};
    planes block = {turned.i + n, turned.i + n + side}, other = {block.i + side, block.i + 2 * side};
    split_row(t, x, t->inverse ? (planes){row.i, row.r} : row);
    for (int64_t j = 0; j < n2; j += VL) { /* the last block may overlap the one before */
        const int64_t at = smaller(j, n2 - VL);
        load_columns(row.r + at, n2, n1, block.r);
        load_columns(row.i + at, n2, n1, block.i);
        const planes found = transform_columns(&t->first, n1, table, block, other);
        for (int64_t k = 0; k < n1; k++) {
            const vf r = vf_load(found.r + k * VL), i = vf_load(found.i + k * VL);
            const vf wr = vf_load(turn_r + k * n2 + at), wi = vf_load(turn_i + k * n2 + at);
            vf_store(found.r + k * VL, r * wr - i * wi);
            vf_store(found.i + k * VL, r * wi + i * wr);
        }
        for (int64_t k = 0; k < n1; k += VL) {
            const int64_t row0 = smaller(k, n1 - VL);
            transpose(found.r + row0 * VL, VL, VL, VL, turned.r + at * n1 + row0, n1);
            transpose(found.i + row0 * VL, VL, VL, VL, turned.i + at * n1 + row0, n1);
        }
    }
    for (int64_t j = 0; j < n1; j += VL) {
        const int64_t at = smaller(j, n1 - VL);
        load_columns(turned.r + at, n1, n2, block.r);
        load_columns(turned.i + at, n1, n2, block.i);
        const planes found = transform_columns(&t->second, n2, table + first, block, other);
        for (int64_t k = 0; k < n2; k++) {
            vf_store(row.r + k * n1 + at, vf_load(found.r + k * VL));
            vf_store(row.i + k * n1 + at, vf_load(found.i + k * VL));
        }
    }
    const float *real = t->inverse ? row.i : row.r, *imaginary = t->inverse ? row.r : row.i;
    for (int64_t i = 0; i < t->bins; i++) {
        y[2 * i] = real[i];
        y[2 * i + 1] = imaginary[i];
    }
}

GW_KERNEL(gw_fft_f32) {
    struct fft_args t;
    memcpy(&t, arg, sizeof t);
    for (int64_t row = begin; row < end; row++)
        transform_row(&t, buf[FFT_TABLE], (const float *)buf[FFT_X] + row * t.dim * t.parts,
                      (float *)buf[FFT_Y] + row * t.bins * 2, scratch);
    return 0;
}

/* One convolution, its units, and the positions of tiles in the planes. A plane holds one point of all
 * transformed tiles. */

#ifndef GW_WINOGRAD_H
#define GW_WINOGRAD_H

#include "library/bits.h"
#include "library/hook.h"
#include "library/sizes.h"

#include "winograd/winograd.gen.h"

/* The tiles that a plane holds: a smaller tile in the last row or column of tiles has fewer points, so it is
 * in fewer planes. */
struct plane_tiles {
    int64_t first; /* the first tile of the unit */
    int64_t count;
    int64_t rows; /* rows of each product except the last */
};

struct conv {
    struct winograd_args s;
    const float *x, *w, *bias, *residual;
    float *y;
    struct hook hook;
    float lo, hi;
    int64_t in_blocks, out_blocks;     /* blocks of channels */
    int64_t in_runs;                   /* runs of K_RUN channels */
    int64_t oh, ow;                    /* the size of the result of a phase: the largest */
    int64_t pixel;                     /* elements between pixels of a phase */
    int64_t tile_rows, row_tiles;      /* of a phase: rows of tiles, and tiles per row */
    int64_t row_points, column_points; /* points of a line in the last row and the last column of tiles */
    int64_t in_plane, out_plane;       /* elements from one plane of scratch to the next */
    float *in, *out, *made;
};

/* The elements of an axis that are equal modulo the dilation, as an axis without dilation. `from` is its
 * first element in the image, `to` that in the result.
 */
struct phase {
    int64_t from, to, size, count, pad;
};

static struct phase phase_of(int64_t to, int64_t size, int64_t count, int64_t pad, int64_t dilation) {
    const int64_t at = to - pad, outside = at < 0 ? ceildiv(-at, dilation) : 0;
    const int64_t skipped = at < 0 ? 0 : at / dilation, from = at + (outside - skipped) * dilation;
    return (struct phase){.from = from,
                          .to = to,
                          .size = from < size ? ceildiv(size - from, dilation) : 0,
                          .count = to < count ? ceildiv(count - to, dilation) : 0,
                          .pad = outside - skipped};
}

/* A unit: tiles [tile, tile + tiles) of a phase of an image. */
struct unit {
    int64_t image, tile, tiles;
    struct phase rows, columns;
    struct plane_tiles planes[2][2]; /* for planes without the smaller tiles: indexed by [last row
                                   missing][last column missing] */
};

/* `count` tiles of one row of tiles, from the tile at (row, column) on; `at` is their index in the unit. */
struct run {
    int64_t row, column, count, at;
};

GW_INLINE struct run run_at(const struct conv *g, const struct unit *o, int64_t at) {
    const int64_t row = quotient(o->tile + at, g->row_tiles), column = o->tile + at - row * g->row_tiles;
    const int64_t count = smaller(smaller(g->row_tiles - column, o->tiles - at), RUN);
    return (struct run){row, column, count, at};
}

/* The index of the tile at (row, column) among the tiles of a plane, which may lack the last column. */
GW_INLINE int64_t number(const struct conv *g, int64_t row, int64_t column, int without_last_column) {
    return row * (g->row_tiles - without_last_column) + column;
}

static struct plane_tiles tiles_of_plane(const struct conv *g, const struct unit *o, int by_row,
                                         int by_column) {
    const int64_t begin = smaller(o->tile, (g->tile_rows - by_row) * g->row_tiles);
    const int64_t end = smaller(o->tile + o->tiles, (g->tile_rows - by_row) * g->row_tiles);
    const int64_t begin_row = quotient(begin, g->row_tiles), end_row = quotient(end, g->row_tiles);
    const int64_t first = number(g, begin_row, begin - begin_row * g->row_tiles, by_column);
    const int64_t count = number(g, end_row, end - end_row * g->row_tiles, by_column) - first;
    const int64_t rows = count ? ceildiv(count, ceildiv(count, ROWS)) : ROWS;
    return (struct plane_tiles){first, count, rows};
}

GW_INLINE int64_t plane_size(int64_t elements) {
    return (elements / 32 * 2 + 3) * 16; /* an odd number of cache lines avoids conflict misses */
}

GW_INLINE void store(const struct conv *g, int64_t act, float *to, vf y, const float *residual) {
    if (residual)
        y += vf_load(residual);
    if (act == 1)
        y = vf_relu(y);
    else if (act == 2)
        y = vf_min(vf_max(y, vf_set1(g->lo)), vf_set1(g->hi));
    vf_store(to, y);
}

/* Derives the weights at the points +-sqrt(2) from those at 0, infinity and +-sqrt(1/2): w0 + 2 w2 +- sqrt(2)
 * w1. */
GW_INLINE void make_weights(const float *w, int64_t panel, float *to) {
    for (int64_t i = 0; i < panel; i += VL) {
        const vf even = vf_load(w + i) + 2.0f * vf_load(w + panel + i);
        const vf odd = vf_load(w + 2 * panel + i) - vf_load(w + 3 * panel + i);
        vf_store(to + i, even + odd);
        vf_store(to + panel + i, even - odd);
    }
}

/* A group of output channel blocks [first, first + count), whose weights are contiguous. */
struct outputs {
    int64_t first, count;
};

/* Offsets of a tile in the planes, by kind of plane. */
struct offsets {
    int64_t at[2][2];
};

/* The offset of the first channel of a tile in [product][K_RUN channels][ROWS][K_RUN]. */
GW_INLINE struct offsets input_offsets(const struct conv *g, const struct unit *o, int64_t row,
                                       int64_t column) {
    struct offsets made;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            const struct plane_tiles *p = &o->planes[i][j];
            const int64_t index = number(g, row, column, j) - p->first, product = quotient(index, p->rows);
            made.at[i][j] = (product * g->in_runs * ROWS + index - product * p->rows) * K_RUN;
        }
    return made;
}

#endif

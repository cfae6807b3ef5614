"""The transforms of Winograd convolution (module ``winograd``): of weights in NumPy, of the rest as C text.

A line of pixels and its values at the points are transformed by evaluation and interpolation (Lavin and Gray,
2015); both directions of a tile, one after the other.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from graphwright.kernels.library.winograd_tile import product_vectors
from graphwright.targets.cpu.isa import Isa

Array = npt.NDArray[Any]

ROOT: Final = 0.5**0.5
_FINITE: Final = (0.0, ROOT, -ROOT, 2 * ROOT, -2 * ROOT)
"""Where polynomials are evaluated, the first three for m = 2. Infinity stands behind the first of them."""

STORED: Final = 4
"""Points of a line whose weights are packed: those at +-sqrt(2) take less time to make than to read."""

_TRANSFORMED_BYTES: Final = 512 << 10
"""Of weights in f64, which are rounded before they leave the cache."""


def _weight_matrix(m: int) -> Array:
    """G [m + 2, 3], f64: a filter's values at the points."""
    first, *others = [[1, p, p * p] for p in _FINITE[: m + 1]]
    return np.array([first, [0, 0, 1], *others])


def transformed_shape(cout: int, cin: int, m: int, isa: Isa) -> tuple[int, int]:
    """The shape of what :func:`transform_weights` makes."""
    return -(-cout // isa.lanes), (m + 2) * STORED * cin * isa.lanes


def transform_weights(out: Array, w: Array, m: int, isa: Isa) -> None:
    """Weights [Cout, Cin, 3, 3] into f32 [CoutB, (m + 2) * 4 * Cin * VL], computed in f64, rounded once.

    Groups of up to three output channel blocks lie together as [m + 2, 4, Cin, blocks, VL]: at the
    first four points of each line. The kernel makes the others of them.
    """
    cout, cin = w.shape[:2]
    matrix, lanes = np.kron(_weight_matrix(m), _weight_matrix(m)[:STORED]), isa.lanes
    planes, blocks = len(matrix), -(-cout // lanes)
    groups = -(-blocks // product_vectors(isa))
    for group in range(groups):
        first, last = blocks * group // groups, blocks * (group + 1) // groups
        part, width = w[first * lanes : last * lanes], (last - first) * lanes
        made = out[first:last].reshape(planes, cin, width)
        step = max(1, _TRANSFORMED_BYTES // (planes * width * 8))
        for channel in range(0, cin, step):
            some = part[:, channel : channel + step]
            padded = np.zeros((9, some.shape[1], width))
            padded[..., : len(part)] = some.transpose(2, 3, 1, 0).reshape(9, -1, len(part))
            made[:, channel : channel + step] = (matrix @ padded.reshape(9, -1)).reshape(planes, -1, width)


LINES: Final = """
/* 6 or 4 points of as many pixels. */
GW_INLINE void input_line(int64_t n, const vf *d, vf *to) {
    if (n == 6) {
        const vf p = d[4] - 2.0f * d[2], q = d[3] - 2.0f * d[1];
        const vf r = d[4] - 0.5f * d[2], s = d[3] - 0.5f * d[1];
        to[0] = d[4] - 2.5f * d[2] + d[0];
        to[1] = d[5] - 2.5f * d[3] + d[1];
        to[2] = p + A * q;
        to[3] = p - A * q;
        to[4] = r + B * s;
        to[5] = r - B * s;
    } else {
        to[0] = d[2] - 0.5f * d[0];
        to[1] = d[3] - 0.5f * d[1];
        to[2] = d[2] + A * d[1];
        to[3] = d[2] - A * d[1];
    }
}

/* 4 pixels of 6 points, or 2 of 4. */
GW_INLINE void output_line(int64_t n, const vf *d, vf *to) {
    if (n == 6) {
        const vf p = -2 / 3.0f * (d[2] + d[3]), q = -2 / 3.0f * A * (d[2] - d[3]);
        const vf r = 1 / 6.0f * (d[4] + d[5]), s = 1 / 6.0f * B * (d[4] - d[5]);
        to[0] = d[0] + p + r;
        to[1] = q + s;
        to[2] = 0.5f * p + 2.0f * r;
        to[3] = 0.5f * q + (2.0f * s + d[1]);
    } else {
        to[0] = d[2] + d[3] - 2.0f * d[0];
        to[1] = A * (d[2] - d[3]) + d[1];
    }
}

"""
"""C text of the transforms of a line."""

INPUT: Final = """\
/* Points of a line that has so many pixels left: the last tile of a line may have 2 pixels. */
GW_INLINE int64_t points@M@(int64_t pixels) { return pixels > 2 ? N : 4; }

/* The vertical transforms of the columns of a run, [column][N][VL]; zeros outside the image. */
GW_INLINE void input_columns@M@(const struct conv *g, int64_t n, const float *x, int64_t y0, int64_t x0,
                             int64_t columns, float *to) {
    const int64_t from_h = g->s.x_h, top = y0 < 0 ? -y0 : 0, bottom = smaller(n, g->s.h - y0);
    const int64_t first = x0 < 0 ? smaller(-x0, columns) : 0;
    const int64_t inside = smaller(columns, g->s.w - x0);
    const int64_t last = top < bottom && inside > first ? inside : first;
    memset(to, 0, (size_t)(first * N * VL) * sizeof *to);
    memset(to + last * N * VL, 0, (size_t)((columns - last) * N * VL) * sizeof *to);
    if (first == last)
        return;
    const float *from = x + (y0 + top) * from_h + (x0 + first) * VL;
    to += first * N * VL;
    for (int64_t c = first; c < last; c++, from += VL, to += N * VL) {
        vf d[N], points[N];
        if (top == 0 && bottom == n) {
#pragma GCC unroll 6
            for (int64_t i = 0; i < n; i++)
                d[i] = vf_load(from + i * from_h);
        } else {
#pragma GCC unroll 6
            for (int64_t i = 0; i < n; i++)
                d[i] = i >= top && i < bottom ? vf_load(from + (i - top) * from_h) : (vf){0};
        }
        input_line(n, d, points);
#pragma GCC unroll 6
        for (int64_t i = 0; i < n; i++)
            vf_store(to + i * VL, points[i]);
    }
}

/* The planes of a tile from its columns of points. */
GW_INLINE void input_tile@M@(const struct conv *g, int64_t rows, int64_t columns, const float *from,
                             float *to, const struct offsets *o) {
#pragma GCC unroll 6
    for (int64_t i = 0; i < rows; i++, from += VL, to += N * g->in_plane) {
        const int64_t *at = o->at[i >= g->row_points];
        vf d[N], points[N];
#pragma GCC unroll 6
        for (int64_t j = 0; j < columns; j++)
            d[j] = vf_load(from + j * N * VL);
        input_line(columns, d, points);
#pragma GCC unroll 6
        for (int64_t j = 0; j < columns; j++)
            vf_store(to + at[j >= g->column_points] + j * g->in_plane, points[j]);
    }
}

/* The planes [N * N][product][K_RUN channels][ROWS][K_RUN] of the unit's tiles. */
static void transform_input@M@(const struct conv *g, const struct unit *o) {
    float columns[(RUN * M + 2) * N * VL] __attribute__((aligned(64)));
    const float *image = g->x + o->image * g->s.x_n;
    struct offsets places[RUN];
    for (int64_t at = 0; at < o->tiles;) {
        const struct run r = run_at(g, o, at);
        const int64_t y0 = r.row * M - g->s.pad_top, x0 = r.column * M - g->s.pad_left;
        const int64_t rows = points@M@(g->s.oh - r.row * M), width = g->s.ow - r.column * M;
        const int64_t count = (r.count - 1) * M + points@M@(width - (r.count - 1) * M);
        for (int64_t t = 0; t < r.count; t++)
            places[t] = input_offsets(g, o, r.row, r.column + t);
        for (int64_t b = 0; b < g->in_blocks; b++) {
            const float *x = image + b * g->s.x_cb;
            const int64_t lane = b * VL % K_RUN;
            float *to = g->in + (b * VL - lane) * ROWS + lane;
            if (rows == N)
                input_columns@M@(g, N, x, y0, x0, count, columns);
            else
                input_columns@M@(g, 4, x, y0, x0, count, columns);
            for (int64_t t = 0; t < r.count; t++) {
                const float *from = columns + t * M * N * VL;
                const int whole = points@M@(width - t * M) == N;
                if (rows == N && whole)
                    input_tile@M@(g, N, N, from, to, &places[t]);
                else if (rows == N)
                    input_tile@M@(g, N, 4, from, to, &places[t]);
                else if (whole)
                    input_tile@M@(g, 4, N, from, to, &places[t]);
                else
                    input_tile@M@(g, 4, 4, from, to, &places[t]);
            }
        }
        at += r.count;
    }
}
"""
"""C text of ``transform_input@M@(g, o)``, for the kernel's structs: a unit's tiles to planes."""

OUTPUT: Final = """\
/* The pixels [rows][columns][VL] of a tile; from: its places in the planes, by kind. */
GW_INLINE void output_tile@M@(const struct conv *g, int64_t rows, int64_t columns, const float *from,
                           const struct offsets *o, vf *to) {
    vf t[M * N];
#pragma GCC unroll 6
    for (int64_t j = 0; j < columns; j++) {
        vf d[N], line[M];
#pragma GCC unroll 6
        for (int64_t i = 0; i < rows; i++)
            d[i] = vf_load(from + (i * N + j) * g->out_plane +
                           o->at[i >= g->row_points][j >= g->column_points]);
        output_line(rows, d, line);
#pragma GCC unroll 4
        for (int64_t i = 0; i < rows - 2; i++)
            t[i * N + j] = line[i];
    }
#pragma GCC unroll 4
    for (int64_t i = 0; i < rows - 2; i++)
        output_line(columns, t + i * N, to + i * M);
}

/* The pixels of a tile that the image has. */
GW_INLINE void store_tile@M@(const struct conv *g, int64_t height, int64_t width, const vf *pixels, vf bias,
                             const float *residual, float *to, int64_t to_h) {
    for (int64_t i = 0; i < height; i++, to += to_h) {
#pragma GCC unroll 4
        for (int64_t j = 0; j < width; j++)
            store(g, g->s.act, to + j * VL, pixels[i * M + j] + bias, residual ? residual + j * VL : NULL);
        residual += residual ? g->s.r_h : 0;
    }
}

/* The pixels of a run of tiles of one block of channels, in the output or through the hook. */
static int32_t output_run@M@(const struct conv *g, const struct unit *o, const struct outputs *c,
                          const struct run *r, int64_t b) {
    const struct args *s = &g->s;
    const int64_t block = c->first + b;
    const int64_t y0 = r->row * M, x0 = r->column * M, rows = points@M@(s->oh - y0);
    const int64_t height = smaller(M, s->oh - y0), width = smaller(r->count * M, s->ow - x0);
    float pixels[M * RUN * M * VL] __attribute__((aligned(64)));
    const int64_t to_h = g->hook ? width * VL : s->y_h;
    float *to = g->hook ? pixels : g->y + o->image * s->y_n + block * s->y_cb + y0 * s->y_h + x0 * VL;
    const float *residual = g->residual;
    if (residual)
        residual += o->image * s->r_n + block * s->r_cb + y0 * s->r_h + x0 * VL;
    const vf bias = g->bias ? vf_load(g->bias + block * VL) : (vf){0};
    for (int64_t t = 0; t < r->count; t++) {
        const int64_t x = t * M, columns = points@M@(width - x);
        struct offsets places;
        vf tile_pixels[M * M];
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++) {
                const int64_t place = number(g, r->row, r->column + t, j) - o->places[i][j].first;
                places.at[i][j] = (place * c->count + b) * VL;
            }
        if (rows == N && columns == N)
            output_tile@M@(g, N, N, g->out, &places, tile_pixels);
        else if (rows == N)
            output_tile@M@(g, N, 4, g->out, &places, tile_pixels);
        else if (columns == N)
            output_tile@M@(g, 4, N, g->out, &places, tile_pixels);
        else
            output_tile@M@(g, 4, 4, g->out, &places, tile_pixels);
        const float *add = residual ? residual + x * VL : NULL;
        if (height == M && width - x >= M)
            store_tile@M@(g, M, M, tile_pixels, bias, add, to + x * VL, to_h);
        else
            store_tile@M@(g, height, smaller(M, width - x), tile_pixels, bias, add, to + x * VL, to_h);
    }
    if (!g->hook)
        return 0;
    /* rows of pixels follow each other where the run covers the image */
    const int64_t lines = width == s->ow ? height : 1, batch = o->image * g->out_blocks + block;
    for (int64_t y = 0; y < height; y += lines) {
        const int32_t error = g->hook(g->hook_buf, g->hook_arg, pixels + y * to_h, VL, batch,
                                      (y0 + y) * s->ow + x0, lines * width, 0, VL);
        if (error)
            return error;
    }
    return 0;
}

static int32_t transform_output@M@(const struct conv *g, const struct unit *o, const struct outputs *c) {
    for (int64_t at = 0; at < o->tiles;) {
        const struct run r = run_at(g, o, at);
        for (int64_t b = 0; b < c->count; b++) {
            const int32_t error = output_run@M@(g, o, c, &r, b);
            if (error)
                return error;
        }
        at += r.count;
    }
    return 0;
}
"""
"""C text of ``transform_output@M@(g, o, c)``: planes of products to the image or the hook."""

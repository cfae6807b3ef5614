"""Winograd convolution, 3x3 with stride 1: y = act(conv(x, w) + bias + residual), f32, blocked activations.

An output tile of m x m pixels takes (m + 2)^2 products per pair of channels where direct convolution takes
9 m^2 (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015). F(4x4) interpolates at 0,
+-sqrt(1/2), +-sqrt(2) and infinity, which doubles direct's rms error where the points 1 and 2 make it four
times as large (on points: Barabasz et al., "Error Analysis and Improving the Accuracy of Winograd Convolution
for Deep Neural Networks", 2020; Alam et al., "Winograd Convolution for Deep Neural Networks: Efficient Point
Selection", 2022). F(2x2) at 0, +-sqrt(1/2) and infinity is more exact than direct.

The last row and column of F(4x4)'s tiles have 2 pixels where no more are left, and take the points of
F(2x2) alone. What depends on the set of points stands in the transforms of the input and of the products, so
that all tiles share their weights.

A unit of the grid is a block of tiles of one image times some output channels: the input's transform goes
to scratch as (m + 2)^2 planes, each plane is multiplied with its matrix of weights, and the products are
transformed back. Weights lie in the order in which they are read; F(4x4)'s at +-sqrt(2) in the horizontal
direction are made of those at the other four points, since few tiles meet each weight and wait for it. Units
of one block in a chunk share the transformed input. Every sum runs over the channels in order, whatever the
chunking.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from graphwright.ir.symbols import Dim, ceildiv, evaluate, floordiv, maximum, minimum
from graphwright.kernels.library.isa import Isa, args_struct, prelude
from graphwright.kernels.library.tile import HELPERS
from graphwright.kernels.library.winograd_tile import K_RUN, product_rows, product_vectors, products
from graphwright.records import dataclass

SYMBOLS: Final = {4: "gw_winograd4_f32", 2: "gw_winograd2_f32"}
"""The kernel of each m."""

OPERANDS: Final = ("x", "w", "bias", "residual", "y")
"""``w`` as :func:`transform_weights` gives it; ``bias`` [channel blocks * VL] and ``residual`` (as y)
may be absent; ``y`` is ignored when there is a hook. The hook, or a null pointer, comes next; a tile is some
pixels (rows) of one channel block (columns), its batch the image times the channel blocks plus the block."""

Array = npt.NDArray[Any]


class WinogradArgs(NamedTuple):
    """The kernel's args in ABI order; strides in elements. Pads at the end follow from oh and ow."""

    images: Dim
    cin: Dim
    cout: Dim
    h: Dim
    w: Dim
    oh: Dim
    ow: Dim
    pad_top: Dim
    pad_left: Dim
    x_n: Dim
    x_cb: Dim
    x_h: Dim
    r_n: Dim
    r_cb: Dim
    r_h: Dim
    y_n: Dim
    y_cb: Dim
    y_h: Dim
    act: Dim
    """0 none, 1 relu, 2 clip to [lo, hi]."""
    lo: Dim
    """The bits of an f32, as are those of ``hi``."""
    hi: Dim
    block_tiles: Dim
    """Tiles of a block at most, and groups of up to three output channel blocks of a unit: see
    :func:`blocking`."""
    unit_groups: Dim


_ROOT: Final = 0.5**0.5
_FINITE: Final = (0.0, _ROOT, -_ROOT, 2 * _ROOT, -2 * _ROOT)
"""Where polynomials are evaluated, the first three for m = 2. Infinity stands behind the first of them."""

_STORED: Final = 4
"""Points of a line whose weights are packed: those at +-sqrt(2) take less time to make than to read."""

_RUN: Final = 14
"""Tiles of a row that are transformed at once."""

_L2_BYTES: Final = 1 << 20
_TRANSFORMED_BYTES: Final = _L2_BYTES // 2
"""Of weights in f64, which are rounded before they leave the cache."""
_PLANES_BYTES: Final = 7 * _L2_BYTES // 10
"""What a block's planes take of it."""
_BLOCK_TILES: Final = 56
"""Tiles of a block at most."""
_UNIT_CHANNELS: Final = 256
"""Output channels of a unit at most."""
_FEW_BLOCKS: Final = 4
"""Fewer blocks of tiles than this do not occupy two threads evenly."""


def _weight_matrix(m: int) -> Array:
    """G [m + 2, 3], f64: a filter's values at the points."""
    first, *others = [[1, p, p * p] for p in _FINITE[: m + 1]]
    return np.array([first, [0, 0, 1], *others])


def transformed_shape(cout: int, cin: int, m: int, isa: Isa) -> tuple[int, int]:
    """The shape of what :func:`transform_weights` makes."""
    return -(-cout // isa.lanes), (m + 2) * _STORED * cin * isa.lanes


def transform_weights(out: Array, w: Array, m: int, isa: Isa) -> None:
    """Weights [Cout, Cin, 3, 3] into f32 [CoutB, (m + 2) * 4 * Cin * VL], computed in f64, rounded once.

    Groups of up to three output channel blocks lie together as [m + 2, 4, Cin, blocks, VL]: at the
    first four points of each line. The kernel makes the others of them.
    """
    cout, cin = w.shape[:2]
    matrix, lanes = np.kron(_weight_matrix(m), _weight_matrix(m)[:_STORED]), isa.lanes
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


def tiles(m: int, args: WinogradArgs) -> Dim:
    """Output tiles of an image."""
    return ceildiv(args.oh, m) * ceildiv(args.ow, m)


def _groups(isa: Isa, cout: Dim) -> Dim:
    """Groups of output channel blocks."""
    return ceildiv(ceildiv(cout, isa.lanes), product_vectors(isa))


def grid(m: int, isa: Isa, args: WinogradArgs) -> Dim:
    """Units of work: images, blocks of tiles, groups of output channels (fastest)."""
    blocks = ceildiv(tiles(m, args), args.block_tiles)
    return args.images * blocks * ceildiv(_groups(isa, args.cout), args.unit_groups)


def _plane(elements: Dim) -> Dim:
    """Elements from one plane to the next: an odd number of cache lines, so that planes do not alias."""
    return (2 * floordiv(elements, 32) + 3) * 16


def scratch_bytes(m: int, isa: Isa, args: WinogradArgs) -> Dim:
    """Planes of a block's input and of its products with a group of outputs; weights of two more."""
    rows = product_rows(isa)
    inputs = _plane(ceildiv(args.block_tiles, rows) * rows * ceildiv(args.cin, K_RUN) * K_RUN)
    products = _plane(args.block_tiles * product_vectors(isa) * isa.lanes)
    weights = (m + 2 - _STORED) * args.cin * product_vectors(isa) * isa.lanes
    return 4 * ((m + 2) ** 2 * (inputs + products) + weights)


def blocking(m: int, isa: Isa, images: Dim, cin: int, cout: int, oh: Dim, ow: Dim) -> tuple[Dim, Dim]:
    """``block_tiles`` and ``unit_groups``, by sizes alone.

    Planes of as many tiles as fit the L2 cache; of more, if reading their planes again for each group of
    outputs takes fewer bytes than reading the weights again for each block. A few blocks make two units each,
    that two threads have work.
    """
    width = product_vectors(isa) * isa.lanes
    groups, planes = -(-cout // width), 4 * (m + 2) ** 2
    fitting = min(max(_PLANES_BYTES // (planes * (cin + width)), 1), _BLOCK_TILES)
    weights = planes * cin * cout  # read or made
    many = weights // _BLOCK_TILES + groups * planes * cin < weights // fitting
    most = _BLOCK_TILES if many else fitting
    count = ceildiv(oh, m) * ceildiv(ow, m)
    blocks = maximum(1, ceildiv(count, most))
    whole = min(groups, -(-_UNIT_CHANNELS // width))
    unit = minimum(whole, maximum(-(-groups // 2), whole * floordiv(images * blocks, _FEW_BLOCKS)))
    return maximum(1, ceildiv(count, blocks)), unit


def dense_args(
    m: int, isa: Isa, images: Dim, cin: int, cout: int, oh: Dim, ow: Dim, *,
    pads: tuple[int, int, int, int] = (0, 0, 0, 0), act: int = 0, lo: int = 0, hi: int = 0,
) -> WinogradArgs:  # fmt: skip
    """The args for dense operands; ``pads``: top, left, bottom, right; ``lo``, ``hi``: bits of an f32."""
    h, w = oh + 2 - pads[0] - pads[2], ow + 2 - pads[1] - pads[3]
    block_tiles, unit_groups = blocking(m, isa, images, cin, cout, oh, ow)
    x_strides = _dense_strides(isa, cin, h, w)
    y_strides = _dense_strides(isa, cout, oh, ow)
    return WinogradArgs(
        images, cin, cout, h, w, oh, ow, pads[0], pads[1], *x_strides, *y_strides, *y_strides,
        act, lo, hi, block_tiles, unit_groups,
    )  # fmt: skip


def _dense_strides(isa: Isa, channels: int, h: Dim, w: Dim) -> tuple[Dim, Dim, Dim]:
    """From one image, channel block and row to the next."""
    row = w * isa.lanes
    return -(-channels // isa.lanes) * h * row, h * row, row


@dataclass(frozen=True)
class _Speeds:
    """What one core does: products in GFLOP/s, nanoseconds to transform a tile of VL channels in and out."""

    gflops: int
    direct_gflops: int
    transforms_ns: dict[int, int]


_SPEEDS: Final = {
    "v4": _Speeds(gflops=125, direct_gflops=133, transforms_ns={4: 300, 2: 90}),
    "v3": _Speeds(gflops=58, direct_gflops=60, transforms_ns={4: 260, 2: 80}),
}
"""Cascade Lake at 2.3 GHz under AVX-512, whose limit is 148 GFLOP/s, and under AVX2."""

_MEMORY_GBS: Final = 12
"""Weights come from memory, since a model's other layers have gone through the caches since. Cascade Lake."""

_MADE_NS: Final = 14
"""To make VL weights of a channel at a point that is not packed, in all lines."""
_L3_GBS: Final = 25
_L3_BYTES: Final = 24 << 20
"""Weights that the L3 cache keeps come from there for the blocks after the first. Cascade Lake, 36 MiB."""


def _overlapped(compute_ns: Dim, stream_ns: Dim) -> Dim:
    """Weights stream by while products are formed; measured, the shorter still costs 0.2 of itself."""
    return maximum(compute_ns, stream_ns) + floordiv(minimum(compute_ns, stream_ns), 5)


def _points(m: int, pixels: Dim) -> Dim:
    """Points of a line of so many pixels."""
    last = pixels - (ceildiv(pixels, m) - 1) * m  # where m is 4, up to 2 pixels take 4 points and not 6
    return (m + 2) * ceildiv(pixels, m) - (2 * (1 - floordiv(last, 3)) if m == 4 else 0)


def work_ns(m: int, isa: Isa, args: WinogradArgs) -> Dim:
    """Time on one core: products and the stream of weights, then both transforms."""
    speeds = _SPEEDS[isa.name]
    in_blocks, out_blocks = ceildiv(args.cin, isa.lanes), ceildiv(args.cout, isa.lanes)
    count = args.images * tiles(m, args)
    flops = 2 * args.images * _points(m, args.oh) * _points(m, args.ow) * args.cin * out_blocks * isa.lanes
    weights = 4 * (m + 2) * _STORED * args.cin * out_blocks * isa.lanes
    again = (args.images * ceildiv(tiles(m, args), args.block_tiles) - 1) * weights
    again *= minimum(1, floordiv(weights, _L2_BYTES))
    kept = minimum(1, floordiv(_L3_BYTES, maximum(1, weights)))
    stream = ceildiv(weights + (1 - kept) * again, _MEMORY_GBS) + floordiv(kept * again, _L3_GBS)
    # planes that the L2 cache does not hold are written to the next one and read again for each group
    planes = scratch_bytes(m, isa, args) * (1 + _groups(isa, args.cout))
    passes = floordiv(args.images * tiles(m, args), maximum(1, args.block_tiles))
    beyond = minimum(1, floordiv(scratch_bytes(m, isa, args), _L2_BYTES))
    stream += beyond * floordiv(planes * passes, _L3_GBS)
    transforms = floordiv(count * (in_blocks + out_blocks) * speeds.transforms_ns[m], 2)
    blocks = args.images * ceildiv(tiles(m, args), args.block_tiles)
    made = blocks * args.cin * out_blocks * (m + 2 - _STORED) * _MADE_NS
    return _overlapped(ceildiv(flops, speeds.gflops) + made, stream) + transforms


def _direct_ns(isa: Isa, images: int, cin: int, cout: int, oh: int, ow: int) -> int:
    """What direct convolution of the same sizes takes."""
    outputs = -(-cout // isa.lanes) * isa.lanes
    flops, weights = 18 * images * oh * ow * cin * outputs, 36 * cin * outputs
    compute, stream = flops // _SPEEDS[isa.name].direct_gflops, weights // _MEMORY_GBS
    return max(compute, stream) + min(compute, stream) // 5


def choose(isa: Isa, images: int, cin: int, cout: int, oh: int, ow: int) -> Literal["direct", 2, 4]:
    """Which takes least on dense blocked images: direct, or Winograd with tiles of 2 x 2 or of 4 x 4."""
    costs: dict[Literal["direct", 2, 4], Dim] = {"direct": _direct_ns(isa, images, cin, cout, oh, ow)}
    forms: tuple[Literal[2, 4], ...] = (2, 4)
    for m in forms:
        costs[m] = work_ns(m, isa, dense_args(m, isa, images, cin, cout, oh, ow, pads=(1, 1, 1, 1)))
    return min(costs, key=lambda form: evaluate(costs[form], {}))


def source(isa: Isa) -> str:
    """One C11 file with :data:`SYMBOLS`."""
    constants = f"""
#define STORED {_STORED} /* points of a line whose weights are packed */
#define ARGS {len(WinogradArgs._fields)}
#define RUN {_RUN} /* tiles of a row that are transformed at once */
#define OPERANDS {len(OPERANDS)}
#define A {_ROOT:.9g}f
#define B {2 * _ROOT:.9g}f
"""
    fields = args_struct(WinogradArgs._fields)
    head = [prelude(isa), constants, fields, HELPERS, products(isa), _COMMON]
    forms = [
        _BODY.replace("@M@", str(m)).replace("@N@", str(m + 2)).replace("@SYMBOL@", symbol)
        for m, symbol in SYMBOLS.items()
    ]
    return "\n".join([*head, *forms])


_COMMON: Final = """
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

/* Which planes a tile is in: those of the last row or column of tiles, if it is smaller, are in fewer. */
struct places {
    int64_t first;     /* of the unit's tiles */
    int64_t count;
    int64_t rows; /* of each product but the last */
};

struct conv {
    struct args s;
    const float *x, *w, *bias, *residual;
    float *y;
    gw_hook hook;
    void *const *hook_buf;
    const int64_t *hook_arg;
    float lo, hi;
    int64_t in_blocks, out_blocks; /* of channels */
    int64_t in_runs;               /* of K_RUN channels */
    int64_t tile_rows, row_tiles;  /* of an image */
    int64_t row_points, column_points; /* of the last row and column of tiles */
    int64_t in_plane, out_plane; /* elements from one plane of scratch to the next */
    float *in, *out, *made;
};

/* Tiles [tile, tile + tiles) of an image. */
struct unit {
    int64_t image, tile, tiles;
    struct places places[2][2]; /* of planes that smaller tiles are not in: by row, by column */
};

/* Tiles of one row of tiles: count of them from the tile at (row, column), number at in the unit. */
struct run {
    int64_t row, column, count, at;
};

GW_INLINE struct run run_at(const struct conv *g, const struct unit *o, int64_t at) {
    const int64_t row = quotient(o->tile + at, g->row_tiles), column = o->tile + at - row * g->row_tiles;
    const int64_t count = smaller(smaller(g->row_tiles - column, o->tiles - at), RUN);
    return (struct run){row, column, count, at};
}

/* The number of the tile at (row, column) among those that planes have, which may lack the last column. */
GW_INLINE int64_t number(const struct conv *g, int64_t row, int64_t column, int without_last_column) {
    return row * (g->row_tiles - without_last_column) + column;
}

static struct places places_of(const struct conv *g, const struct unit *o, int by_row, int by_column) {
    const int64_t begin = smaller(o->tile, (g->tile_rows - by_row) * g->row_tiles);
    const int64_t end = smaller(o->tile + o->tiles, (g->tile_rows - by_row) * g->row_tiles);
    const int64_t begin_row = quotient(begin, g->row_tiles), end_row = quotient(end, g->row_tiles);
    const int64_t first = number(g, begin_row, begin - begin_row * g->row_tiles, by_column);
    const int64_t count = number(g, end_row, end - end_row * g->row_tiles, by_column) - first;
    const int64_t rows = count ? parts(count, parts(count, ROWS)) : ROWS;
    return (struct places){first, count, rows};
}

GW_INLINE int64_t plane_size(int64_t elements) {
    return (elements / 32 * 2 + 3) * 16; /* an odd number of cache lines */
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

/* Weights at +-sqrt(2) of those at 0, infinity and +-sqrt(1/2): of w0 + 2 w2 +- sqrt(2) w1. */
GW_INLINE void make_weights(const float *w, int64_t panel, float *to) {
    for (int64_t i = 0; i < panel; i += VL) {
        const vf even = vf_load(w + i) + 2.0f * vf_load(w + panel + i);
        const vf odd = vf_load(w + 2 * panel + i) - vf_load(w + 3 * panel + i);
        vf_store(to + i, even + odd);
        vf_store(to + panel + i, even - odd);
    }
}

/* Output channel blocks [first, first + count), whose weights lie together. */
struct outputs {
    int64_t first, count;
};

/* Offsets of a tile in the planes, by kind. */
struct offsets {
    int64_t at[2][2];
};

/* Where the first channel of a tile stands, [product][K_RUN channels][ROWS][K_RUN]. */
GW_INLINE struct offsets input_offsets(const struct conv *g, const struct unit *o, int64_t row,
                                        int64_t column) {
    struct offsets made;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            const struct places *p = &o->places[i][j];
            const int64_t place = number(g, row, column, j) - p->first, product = quotient(place, p->rows);
            made.at[i][j] = (product * g->in_runs * ROWS + place - product * p->rows) * K_RUN;
        }
    return made;
}
"""

_BODY: Final = """
#define M @M@
#define N @N@ /* points of a line: M + 2 */

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

/* The products of a group of output channels in all planes. */
static void multiply@M@(const struct conv *g, const struct unit *o, const struct outputs *c) {
    const int64_t cin = g->s.cin, panel = cin * c->count * VL;
    const float *w = g->w + c->first * N * STORED * cin * VL;
    for (int64_t line = 0; line < N; line++, w += STORED * panel) {
        for (int64_t column = 0; column < N; column++) {
            const int64_t plane = line * N + column;
            const struct places *p = &o->places[line >= g->row_points][column >= g->column_points];
            const float *in = g->in + plane * g->in_plane;
            const float *u = column < STORED ? w + column * panel : g->made + (column - STORED) * panel;
            float *y = g->out + plane * g->out_plane;
            if (p->count == 0)
                continue;
            if (column == STORED)
                make_weights(w, panel, g->made);
            /* N planes fetch the weights of STORED ones evenly; lines come in pairs */
            const int64_t share = panel * STORED / N;
            const float *ahead = w + (N == STORED ? 1 : 2) * panel + column * share;
            const int64_t fetches = parts(p->count, p->rows) * parts(cin, TURN) * FETCHES;
            const int64_t step = smaller(parts(4 * share, fetches), 128);
            for (int64_t at = 0; at < p->count; at += p->rows) {
                product_of[smaller(p->rows, p->count - at) - 1][c->count - 1](cin, in, u, y, ahead, step);
                in += g->in_runs * ROWS * K_RUN;
                y += p->rows * c->count * VL;
                ahead += cin / TURN * FETCHES * step / 4;
            }
        }
    }
}

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

GW_EXPORT int32_t @SYMBOL@(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    struct conv g = {
        .x = buf[0],
        .w = buf[1],
        .bias = buf[2],
        .residual = buf[3],
        .y = buf[4],
        .hook_buf = buf + OPERANDS + 1,
        .hook_arg = arg + ARGS,
    };
    struct args *s = &g.s;
    memcpy(s, arg, sizeof *s);
    memcpy(&g.hook, &buf[OPERANDS], sizeof g.hook);
    memcpy(&g.lo, &s->lo, sizeof g.lo);
    memcpy(&g.hi, &s->hi, sizeof g.hi);
    g.in_blocks = parts(s->cin, VL);
    g.out_blocks = parts(s->cout, VL);
    g.in_runs = parts(s->cin, K_RUN);
    g.row_tiles = parts(s->ow, M);
    g.tile_rows = parts(s->oh, M);
    g.row_points = points@M@(s->oh - (g.tile_rows - 1) * M);
    g.column_points = points@M@(s->ow - (g.row_tiles - 1) * M);
    g.in_plane = plane_size(parts(s->block_tiles, ROWS) * ROWS * g.in_runs * K_RUN);
    g.out_plane = plane_size(s->block_tiles * VECTORS * VL);
    g.made = scratch;
    g.out = g.made + (N - STORED) * s->cin * VECTORS * VL;
    g.in = g.out + N * N * g.out_plane;
    const int64_t tiles = g.tile_rows * g.row_tiles;
    const int64_t groups = parts(g.out_blocks, VECTORS);
    const int64_t blocks = parts(tiles, s->block_tiles), units = parts(groups, s->unit_groups);
    int64_t transformed = -1;
    for (; begin < end; begin++) {
        const int64_t outer = begin / units, block = outer % blocks, first = begin % units * s->unit_groups;
        const int64_t tile = cut(tiles, block, blocks), last = smaller(groups, first + s->unit_groups);
        struct unit o = {
            .image = outer / blocks,
            .tile = tile,
            .tiles = cut(tiles, block + 1, blocks) - tile,
        };
        for (int i = 0; i < 4; i++)
            o.places[i / 2][i % 2] = places_of(&g, &o, i / 2, i % 2);
        if (outer != transformed)
            transform_input@M@(&g, &o);
        transformed = outer;
        for (int64_t b = first; b < last; b++) {
            const int64_t block = cut(g.out_blocks, b, groups);
            const struct outputs c = {block, cut(g.out_blocks, b + 1, groups) - block};
            multiply@M@(&g, &o, &c);
            const int32_t error = transform_output@M@(&g, &o, &c);
            if (error)
                return error;
        }
    }
    return 0;
}
#undef M
#undef N
"""

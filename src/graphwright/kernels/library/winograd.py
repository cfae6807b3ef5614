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

from typing import Final, NamedTuple

from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum, symbol
from graphwright.kernels.library.extent import BITS, PAD, SIGNED, Extent, Reach, Tiles, dense, within
from graphwright.kernels.library.tile import HELPERS
from graphwright.kernels.library.winograd_tile import K_RUN, product_rows, product_vectors, products
from graphwright.kernels.library.winograd_transforms import INPUT, LINES, OUTPUT, ROOT, STORED
from graphwright.targets.cpu.isa import Isa, args_struct, prelude

SYMBOLS: Final = {4: "gw_winograd4_f32", 2: "gw_winograd2_f32"}
"""The kernel of each m."""

OPERANDS: Final = ("x", "w", "bias", "residual", "y")
"""``w`` transformed (module ``winograd_transforms``); ``bias`` [channel blocks * VL] and ``residual`` (as y)
may be absent; ``y`` is ignored when there is a hook. The hook, or a null pointer, comes next; a tile is some
pixels (rows) of one channel block (columns), its batch the image times the channel blocks plus the block."""


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


_RUN: Final = 14
"""Tiles of a row that are transformed at once."""

L2_BYTES: Final = 1 << 20
_PLANES_BYTES: Final = 7 * L2_BYTES // 10
"""What a block's planes take of it."""
_BLOCK_TILES: Final = 56
"""Tiles of a block at most."""
_UNIT_CHANNELS: Final = 256
"""Output channels of a unit at most."""
_FEW_BLOCKS: Final = 4
"""Fewer blocks of tiles than this do not occupy two threads evenly."""


def tiles(m: int, args: WinogradArgs) -> Dim:
    """Output tiles of an image."""
    return ceildiv(args.oh, m) * ceildiv(args.ow, m)


def output_groups(isa: Isa, cout: Dim) -> Dim:
    """Groups of output channel blocks."""
    return ceildiv(ceildiv(cout, isa.lanes), product_vectors(isa))


def grid(m: int, isa: Isa, args: WinogradArgs) -> Dim:
    """Units of work: images, blocks of tiles, groups of output channels (fastest)."""
    blocks = ceildiv(tiles(m, args), args.block_tiles)
    return args.images * blocks * ceildiv(output_groups(isa, args.cout), args.unit_groups)


def _plane(elements: Dim) -> Dim:
    """Elements from one plane to the next: an odd number of cache lines, so that planes do not alias."""
    return (2 * floordiv(elements, 32) + 3) * 16


def scratch_bytes(m: int, isa: Isa, args: WinogradArgs) -> Dim:
    """Planes of a block's input and of its products with a group of outputs; weights of two more."""
    rows = product_rows(isa)
    inputs = _plane(ceildiv(args.block_tiles, rows) * rows * ceildiv(args.cin, K_RUN) * K_RUN)
    products = _plane(args.block_tiles * product_vectors(isa) * isa.lanes)
    weights = (m + 2 - STORED) * args.cin * product_vectors(isa) * isa.lanes
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


def extents(isa: Isa) -> tuple[Extent, ...]:
    """How far both kernels reach: pixels outside the image are not read."""
    return tuple(_extent(m, isa) for m in SYMBOLS)


def _extent(m: int, isa: Isa) -> Extent:
    a = WinogradArgs(*map(symbol, WinogradArgs._fields))
    inputs, outputs = ceildiv(a.cin, isa.lanes), ceildiv(a.cout, isa.lanes)
    pixels = (a.ow * isa.lanes, 1)
    x = ((a.images, a.x_n), (inputs, a.x_cb), (a.h, a.x_h), (a.w * isa.lanes, 1))
    residual = ((a.images, a.r_n), (outputs, a.r_cb), (a.oh, a.r_h), pixels)
    y = ((a.images, a.y_n), (outputs, a.y_cb), (a.oh, a.y_h), pixels)
    return Extent(
        SYMBOLS[m],
        WinogradArgs._fields,
        (
            Reach(4, x),
            dense(4, (m + 2) * STORED, a.cin, outputs * isa.lanes),
            dense(4, outputs * isa.lanes, optional=True),
            Reach(4, residual, optional=True),
            Reach(4, y, unhooked=True),
        ),
        grid=grid(m, isa, a),
        scratch=scratch_bytes(m, isa, a),
        bounds=within(SIGNED, *WinogradArgs._fields[9:18])
        | within(PAD, "pad_top", "pad_left")
        | within(BITS, "lo", "hi"),
        at_least_0=(a.block_tiles - 1, a.unit_groups - 1),
        tiles=Tiles(a.images * outputs, a.oh * a.ow, isa.lanes),
    )


def source(isa: Isa) -> str:
    """One C11 file with :data:`SYMBOLS`."""
    constants = f"""
#define STORED {STORED} /* points of a line whose weights are packed */
#define ARGS {len(WinogradArgs._fields)}
#define RUN {_RUN} /* tiles of a row that are transformed at once */
#define OPERANDS {len(OPERANDS)}
#define A {ROOT:.9g}f
#define B {2 * ROOT:.9g}f
"""
    fields = args_struct(WinogradArgs._fields)
    head = [prelude(isa), constants, fields, HELPERS, products(isa), LINES + _COMMON]
    body = _BODY.replace("@INPUT@", INPUT).replace("@OUTPUT@", OUTPUT)
    forms = [
        body.replace("@M@", str(m)).replace("@N@", str(m + 2)).replace("@SYMBOL@", symbol)
        for m, symbol in SYMBOLS.items()
    ]
    return "\n".join([*head, *forms])


_COMMON: Final = """\
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

@INPUT@
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

@OUTPUT@
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

"""Direct convolution into channel blocks: y = act(conv(x, w) + bias + residual), f32.

The input is in channel blocks too, or planar (the first layer: a few channels). Tiles of pixels times output
blocks (module ``blocked_tile``) run over all taps and channels while their sums stay in registers. A unit of
the grid is a band of output pixels and a few output blocks; its input stays in the L2 cache while the weights
stream by.

Tiles read the input where it is, unless columns are padded or strided: then the unit copies the rows of its
band to scratch, with zeros around them and columns sorted by their remainder modulo the stride, so that the
pixels of a tap are neighbours for any stride and dilation. Taps above and below the image are left out.

Convolutions of more weights than the cache holds run in parts of the channels, whose sums wait in scratch.
Bands, tiles and parts depend on the sizes alone, so any chunking gives the same bits.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum
from graphwright.kernels.library.blocked_tile import (
    MAX_BLOCKS,
    STRUCT,
    Tile,
    row_tiles,
    tile_functions,
    tile_name,
    tile_table,
    widest,
)
from graphwright.kernels.library.isa import Isa, prelude
from graphwright.kernels.library.tile import HELPERS

SYMBOL: Final = "gw_direct_f32"
"""Input in channel blocks."""
PLANAR_SYMBOL: Final = "gw_direct_planar_f32"
"""Input row-major, or of any strides."""

OPERANDS: Final = ("x", "w", "bias", "residual", "y")
"""``w`` in blocks of VL output channels, and for :data:`SYMBOL` of VL input channels outside them
(OIHW16i16o); ``bias`` [channel blocks * VL] and ``residual`` (as y) may be absent; ``y`` is ignored when
there is a hook. The hook, or a null pointer, comes next; a tile is some pixels (rows) of one channel block
(columns), its batch the image times the channel blocks of all groups plus the block. If y is planar, a tile
is some channels (rows) and pixels (columns) of an image (batch)."""


class DirectArgs(NamedTuple):
    """The args of both kernels in ABI order; strides in elements. Pads at the end follow from oh, ow."""

    images: Dim
    groups: Dim
    """More than one only if channels of a group fill whole blocks."""
    cin: Dim
    """Input channels per group."""
    cout: Dim
    """Output channels per group."""
    h: Dim
    w: Dim
    oh: Dim
    ow: Dim
    kh: Dim
    kw: Dim
    stride_h: Dim
    stride_w: Dim
    pad_top: Dim
    """Negative where rows are left out."""
    pad_left: Dim
    dilation_h: Dim
    dilation_w: Dim
    x_n: Dim
    x_c: Dim
    """Between channel blocks; between channels if planar."""
    x_h: Dim
    x_w: Dim
    """VL unless planar."""
    r_n: Dim
    r_c: Dim
    r_h: Dim
    y_n: Dim
    y_c: Dim
    y_h: Dim
    y_w: Dim
    """Between pixels: VL (1 if y is planar), or more where other pixels lie between."""
    y_lanes: Dim
    """VL, or 1 if y is planar: then y_c is between channels, and there is no residual."""
    split_h: Dim
    """Rows of y per row of output, in a transposed convolution whose windows do not overlap: output blocks
    (channels if y is planar) are those of the first row, each for all columns, then those of the next.
    y_h is ``split_h`` rows of y, y_w ``split_w`` pixels; there is no residual and no hook."""
    split_w: Dim
    act: Dim
    """0 none, 1 relu, 2 clip to lo and hi."""
    lo: Dim
    """The bits of an f32, as of hi."""
    hi: Dim


_BAND_BYTES: Final = 512 << 10
"""Input of a band: beside it the weights of two output blocks and some output fit the L2 cache."""

_MIN_COLUMNS: Final = 112
"""Rows are cut into columns no narrower than this."""

_MIN_PIXELS: Final = 56
"""Bands are cut no smaller than this for the sake of several threads."""

_UNITS: Final = 8
"""What several threads would like to share."""

_PART: Final = 2048
"""Taps times input channels of a part: the weights of two output blocks take 256 KB."""


_CACHED: Final = 1 << 20
"""Images of more elements are not in the caches when they are written."""


def unit_blocks(isa: Isa) -> int:
    """64 output channels per unit; one block alone joins the last unit."""
    return 64 // isa.lanes


def _units(isa: Isa, args: DirectArgs) -> Dim:
    """Units that share a band."""
    return maximum(1, floordiv(ceildiv(args.cout, isa.lanes) + unit_blocks(isa) - 2, unit_blocks(isa)))


def _bands(isa: Isa, args: DirectArgs) -> tuple[Dim, Dim]:
    """Bands of rows and of columns that each image is cut into."""
    row = maximum(1, 4 * args.cin * args.stride_w)
    columns = ceildiv(args.ow, maximum(_MIN_COLUMNS, floordiv(_BAND_BYTES, row * maximum(1, args.kh))))
    width = ceildiv(args.ow, maximum(1, columns))
    fitting = maximum(1, floordiv(_BAND_BYTES, maximum(1, row * args.stride_h * width)))
    others = args.images * args.groups * columns * _units(isa, args)
    wished = minimum(ceildiv(_UNITS, maximum(1, others)), maximum(1, floordiv(args.oh * width, _MIN_PIXELS)))
    return minimum(args.oh, maximum(ceildiv(args.oh, fitting), wished)), columns


def grid(isa: Isa, args: DirectArgs) -> Dim:
    """Units of work: images, groups, bands of rows, bands of columns, output blocks (fastest)."""
    rows, columns = _bands(isa, args)
    return args.images * args.groups * rows * columns * _units(isa, args)


def scratch_bytes(isa: Isa, args: DirectArgs) -> Dim:
    """Offsets of the taps, the copied band, sums between parts."""
    return _scratch_bytes(isa, args, isa.lanes)


def planar_scratch_bytes(isa: Isa, args: DirectArgs) -> Dim:
    """:func:`scratch_bytes` of :data:`PLANAR_SYMBOL`."""
    return _scratch_bytes(isa, args, 1)


def _scratch_bytes(isa: Isa, args: DirectArgs, lanes: int) -> Dim:
    row_bands, column_bands = _bands(isa, args)
    rows = ceildiv(args.oh, maximum(1, row_bands))
    columns = ceildiv(args.ow, maximum(1, column_bands))
    taps = args.kh * args.kw
    tall, wide = minimum(1, args.kh - 1), minimum(1, args.kw - 1)
    copied_rows = (rows - 1) * (1 + tall * (args.stride_h - 1)) + (args.kh - 1) * args.dilation_h + 1
    plane = columns + floordiv((args.kw - 1) * args.dilation_w, args.stride_w)
    planes = 1 + wide * (args.stride_w - 1)
    copied = ceildiv(args.cin, lanes) * lanes * copied_rows * planes * plane
    parts = minimum(1, floordiv(args.cin * taps, _PART))
    return 64 * ceildiv(taps, 8) + 4 * (copied + MAX_BLOCKS * isa.lanes * parts * rows * columns)


def work_ns(isa: Isa, args: DirectArgs) -> Dim:
    """Time on one core at 100 or 60 GFLOP/s, whole blocks of output channels."""
    outputs = args.images * args.groups * args.oh * args.ow * ceildiv(args.cout, isa.lanes) * isa.lanes
    return ceildiv(2 * outputs * args.cin * args.kh * args.kw, 100 if isa.vector_bytes == 64 else 60)


def _pair_tiles(isa: Isa) -> list[Tile]:
    """Two rows of narrow images in one tile."""
    most = widest(isa, 2) // 2
    return [Tile(2, pixels, 2) for pixels in range(most // 2 + 1, most + 1)]


def source(isa: Isa) -> str:
    """One C11 file with :data:`SYMBOL` and :data:`PLANAR_SYMBOL`."""
    pairs = _pair_tiles(isa)
    constants = f"""
#define BAND_BYTES {_BAND_BYTES}
#define MIN_COLUMNS {_MIN_COLUMNS}
#define MIN_PIXELS {_MIN_PIXELS}
#define UNITS {_UNITS}
#define UNIT_BLOCKS {unit_blocks(isa)}
#define PART {_PART}
#define CACHED {_CACHED}
#define WIDEST {widest(isa, 1)} /* pixels of a tile of one block */
#define WIDEST_PAIR {pairs[-1].pixels} /* pixels of each row of a tile of two rows */
#define ARGS {len(DirectArgs._fields)}
#define OPERANDS {len(OPERANDS)}
"""
    fields = f"struct args {{\n    int64_t {', '.join(DirectArgs._fields)};\n}};\n"
    families = [("blocked", isa.lanes), ("planar", 1)]
    tiles = "\n".join(
        tile_functions(kind, lanes, [*row_tiles(isa), *pairs])
        + tile_table(isa, kind)
        + f"static const tile_fn {kind}_pair_of[WIDEST_PAIR + 1] = {{"
        + ", ".join(f"[{tile.pixels}] = {tile_name(kind, tile)}" for tile in pairs)
        + "};\n"
        for kind, lanes in families
    )
    even = ", ".join(str(2 * i) for i in range(isa.lanes))
    body = _BODY.replace("@EVEN@", even).replace("@BLOCKED@", SYMBOL).replace("@PLANAR@", PLANAR_SYMBOL)
    return "\n".join([prelude(isa), constants, fields, HELPERS, STRUCT, tiles, body])


_BODY: Final = """
struct conv {
    struct args s;
    const float *x, *w, *bias, *residual;
    float *y;
    gw_hook hook;
    void *const *hook_buf;
    const int64_t *hook_arg;
    float lo, hi;
    int64_t lanes;                         /* channels per input block */
    const tile_fn (*tile_of)[WIDEST + 1];  /* by output blocks - 1 and pixels */
    const tile_fn *pair_of;                /* tiles of two rows, by their pixels */
    int64_t blocks, units;                 /* output blocks of a group, and the units that they make */
    int64_t part;                          /* input channels of a part */
    int64_t row_bands, column_bands;
    int copied;                            /* bands are copied to scratch */
    int flat;                              /* a band of rows is one row of pixels */
    int paired;                            /* tiles may span two rows */
    int64_t row_pitch, plane, x_block;     /* of the image or of the copy */
    int64_t row_step;                      /* from the input row of an output row to that of the next */
    int64_t *taps;                         /* where each stands from the first */
    float *copy, *sums;
};

/* Output pixels [y0, y1) x [x0, x1) of a group of an image. */
struct band {
    int64_t image, group, y0, y1, x0, x1;
    const float *in;
    int64_t at; /* in[at + y * row_step + x * lanes] is the first tap of pixel (y, x) */
};

static const float zeros[VL];

/* to[i] = from[i * step] */
static void copy_scalars(const float *from, int64_t step, int64_t n, float *to) {
    int64_t i = 0;
    if (step == 1) {
        copy_row(from, n, to);
        return;
    }
    if (step == 2)
        for (; i + VL < n; i += VL)
            vf_store(to + i,
                     __builtin_shufflevector(vf_load(from + 2 * i), vf_load(from + 2 * i + VL), @EVEN@));
    for (; i < n; i++)
        to[i] = from[i * step];
}

static void copy_vectors(const float *from, int64_t step, int64_t n, float *to) {
    for (; n > 0; n--, from += step, to += VL)
        vf_store(to, vf_load(from));
}

/* n columns, every stride_w-th from column x of the image on: zeros outside. */
static void copy_columns(const struct conv *g, const float *row, int64_t x, int64_t n, float *to) {
    const struct args *s = &g->s;
    const int64_t first = smaller(n, x < 0 ? parts(-x, s->stride_w) : 0);
    const int64_t inside = x < s->w ? smaller(n, parts(s->w - x, s->stride_w)) : 0;
    const int64_t last = inside > first ? inside : first, step = s->stride_w * s->x_w;
    for (int64_t i = 0; i < first * g->lanes; i++)
        to[i] = 0;
    if (g->lanes == 1)
        copy_scalars(row + (x + first * s->stride_w) * s->x_w, step, last - first, to + first);
    else
        copy_vectors(row + (x + first * s->stride_w) * s->x_w, step, last - first, to + first * VL);
    for (int64_t i = last * g->lanes; i < n * g->lanes; i++)
        to[i] = 0;
}

/* The rows of the image that a band reads: each as planes of columns x, x + stride_w, ... */
static void copy_band(const struct conv *g, const struct band *o, const float *x) {
    const struct args *s = &g->s;
    const int64_t step = s->kh == 1 ? s->stride_h : 1, top = o->y0 * s->stride_h - s->pad_top;
    const int64_t rows = ((o->y1 - 1 - o->y0) * s->stride_h + (s->kh - 1) * s->dilation_h) / step + 1;
    const int64_t columns = o->x1 - o->x0 + (s->kw - 1) * s->dilation_w / s->stride_w;
    const int64_t planes = s->kw == 1 ? 1 : s->stride_w, left = o->x0 * s->stride_w - s->pad_left;
    for (int64_t c = 0; c * g->lanes < s->cin; c++)
        for (int64_t i = 0, y = top; i < rows; i++, y += step)
            for (int64_t p = 0; p < planes && y >= 0 && y < s->h; p++)
                copy_columns(g, x + c * s->x_c + y * s->x_h, left + p, columns,
                             g->copy + c * g->x_block + i * g->row_pitch + p * g->plane);
}

/* Rows of the window inside the image for output row y: [first, last). */
struct rows {
    int64_t first, last;
};

static struct rows rows_inside(const struct args *s, int64_t y) {
    const int64_t top = y * s->stride_h - s->pad_top;
    struct rows r = {.first = top < 0 ? smaller(s->kh, parts(-top, s->dilation_h)) : 0};
    r.last = top < s->h ? smaller(s->kh, parts(s->h - top, s->dilation_h)) : 0;
    if (r.last < r.first)
        r.last = r.first;
    return r;
}

/* Up to three output blocks of a band, in one part of the input channels. */
struct pass {
    const struct conv *g;
    const struct band *o;
    int64_t block, blocks;
    struct tile t;          /* as for the band's first pixel; if apart, `to` is that of the image */
    int64_t from_h, to_h;   /* between rows of pixels */
    int64_t to_pixel;
    int apart;              /* tiles go to L1 first */
};

/* Where channel (or block) `index` of the `count` of a group begins in its image of y. */
static int64_t place(const struct args *s, int64_t group, int64_t index, int64_t count) {
    const int64_t each = count / (s->split_h * s->split_w), column = index % s->split_w;
    const int64_t channel = index / s->split_w % each, row = index / s->split_w / each;
    return (group * each + channel) * s->y_c + row * (s->y_h / s->split_h) + column * (s->y_w / s->split_w);
}

/* A finished tile of one block whose pixels lie apart in y; to: its first pixel in the image. */
static int32_t store_blocked(const struct pass *p, float *tile, int64_t block, int64_t pixel, int64_t pixels,
                             float *to) {
    const struct conv *g = p->g;
    const int64_t batch = (p->o->image * g->s.groups + p->o->group) * g->blocks + block;
    if (g->hook)
        return g->hook(g->hook_buf, g->hook_arg, tile, VL, batch, pixel, pixels, 0, VL);
    to += place(&g->s, p->o->group, block, g->blocks);
    for (int64_t i = 0; i < pixels; i++)
        vf_store(to + i * g->s.y_w, vf_load(tile + i * VL));
    return 0;
}

/* The same for y in planes: channels become rows of pixels. */
static int32_t store_planar(const struct pass *p, const float *tile, int64_t block, int64_t pixel,
                            int64_t pixels, float *to) {
    const struct conv *g = p->g;
    const int64_t first = block * VL, channels = smaller(VL, g->s.cout - first);
    float rows[VL][WIDEST] __attribute__((aligned(64)));
    for (int64_t c = 0; c < channels; c++) {
        float *row = g->hook ? rows[c] : to + place(&g->s, p->o->group, first + c, g->s.cout);
        const int64_t step = g->hook ? 1 : g->s.y_w;
        for (int64_t i = 0; i < pixels; i++)
            row[i * step] = tile[i * VL + c];
    }
    return g->hook ? g->hook(g->hook_buf, g->hook_arg, rows[0], WIDEST, p->o->image,
                             p->o->group * g->s.cout + first, channels, pixel, pixels)
                   : 0;
}

/* Tile after tile in L1, for the hook to store or because the pixels of y lie apart; t stands at (y, x). */
static int32_t run_apart(const struct pass *p, struct tile *t, tile_fn run, int64_t pixels, int64_t count,
                         int64_t y, int64_t x) {
    const struct conv *g = p->g;
    float out[WIDEST * VL] __attribute__((aligned(64)));
    float *to = t->to;
    t->to = out;
    t->to_block = pixels * VL;
    for (int64_t pixel = y * g->s.ow + x; count > 0; count--, pixel += pixels) {
        run(t, 1);
        for (int64_t b = 0; b < p->blocks; b++) {
            float *tile = out + b * pixels * VL;
            const int32_t error = g->s.y_lanes == 1
                                      ? store_planar(p, tile, p->block + b, pixel, pixels, to)
                                      : store_blocked(p, tile, p->block + b, pixel, pixels, to);
            if (error)
                return error;
        }
        to = to ? to + pixels * g->s.y_w : NULL;
        t->at += pixels * g->lanes;
        t->from += pixels * t->from_pixel;
        t->add = t->add ? t->add + pixels * VL : NULL;
    }
    return 0;
}

/* count tiles of so many pixels each, from pixel (y, x) on. */
static int32_t run_tiles(const struct pass *p, tile_fn run, int64_t pixels, int64_t count, int64_t y,
                         int64_t x) {
    const struct args *s = &p->g->s;
    const struct rows rows = rows_inside(s, y);
    const int64_t down = y - p->o->y0, right = x - p->o->x0;
    struct tile t = p->t;
    t.at += down * p->g->row_step + right * p->g->lanes;
    t.taps += rows.first * s->kw;
    t.tap_count = (rows.last - rows.first) * s->kw;
    t.w += rows.first * s->kw * p->g->lanes * VL;
    t.from += down * p->from_h + right * t.from_pixel;
    if (t.add)
        t.add += down * s->r_h + right * VL;
    if (t.to)
        t.to += down * p->to_h + right * p->to_pixel;
    if (p->apart)
        return run_apart(p, &t, run, pixels, count, y, x);
    run(&t, count);
    return 0;
}

static int same_rows(const struct args *s, int64_t y) {
    const struct rows a = rows_inside(s, y), b = rows_inside(s, y + 1);
    return a.first == b.first && a.last == b.last;
}

/* All tiles of a pass: each row in tiles of nearly equal width. */
static int32_t run_pass(const struct pass *p) {
    const struct conv *g = p->g;
    const struct band *o = p->o;
    const tile_fn *tile_of = g->tile_of[p->blocks - 1];
    const int64_t columns = o->x1 - o->x0, tiles = parts(columns, WIDEST / p->blocks);
    const int64_t width = columns / tiles, wider = columns - width * tiles;
    int32_t error = 0;
    for (int64_t y = o->y0; y < o->y1 && !error; y++) {
        if (g->paired && p->blocks == 2 && y + 1 < o->y1 && same_rows(&g->s, y)) {
            error = run_tiles(p, g->pair_of[columns], 2 * columns, 1, y, o->x0);
            y++;
            continue;
        }
        if (wider)
            error = run_tiles(p, tile_of[width + 1], width + 1, wider, y, o->x0);
        if (!error)
            error = run_tiles(p, tile_of[width], width, tiles - wider, y, o->x0 + wider * (width + 1));
    }
    return error;
}

/* Output blocks [block, block + blocks) of a band: parts of the channels one after another. */
static int32_t run_blocks(const struct conv *g, const struct band *o, int64_t block, int64_t blocks) {
    const struct args *s = &g->s;
    const int64_t w_in = s->kh * s->kw * g->lanes * VL, w_out = parts(s->cin, g->lanes) * w_in;
    const int64_t total = o->group * g->blocks + block, room = (o->x1 - o->x0) * VL;
    struct pass p = {.g = g, .o = o, .block = block, .blocks = blocks};
    p.t = (struct tile){
        .x = o->in,
        .at = o->at,
        .x_block = g->x_block,
        .x_row = g->row_step,
        .taps = g->taps,
        .w = g->w + total * w_out,
        .w_in = w_in,
        .w_out = w_out,
        .from = g->bias ? g->bias + total * VL : zeros,
        .from_block = g->bias ? VL : 0,
        .add_block = s->r_c,
        .lo = g->lo,
        .hi = g->hi,
    };
    if (g->residual)
        p.t.add = g->residual + o->image * s->r_n + total * s->r_c + o->y0 * s->r_h + o->x0 * VL;
    for (int64_t left = s->cin; left > g->part; left -= g->part) {
        p.t.channels = g->part;
        p.t.to = g->sums;
        p.t.to_block = room * (o->y1 - o->y0);
        p.to_pixel = VL;
        p.to_h = room;
        run_pass(&p);
        p.t.x += g->part / g->lanes * g->x_block;
        p.t.w += g->part / g->lanes * w_in;
        p.t.add = NULL;
        p.t.from = g->sums;
        p.t.from_block = p.t.to_block;
        p.t.from_pixel = VL;
        p.from_h = room;
    }
    p.t.channels = s->cin > 0 ? (s->cin - 1) % g->part + 1 : 0;
    p.apart = g->hook || s->y_w != VL || s->y_lanes != VL || s->split_h > 1;
    p.t.to = g->hook ? NULL : g->y + o->image * s->y_n + o->y0 * s->y_h + o->x0 * s->y_w;
    if (!p.apart)
        p.t.to += total * s->y_c;
    p.t.to_block = s->y_c;
    p.to_pixel = s->y_w;
    p.to_h = s->y_h;
    p.t.act = s->act;
    p.t.far = !p.apart && s->groups * s->oh * s->ow * g->blocks * VL > CACHED;
    return run_pass(&p);
}

/* Input and first tap of the band's first pixel; copies the band if need be. */
static void find_input(const struct conv *g, struct band *o) {
    const struct args *s = &g->s;
    const float *x = g->x + o->image * s->x_n + o->group * parts(s->cin, g->lanes) * s->x_c;
    if (g->copied) {
        copy_band(g, o, x);
        o->in = g->copy;
        o->at = 0;
    } else {
        o->in = x;
        o->at = (o->y0 * s->stride_h - s->pad_top) * s->x_h + (o->x0 - s->pad_left) * g->lanes;
    }
    if (g->flat) {
        o->x1 = o->y1 * s->ow;
        o->x0 = o->y0 * s->ow;
        o->y0 = 0;
        o->y1 = 1;
    }
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Bands per image, as the grid has them. */
static void cut_bands(struct conv *g) {
    const struct args *s = &g->s;
    const int64_t row = larger(1, 4 * s->cin * s->stride_w);
    g->column_bands = parts(s->ow, larger(MIN_COLUMNS, BAND_BYTES / (row * larger(1, s->kh))));
    const int64_t width = parts(s->ow, larger(1, g->column_bands));
    const int64_t fitting = larger(1, BAND_BYTES / larger(1, row * s->stride_h * width));
    const int64_t others = s->images * s->groups * g->column_bands * g->units;
    const int64_t wished = smaller(parts(UNITS, larger(1, others)), larger(1, s->oh * width / MIN_PIXELS));
    g->row_bands = smaller(s->oh, larger(parts(s->oh, fitting), wished));
}

/* Where the tiles read, and the scratch. */
static void lay_out(struct conv *g, int64_t *scratch) {
    const struct args *s = &g->s;
    const int64_t taps = s->kh * s->kw, last = (s->kw - 1) * s->dilation_w;
    g->copied = s->stride_w != 1 || s->x_w != g->lanes || s->pad_left > 0 ||
                s->ow - 1 + last - s->pad_left >= s->w;
    g->row_pitch = s->x_h;
    g->x_block = s->x_c;
    g->row_step = s->stride_h * s->x_h;
    g->taps = scratch;
    g->copy = g->sums = (float *)(scratch + parts(taps, 8) * 8);
    if (g->copied) {
        const int64_t rows = parts(s->oh, g->row_bands), step = s->kh == 1 ? 1 : s->stride_h;
        g->plane = (parts(s->ow, g->column_bands) + last / s->stride_w) * g->lanes;
        g->row_pitch = g->plane * (s->kw == 1 ? 1 : s->stride_w);
        g->x_block = ((rows - 1) * step + (s->kh - 1) * s->dilation_h + 1) * g->row_pitch;
        g->row_step = step * g->row_pitch;
        g->sums = g->copy + parts(s->cin, g->lanes) * g->x_block;
    }
    for (int64_t i = 0; i < s->kh; i++)
        for (int64_t j = 0, x = 0; j < s->kw; j++, x += s->dilation_w)
            g->taps[i * s->kw + j] = i * s->dilation_h * g->row_pitch +
                                     (g->copied ? x % s->stride_w * g->plane + x / s->stride_w * g->lanes
                                                : x * g->lanes);
}

/* Whether the rows of y and of the residual follow each other without a gap. */
static int contiguous(const struct conv *g) {
    const struct args *s = &g->s;
    return g->column_bands == 1 && (g->hook || s->y_h == s->ow * s->y_w) &&
           (!g->residual || s->r_h == s->ow * VL);
}

static int32_t run_bands(struct conv *g, int64_t begin, int64_t end, void *scratch) {
    const struct args *s = &g->s;
    const int64_t taps = s->kh * s->kw;
    g->blocks = parts(s->cout, VL);
    g->units = larger(1, (g->blocks + UNIT_BLOCKS - 2) / UNIT_BLOCKS);
    g->part = larger(1, PART / larger(1, taps * g->lanes)) * g->lanes;
    cut_bands(g);
    lay_out(g, scratch);
    g->flat = taps == 1 && contiguous(g) && s->pad_top <= 0 &&
              (s->oh - 1) * s->stride_h - s->pad_top < s->h && g->row_step == s->ow * g->lanes;
    g->paired = !g->flat && contiguous(g) && s->ow <= WIDEST_PAIR && g->pair_of[s->ow];
    const int64_t units = g->units, bands = g->row_bands * g->column_bands;
    while (begin < end) {
        const int64_t unit = begin % units, band = begin / units % bands, outer = begin / units / bands;
        const int64_t run = smaller(end - begin, units - unit);
        const int64_t last = unit + run == units ? g->blocks : (unit + run) * UNIT_BLOCKS;
        const int64_t row = band / g->column_bands, column = band % g->column_bands;
        struct band o = {
            .image = outer / s->groups,
            .group = outer % s->groups,
            .y0 = cut(s->oh, row, g->row_bands),
            .y1 = cut(s->oh, row + 1, g->row_bands),
            .x0 = cut(s->ow, column, g->column_bands),
            .x1 = cut(s->ow, column + 1, g->column_bands),
        };
        find_input(g, &o);
        for (int64_t block = unit * UNIT_BLOCKS, blocks; block < last; block += blocks) {
            blocks = g->blocks - block == 3 ? 3 : smaller(2, last - block);
            const int32_t error = run_blocks(g, &o, block, blocks);
            if (error)
                return error;
        }
        begin += run;
    }
    return 0;
}

static float float_of(int64_t bits) {
    const uint32_t low = (uint32_t)bits;
    float x;
    memcpy(&x, &low, sizeof x);
    return x;
}

static struct conv conv_of(void *const *buf, const int64_t *arg) {
    struct conv g = {
        .x = buf[0],
        .w = buf[1],
        .bias = buf[2],
        .residual = buf[3],
        .y = buf[4],
        .hook_buf = buf + OPERANDS + 1,
        .hook_arg = arg + ARGS,
    };
    memcpy(&g.s, arg, sizeof g.s);
    memcpy(&g.hook, &buf[OPERANDS], sizeof g.hook);
    g.lo = float_of(g.s.lo);
    g.hi = float_of(g.s.hi);
    return g;
}

GW_EXPORT int32_t @BLOCKED@(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    struct conv g = conv_of(buf, arg);
    g.lanes = VL;
    g.tile_of = blocked_of;
    g.pair_of = blocked_pair_of;
    return run_bands(&g, begin, end, scratch);
}

GW_EXPORT int32_t @PLANAR@(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    struct conv g = conv_of(buf, arg);
    g.lanes = 1;
    g.tile_of = planar_of;
    g.pair_of = planar_pair_of;
    return run_bands(&g, begin, end, scratch);
}
"""

"""Direct convolution into channel blocks: y = act(conv(x, w) + bias + residual), f32.

The input is in channel blocks too, or planar (the first layer: a few channels). Tiles of pixels times output
blocks (module ``blocked_tile``) run over all taps and channels while their sums stay in registers. A unit of
the grid is a band of output pixels and a few output blocks; its input stays in the L2 cache while the weights
stream by, fetched to that cache ahead of their use if they are many.

Tiles read a blocked input where it is, if only the first and the last pixel of a row meet the padding, and
columns with a stride of 1 or 2. Else the unit copies the rows of its band to scratch, with zeros around them
and, for larger strides, columns sorted by their remainder, so that the pixels of a tap are neighbours. Taps
above and below the image are left out.

Convolutions of more weights than the cache holds run in parts of the channels, whose sums wait in scratch.
Bands, tiles and parts depend on the sizes alone, so any chunking gives the same bits.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum, mod, symbol
from graphwright.kernels.library.blocked_tile import LATENCY_BOUND, STEPS, STRUCT, families, widest
from graphwright.kernels.library.direct_pass import passes
from graphwright.kernels.library.extent import (
    BITS,
    SIGNED,
    STEP,
    Extent,
    Reach,
    Tiles,
    dense,
    window_bounds,
    within,
)
from graphwright.kernels.library.tile import HELPERS
from graphwright.targets.cpu.isa import Isa, args_struct, prelude

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


KEPT: Final = 512
"""Convolutions whose blocking is kept: those of a model repeat."""

_BAND_BYTES: Final = 512 << 10
"""Input of a band: beside it the weights of two output blocks and some output fit the L2 cache."""

_MIN_COLUMNS: Final = 112
"""Rows are cut into columns no narrower than this."""

_MIN_PIXELS: Final = 56
"""Bands are cut no smaller than this for the sake of several threads."""

_UNITS: Final = 8
"""What several threads would like to share."""

_PART: Final = 1024
"""Taps times input channels of a part: the weights of four output blocks take 256 KB."""


_DEEP: Final = 64 << 10
"""Weights of a tile of more bytes than this come from the L2 cache for each tile."""

_STREAMED: Final = 64 << 10
"""More weights than this, in elements, are fetched to the L2 cache ahead of their use."""

_CACHED: Final = 1 << 20
"""Images of more elements are not in the caches when they are written."""


def unit_blocks(isa: Isa) -> int:
    """48 output channels per unit where there are enough units; what is left joins the last unit."""
    return 48 // isa.lanes


def _wide_units(isa: Isa, args: DirectArgs) -> Dim:
    """Units of :func:`unit_blocks` that share a band."""
    return maximum(1, floordiv(ceildiv(args.cout, isa.lanes), unit_blocks(isa)))


@lru_cache(maxsize=KEPT)
def _units(isa: Isa, args: DirectArgs) -> Dim:
    """Units that share a band: of one output block each where there would be fewer than :data:`_UNITS`.

    Only if tiles of one block do not split their sums: a chunk of several units joins their blocks in tiles.
    """
    wide, (rows, columns) = _wide_units(isa, args), _bands(isa, args)
    missing = _UNITS - args.images * args.groups * rows * columns * wide
    narrowest = floordiv(args.ow, maximum(1, columns))
    whole = floordiv(narrowest, maximum(1, ceildiv(narrowest, widest(isa)[0]))) - (LATENCY_BOUND - 1)
    split = minimum(1, maximum(0, missing)) * minimum(1, maximum(0, whole))
    return wide + split * maximum(0, ceildiv(args.cout, isa.lanes) - wide)


def _read(taps: Dim, stride: Dim) -> Dim:
    """Of ``stride`` rows or columns, those that a window reads: one of them if it has one tap."""
    return 1 + minimum(1, maximum(0, taps - 1)) * (stride - 1)


@lru_cache(maxsize=KEPT)
def _bands(isa: Isa, args: DirectArgs) -> tuple[Dim, Dim]:
    """Bands of rows and of columns that each image is cut into."""
    tall = _read(args.kh, args.stride_h)
    row = maximum(1, 4 * args.cin * args.stride_w)  # columns in between take room in the cache, read or not
    columns = ceildiv(args.ow, maximum(_MIN_COLUMNS, floordiv(_BAND_BYTES, row * maximum(1, args.kh))))
    width = ceildiv(args.ow, maximum(1, columns))
    fitting = maximum(1, floordiv(_BAND_BYTES, maximum(1, row * tall * width)))
    others = args.images * args.groups * columns * _wide_units(isa, args)
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


@lru_cache(maxsize=KEPT)
def _scratch_bytes(isa: Isa, args: DirectArgs, lanes: int) -> Dim:
    row_bands, column_bands = _bands(isa, args)
    rows = ceildiv(args.oh, maximum(1, row_bands))
    columns = ceildiv(args.ow, maximum(1, column_bands))
    taps = args.kh * args.kw
    step = _read(args.kh, args.stride_h)
    copied_rows = (rows - 1) * step + (args.kh - 1) * args.dilation_h + 1
    plane = columns + floordiv((args.kw - 1) * args.dilation_w, args.stride_w)
    planes = _read(args.kw, args.stride_w)
    copied = ceildiv(args.cin, lanes) * lanes * copied_rows * planes * plane
    part = lanes * maximum(1, floordiv(_PART, maximum(1, taps * lanes)))
    waits = minimum(1, floordiv(maximum(1, args.cin) - 1, part))  # whether there is more than one part
    return 64 * ceildiv(2 * taps, 8) + 4 * (copied + len(widest(isa)) * isa.lanes * waits * rows * columns)


def work_ns(isa: Isa, args: DirectArgs) -> Dim:
    """Time on one core at 100 or 60 GFLOP/s, whole blocks of output channels."""
    outputs = args.images * args.groups * args.oh * args.ow * ceildiv(args.cout, isa.lanes) * isa.lanes
    return ceildiv(2 * outputs * args.cin * args.kh * args.kw, 100 if isa.vector_bytes == 64 else 60)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """How far both kernels reach: taps outside the image are not read."""
    a = DirectArgs(*map(symbol, DirectArgs._fields))
    return (
        _extent(isa, SYMBOL, isa.lanes, scratch_bytes(isa, a)),
        _extent(isa, PLANAR_SYMBOL, 1, planar_scratch_bytes(isa, a)),
    )


def _extent(isa: Isa, name: str, lanes: int, scratch: Dim) -> Extent:
    """``lanes``: channels of an input block. A result is in blocks or planar, and may be split into rows and
    columns of a transposed convolution; then its pixels lie further apart.
    """
    a = DirectArgs(*map(symbol, DirectArgs._fields))
    inputs, outputs = ceildiv(a.cin, lanes), ceildiv(a.cout, isa.lanes)
    places, split = ceildiv(a.cout, a.y_lanes), a.split_h * a.split_w
    blocked = floordiv(a.y_lanes, isa.lanes)  # 1 or 0
    x = ((a.images, a.x_n), (a.groups * inputs, a.x_c), (a.h, a.x_h), (a.w, a.x_w), (lanes, 1))
    residual = ((a.images, a.r_n), (a.groups * outputs, a.r_c), (a.oh, a.r_h), (a.ow * isa.lanes, 1))
    rows = (a.oh, a.y_h), (a.split_h, floordiv(a.y_h, a.split_h))
    columns = (a.ow, a.y_w), (a.split_w, floordiv(a.y_w, a.split_w)), (a.y_lanes, 1)
    channels, pixels = a.groups * a.cout, a.oh * a.ow
    return Extent(
        name,
        DirectArgs._fields,
        (
            Reach(4, x),
            dense(4, a.groups * outputs * isa.lanes, inputs * lanes, a.kh * a.kw),
            dense(4, a.groups, outputs * isa.lanes, optional=True),
            Reach(4, residual, optional=True),
            Reach(
                4,
                ((a.images, a.y_n), (a.groups * floordiv(places, split), a.y_c), *rows, *columns),
                unhooked=True,
            ),
        ),
        grid=grid(isa, a),
        scratch=scratch,
        bounds=window_bounds(DirectArgs._fields)
        | within(SIGNED, *DirectArgs._fields[16:27])
        | within(STEP, "split_h", "split_w", "kh", "kw")
        | within(BITS, "lo", "hi"),
        choices={"y_lanes": (1, isa.lanes)},
        multiples=(mod(places, split),),
        at_least_0=(a.y_w - a.split_w * a.y_lanes,),
        tiles=Tiles(
            a.images * (1 + blocked * (a.groups * outputs - 1)),
            blocked * pixels + (1 - blocked) * channels,
            blocked * isa.lanes + (1 - blocked) * pixels,
        ),
    )


def source(isa: Isa) -> str:
    """One C11 file with :data:`SYMBOL` and :data:`PLANAR_SYMBOL`."""
    constants = f"""
#define BAND_BYTES {_BAND_BYTES}
#define MIN_COLUMNS {_MIN_COLUMNS}
#define MIN_PIXELS {_MIN_PIXELS}
#define UNITS {_UNITS}
#define UNIT_BLOCKS {unit_blocks(isa)}
#define PART {_PART}
#define CACHED {_CACHED}
#define STREAMED {_STREAMED}
#define DEEP {_DEEP}
#define LATENCY_BOUND {LATENCY_BOUND}
#define LINE 16 /* elements of a cache line */
#define STEPS {STEPS[-1]}
#define MAX_BLOCKS {len(widest(isa))}
#define WIDEST {max(widest(isa))}
#define ARGS {len(DirectArgs._fields)}
#define OPERANDS {len(OPERANDS)}
"""
    fields = args_struct(DirectArgs._fields)
    named = _BODY.replace("@BLOCKED@", SYMBOL).replace("@PLANAR@", PLANAR_SYMBOL)
    body = named.replace("@PASSES@", passes(isa))
    return "\n".join([prelude(isa), constants, fields, HELPERS, STRUCT, families(isa), body])


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
    /* Tiles by step - 1, output blocks - 1 and pixels, and those of this convolution. */
    const tile_fn (*families)[MAX_BLOCKS][WIDEST + 1];
    const tile_fn (*tiles)[WIDEST + 1];
    int64_t blocks, units, unit_blocks;    /* output blocks of a group, their units, and those of one unit */
    int64_t part;                          /* input channels of a part */
    int64_t row_bands, column_bands;
    int copied;                            /* bands are copied to scratch */
    int flat;                              /* a band of rows is one row of pixels */
    int streamed;                          /* weights do not stay in the L2 cache */
    int64_t row_pitch, plane, x_block;     /* of the image or of the copy */
    int64_t row_step;                      /* from the input row of an output row to that of the next */
    int64_t step;                          /* between pixels: columns of the image, 1 of a sorted copy */
    struct tap *taps;
    float *copy, *sums;
};

/* Output pixels [y0, y1) x [x0, x1) of a group of an image. */
struct band {
    int64_t image, group, y0, y1, x0, x1;
    const float *in;
    int64_t at; /* in[at + y * row_step + x * step * lanes] is the first tap of pixel (y, x) */
};

static const float zeros[VL];

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* to[i] = from[i * step] */
static void copy_scalars(const float *from, int64_t step, int64_t n, float *to) {
    if (step == 1) {
        copy_row(from, n, to);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i * step];
}

static void copy_vectors(const float *from, int64_t step, int64_t n, float *to) {
    for (; n > 0; n--, from += step, to += VL)
        vf_store(to, vf_load(from));
}

/* n columns, every step-th from column x of the image on: zeros outside. */
static void copy_columns(const struct conv *g, const float *row, int64_t x, int64_t n, int64_t step,
                         float *to) {
    const struct args *s = &g->s;
    const int64_t first = smaller(n, x < 0 ? parts(-x, step) : 0);
    const int64_t inside = x < s->w ? smaller(n, parts(s->w - x, step)) : 0;
    const int64_t last = inside > first ? inside : first;
    for (int64_t i = 0; i < first * g->lanes; i++)
        to[i] = 0;
    if (g->lanes == 1)
        copy_scalars(row + (x + first * step) * s->x_w, step * s->x_w, last - first, to + first);
    else
        copy_vectors(row + (x + first * step) * s->x_w, step * s->x_w, last - first, to + first * VL);
    for (int64_t i = last * g->lanes; i < n * g->lanes; i++)
        to[i] = 0;
}

/* The rows of the image that a band reads; columns x, x + sorted, ... of each lie together. */
static void copy_band(const struct conv *g, const struct band *o, const float *x) {
    const struct args *s = &g->s;
    const int64_t step = s->kh == 1 ? s->stride_h : 1, top = o->y0 * s->stride_h - s->pad_top;
    const int64_t rows = ((o->y1 - 1 - o->y0) * s->stride_h + (s->kh - 1) * s->dilation_h) / step + 1;
    const int64_t sorted = s->stride_w / g->step, planes = s->kw == 1 ? 1 : sorted;
    const int64_t columns = (o->x1 - 1 - o->x0) * g->step + 1 + (s->kw - 1) * s->dilation_w / sorted;
    const int64_t left = o->x0 * s->stride_w - s->pad_left;
    for (int64_t c = 0; c * g->lanes < s->cin; c++)
        for (int64_t i = 0, y = top; i < rows; i++, y += step)
            for (int64_t p = 0; p < planes && y >= 0 && y < s->h; p++)
                copy_columns(g, x + c * s->x_c + y * s->x_h, left + p, columns, sorted,
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

@PASSES@
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
        o->at = (o->y0 * s->stride_h - s->pad_top) * s->x_h + (o->x0 * s->stride_w - s->pad_left) * g->lanes;
    }
    if (g->flat) {
        o->x1 = o->y1 * s->ow;
        o->x0 = o->y0 * s->ow;
        o->y0 = 0;
        o->y1 = 1;
    }
}

/* Bands per image and units per band, as the grid has them. */
static void cut_bands(struct conv *g) {
    const struct args *s = &g->s;
    const int64_t tall = s->kh > 1 ? s->stride_h : 1, row = larger(1, 4 * s->cin * s->stride_w);
    g->column_bands = parts(s->ow, larger(MIN_COLUMNS, BAND_BYTES / (row * larger(1, s->kh))));
    const int64_t width = parts(s->ow, larger(1, g->column_bands));
    const int64_t fitting = larger(1, BAND_BYTES / larger(1, row * tall * width));
    const int64_t others = s->images * s->groups * g->column_bands * g->units;
    const int64_t wished = smaller(parts(UNITS, larger(1, others)), larger(1, s->oh * width / MIN_PIXELS));
    g->row_bands = smaller(s->oh, larger(parts(s->oh, fitting), wished));
    const int64_t narrowest = s->ow / larger(1, g->column_bands), tiles = larger(1, parts(narrowest, WIDEST));
    if (s->images * s->groups * g->row_bands * g->column_bands * g->units < UNITS &&
        narrowest / tiles >= LATENCY_BOUND) {
        g->units = larger(1, g->blocks);
        g->unit_blocks = 1;
    }
}

/* Whether some pixel has tap j of a row of the window in the padding, among columns [first, last). */
static int outside(const struct args *s, int64_t first, int64_t last, int64_t j) {
    const int64_t shift = j * s->dilation_w - s->pad_left;
    return first < last && (first * s->stride_w + shift < 0 || (last - 1) * s->stride_w + shift >= s->w);
}

/* Whether tiles can read the image itself: only the first and the last pixel of a row may be padded. */
static int readable(const struct conv *g) {
    const struct args *s = &g->s;
    int inside = 1;
    for (int64_t j = 0; j < s->kw; j++)
        inside &= !(g->lanes == 1 ? outside(s, 0, s->ow, j) : outside(s, 1, s->ow - 1, j));
    return inside && s->x_w == g->lanes && s->stride_w <= STEPS;
}

/* Where the tiles read, and the scratch. */
static void lay_out(struct conv *g, int64_t *scratch) {
    const struct args *s = &g->s;
    const int64_t taps = s->kh * s->kw, last = (s->kw - 1) * s->dilation_w;
    g->copied = !readable(g);
    g->step = s->stride_w > STEPS || (g->copied && s->kw == 1) ? 1 : s->stride_w;
    g->tiles = g->families[g->step - 1];
    g->row_pitch = s->x_h;
    g->x_block = s->x_c;
    g->row_step = s->stride_h * s->x_h;
    g->taps = (struct tap *)scratch;
    g->copy = g->sums = (float *)(scratch + parts(2 * taps, 8) * 8);
    const int64_t sorted = s->stride_w / g->step;
    if (g->copied) {
        const int64_t rows = parts(s->oh, g->row_bands), step = s->kh == 1 ? 1 : s->stride_h;
        const int64_t columns = parts(s->ow, g->column_bands);
        g->plane = ((columns - 1) * g->step + 1 + last / sorted) * g->lanes;
        g->row_pitch = g->plane * (s->kw == 1 ? 1 : sorted);
        g->x_block = ((rows - 1) * step + (s->kh - 1) * s->dilation_h + 1) * g->row_pitch;
        g->row_step = step * g->row_pitch;
        g->sums = g->copy + parts(s->cin, g->lanes) * g->x_block;
    }
    for (int64_t i = 0; i < s->kh; i++)
        for (int64_t j = 0, x = 0; j < s->kw; j++, x += s->dilation_w)
            g->taps[i * s->kw + j] = (struct tap){
                .at = i * s->dilation_h * g->row_pitch +
                      (g->copied ? x % sorted * g->plane + x / sorted * g->lanes : x * g->lanes),
                .outside = g->copied ? 0 : outside(s, 0, 1, j) | outside(s, s->ow - 1, s->ow, j) << 1,
            };
}

/* Whether the rows of y and of the residual follow each other without a gap. */
static int contiguous(const struct conv *g) {
    const struct args *s = &g->s;
    return g->column_bands == 1 && (g->hook || s->y_h == s->ow * s->y_w) &&
           (!g->residual || s->r_h == s->ow * VL);
}

/* Whether a band of rows is one row of pixels. */
static int flattened(const struct conv *g) {
    const struct args *s = &g->s;
    const int padded = s->pad_top > 0 || (s->oh - 1) * s->stride_h - s->pad_top >= s->h || g->taps[0].outside;
    return s->kh * s->kw == 1 && !padded && contiguous(g) && g->row_step == s->ow * g->step * g->lanes;
}

/* Output blocks of the next pass where so many are left: three, unless that would leave one. */
static int64_t pass_blocks(int64_t left) {
    return left == 4 ? (MAX_BLOCKS > 3 ? 4 : 2) : smaller(3, left);
}

static int32_t run_units(const struct conv *g, const struct band *o, int64_t unit, int64_t next) {
    const int64_t end = next == g->units ? g->blocks : next * g->unit_blocks;
    int32_t error = 0;
    for (int64_t block = unit * g->unit_blocks, blocks; block < end && !error; block += blocks) {
        blocks = pass_blocks(end - block);
        error = run_blocks(g, o, block, blocks);
    }
    return error;
}

static int32_t run_bands(struct conv *g, int64_t begin, int64_t end, void *scratch) {
    const struct args *s = &g->s;
    const int64_t taps = s->kh * s->kw;
    g->blocks = parts(s->cout, VL);
    g->units = larger(1, g->blocks / UNIT_BLOCKS);
    g->unit_blocks = UNIT_BLOCKS;
    g->part = larger(1, PART / larger(1, taps * g->lanes)) * g->lanes;
    g->streamed = s->groups * g->blocks * VL * parts(s->cin, g->lanes) * g->lanes * taps > STREAMED;
    cut_bands(g);
    lay_out(g, scratch);
    g->flat = flattened(g);
    const int64_t units = g->units, bands = g->row_bands * g->column_bands;
    while (begin < end) {
        const int64_t unit = begin % units, band = begin / units % bands, outer = begin / units / bands;
        const int64_t run = smaller(end - begin, units - unit);
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
        const int32_t error = run_units(g, &o, unit, unit + run);
        if (error)
            return error;
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
    g.lo = g.s.act == 1 ? 0 : float_of(g.s.lo);
    g.hi = float_of(g.s.hi);
    return g;
}

GW_EXPORT int32_t @BLOCKED@(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    struct conv g = conv_of(buf, arg);
    g.lanes = VL;
    g.families = blocked;
    return run_bands(&g, begin, end, scratch);
}

GW_EXPORT int32_t @PLANAR@(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    struct conv g = conv_of(buf, arg);
    g.lanes = 1;
    g.families = planar;
    return run_bands(&g, begin, end, scratch);
}
"""

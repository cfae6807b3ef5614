"""3-D convolution: y = act(conv(x, w) + bias), f32, NCDHW in any memory order.

Implicit GEMM: a tile is some output channels times some output pixels. A unit of the grid is a block of
pixels and a few tiles of channels. For each block of input channels the pixels' panels are gathered once
(Chellapilla et al., "High Performance Convolutional Neural Networks for Document Processing", 2006) and
serve all channels of the unit and of the units after it in the same chunk, while the packed weights stream
by. What is summed in which order depends on the sizes alone, so any chunking gives the same bits. A 1-D
convolution has d = h = 1, a 2-D one d = 1.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum, symbol
from graphwright.kernels.library.extent import SIGNED, Extent, Reach, Tiles, dense, window_bounds, within
from graphwright.kernels.library.im2col import gathering
from graphwright.kernels.library.tile import HELPERS, TileShape, tiles
from graphwright.targets.cpu.isa import Isa, args_struct, prelude

SYMBOL: Final = "gw_conv_f32"

OPERANDS: Final = ("x", "w", "bias", "y")
"""``w`` in panels (``pack.conv_panels`` with :func:`panel_rows`), ``bias`` [groups * cout] may be absent;
``y`` is ignored when there is a hook. The hook, or a null pointer, comes next; its rows are the output
channels of all groups, its columns the output pixels row by row."""

_UNITS: Final = 32

_K_BLOCK: Final = 384
"""Rows of a gathered panel: as many whole input channels as fit, at least one."""


class ConvArgs(NamedTuple):
    """The kernel's args in ABI order; strides of x and y in elements. Pads at the end
    follow from od, oh, ow."""

    images: Dim
    groups: Dim
    cin: Dim
    """Input channels per group."""
    cout: Dim
    """Output channels per group."""
    d: Dim
    h: Dim
    w: Dim
    od: Dim
    oh: Dim
    ow: Dim
    kd: Dim
    kh: Dim
    kw: Dim
    stride_d: Dim
    stride_h: Dim
    stride_w: Dim
    pad_front: Dim
    pad_top: Dim
    pad_left: Dim
    dilation_d: Dim
    dilation_h: Dim
    dilation_w: Dim
    x_n: Dim
    x_c: Dim
    x_d: Dim
    x_h: Dim
    x_w: Dim
    y_n: Dim
    y_c: Dim
    y_d: Dim
    y_h: Dim
    y_w: Dim
    act: Dim
    """0 none, 1 relu."""
    unit_tiles: Dim
    """Tiles of output channels in a unit (:func:`unit_tiles`)."""


def tile_shape(isa: Isa) -> TileShape:
    """8 x 3 vectors fill 24 of 32 registers, 4 x 3 fill 12 of 16; most channel counts are multiples of 8."""
    rows = 8 if isa.vector_bytes == 64 else 4
    return TileShape(rows=rows, vectors=3, a_row=1, a_k=rows)


def panel_rows(isa: Isa) -> int:
    """Output channels per panel of packed weights (``mr``)."""
    return tile_shape(isa).rows


def unit_tiles(isa: Isa, args: ConvArgs) -> Dim:
    """64 output channels or more, so that gathering a panel is little beside using it; as many as leave
    :data:`_UNITS` units where there are enough pixels for several threads."""
    rows = panel_rows(isa)
    tiles = ceildiv(args.cout, rows) * args.images * args.groups * _pixel_blocks(isa, args)
    return minimum(_run_tiles(isa), maximum(64 // rows, ceildiv(tiles, _UNITS)))


def _pixel_blocks(isa: Isa, args: ConvArgs) -> Dim:
    return ceildiv(args.od * args.oh * args.ow, _block_panels(isa) * tile_shape(isa).columns(isa))


def _run_tiles(isa: Isa) -> int:
    """256 output channels at most share gathered panels; the sums between blocks have room for so many."""
    return 256 // panel_rows(isa)


def _block_panels(isa: Isa) -> int:
    """192 pixels per unit."""
    return 192 // tile_shape(isa).columns(isa)


def grid(isa: Isa, args: ConvArgs) -> Dim:
    """Units of work: images, groups, blocks of pixels, blocks of output channels (fastest)."""
    units = ceildiv(args.cout, args.unit_tiles * panel_rows(isa))
    return args.images * args.groups * _pixel_blocks(isa, args) * units


def scratch_bytes(isa: Isa, args: ConvArgs) -> Dim:
    """Gathered panels, then the sums between blocks of input channels."""
    width, rows = tile_shape(isa).columns(isa), panel_rows(isa)
    taps = args.kd * args.kh * args.kw
    channels = minimum(args.cin, maximum(1, floordiv(_K_BLOCK, taps)))
    pixels = minimum(ceildiv(args.od * args.oh * args.ow, width), _block_panels(isa)) * width
    sums = (
        minimum(args.cin - channels, 1) * minimum(ceildiv(args.cout, rows), _run_tiles(isa)) * rows * pixels
    )
    return 4 * (channels * taps * pixels + sums)


def work_ns(isa: Isa, args: ConvArgs) -> Dim:
    """Time on one core at 100 or 60 GFLOP/s, and of gathering the panels at 4 elements a nanosecond."""
    pixels = args.images * args.groups * args.od * args.oh * args.ow
    elements = pixels * args.cin * args.kd * args.kh * args.kw
    flops = 2 * elements * args.cout
    return ceildiv(flops, 100 if isa.vector_bytes == 64 else 60) + floordiv(elements, 4)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """How far :data:`SYMBOL` reaches: taps outside the image are not read."""
    a = ConvArgs(*map(symbol, ConvArgs._fields))
    pixels, rows = a.od * a.oh * a.ow, panel_rows(isa)
    x = ((a.images, a.x_n), (a.groups * a.cin, a.x_c), (a.d, a.x_d), (a.h, a.x_h), (a.w, a.x_w))
    y = ((a.images, a.y_n), (a.groups * a.cout, a.y_c), (a.od, a.y_d), (a.oh, a.y_h), (a.ow, a.y_w))
    return (
        Extent(
            SYMBOL,
            ConvArgs._fields,
            (
                Reach(4, x),
                dense(4, a.groups * ceildiv(a.cout, rows) * rows, a.cin, a.kd * a.kh * a.kw),
                dense(4, a.groups, a.cout, optional=True),
                Reach(4, y, unhooked=True),
            ),
            grid=grid(isa, a),
            scratch=scratch_bytes(isa, a),
            bounds=window_bounds(ConvArgs._fields)
            | within(SIGNED, *ConvArgs._fields[22:32])
            | within((1, _run_tiles(isa)), "unit_tiles"),
            tiles=Tiles(a.images, a.groups * a.cout, pixels),
        ),
    )


def source(isa: Isa) -> str:
    """One C11 file with :data:`SYMBOL`."""
    shape = tile_shape(isa)
    constants = f"""
#define MR {shape.rows} /* output channels of a tile */
#define NR {shape.columns(isa)} /* output pixels of a tile, and of a panel */
#define K_BLOCK {_K_BLOCK}
#define RUN_TILES {_run_tiles(isa)}
#define BLOCK_PANELS {_block_panels(isa)}
#define ARGS {len(ConvArgs._fields)}
#define OPERANDS {len(OPERANDS)}
"""
    fields = args_struct(ConvArgs._fields)
    body = _BODY.replace("@GATHERING@", gathering(isa, "float", "vf", "vf", "vf")).replace("@SYMBOL@", SYMBOL)
    return "\n".join([prelude(isa), constants, fields, HELPERS, tiles(shape, isa), body])


_BODY: Final = """
struct conv {
    struct args s;
    const float *x, *w, *bias;
    float *y;
    gw_hook hook;
    void *const *hook_buf;
    const int64_t *hook_arg;
    int64_t taps;          /* kd * kh * kw */
    int64_t pixels;        /* od * oh * ow */
    int64_t block_cin;     /* input channels per block */
    int padded;            /* some tap of some pixel lies outside the image */
    int flat;              /* the pixels of y are contiguous */
};

/* Tiles [tile0, tile1) of output channels and panels [panel0, panel1) of pixels of a group of an image. */
struct block {
    int64_t image, group, tile0, tile1, panel0, panel1;
};

@GATHERING@
/* The panel to[channel][tap][NR] of cols pixels from the pixel at on; zeros outside the image. */
static void gather_panel(const struct conv *g, const float *x, int64_t channels, int64_t at, int64_t cols,
                         float *to) {
    const struct args *s = &g->s;
    if (g->padded || cols < NR)
        memset(to, 0, (size_t)(channels * g->taps * NR) * sizeof *to);
    gather_runs(s, x, s->x_c, s->x_d, s->x_h, s->x_w, at, cols, channels, to);
}

/* Where a pixel of the output lies in its plane. */
GW_INLINE int64_t place_of(const struct args *s, int64_t pixel) {
    const int64_t row = pixel / s->ow;
    return row / s->oh * s->y_d + row % s->oh * s->y_h + pixel % s->ow * s->y_w;
}

static void store_tile(const struct conv *g, const float *tile, int64_t rows, int64_t at, int64_t cols,
                       float *y) {
    for (int64_t r = 0; r < rows; r++, tile += NR, y += g->s.y_c) {
        if (g->flat)
            copy_row(tile, cols, y + at);
        else
            for (int64_t i = 0; i < cols; i++)
                y[place_of(&g->s, at + i)] = tile[i];
    }
}

/* One tile of the last block: starts from t, ends in the output or in the hook. */
static int32_t finish_tile(const struct conv *g, int64_t image, int64_t channel, int64_t rows, int64_t at,
                           int64_t cols, int64_t k, const float *a, const float *b, struct tile *t) {
    float out[MR * NR] __attribute__((aligned(64)));
    float *y = g->hook ? NULL : g->y + image * g->s.y_n + channel * g->s.y_c;
    const int direct = y && g->flat && cols % VL == 0;
    t->relu = g->s.act == 1;
    t->to = direct ? y + at : out;
    t->to_ld = direct ? g->s.y_c : NR;
    run_tile(rows, parts(cols, VL), k, a, b, NR, t);
    if (g->hook)
        return g->hook(g->hook_buf, g->hook_arg, out, NR, image, channel, rows, at, cols);
    if (!direct)
        store_tile(g, out, rows, at, cols, y);
    return 0;
}

static int32_t run_block(const struct conv *g, const struct block *o, float *scratch) {
    const struct args *s = &g->s;
    const int64_t pixels = g->pixels, k = s->cin * g->taps, tiles = parts(s->cout, MR);
    const int64_t blocks = s->cin > g->block_cin ? parts(s->cin, g->block_cin) : 1;
    const int64_t panel_room = smaller(s->cin, g->block_cin) * g->taps * NR;
    const int64_t count = o->panel1 - o->panel0;
    float *panels = scratch, *sums = scratch + panel_room * smaller(parts(pixels, NR), BLOCK_PANELS);
    const float *x = g->x + o->image * s->x_n + o->group * s->cin * s->x_c;
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t c0 = cut(s->cin, i, blocks), channels = cut(s->cin, i + 1, blocks) - c0;
        for (int64_t p = 0; p < count; p++) {
            const int64_t at = (o->panel0 + p) * NR;
            gather_panel(g, x + c0 * s->x_c, channels, at, smaller(pixels - at, NR), panels + p * panel_room);
        }
        for (int64_t tile = o->tile0; tile < o->tile1; tile++) {
            const int64_t row = tile * MR, rows = smaller(s->cout - row, MR);
            const int64_t channel = o->group * s->cout + row;
            const float *a = g->w + ((o->group * tiles + tile) * k + c0 * g->taps) * MR;
            for (int64_t p = 0; p < count; p++) {
                const int64_t at = (o->panel0 + p) * NR, cols = smaller(pixels - at, NR);
                const float *b = panels + p * panel_room;
                float *sum = sums + ((tile - o->tile0) * count + p) * MR * NR;
                struct tile t = {.from_kind = FROM_TILE, .from = sum, .from_ld = NR, .to = sum, .to_ld = NR};
                t.ahead_step = 16;
                t.ahead = p == 0 && tile + 1 < o->tile1 ? a + k * MR : a; /* the next weights */
                if (i == 0) {
                    t.from_kind = g->bias ? FROM_ROWS : FROM_ZERO;
                    t.from = g->bias ? g->bias + channel : NULL;
                    t.from_ld = 1;
                }
                if (i < blocks - 1) {
                    run_tile(rows, parts(cols, VL), channels * g->taps, a, b, NR, &t);
                    continue;
                }
                const int32_t error =
                    finish_tile(g, o->image, channel, rows, at, cols, channels * g->taps, a, b, &t);
                if (error)
                    return error;
            }
        }
    }
    return 0;
}

GW_EXPORT int32_t @SYMBOL@(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    struct conv g = {
        .x = buf[0],
        .w = buf[1],
        .bias = buf[2],
        .y = buf[3],
        .hook_buf = buf + OPERANDS + 1,
        .hook_arg = arg + ARGS,
    };
    struct args *s = &g.s;
    memcpy(s, arg, sizeof *s);
    memcpy(&g.hook, &buf[OPERANDS], sizeof g.hook);
    g.taps = s->kd * s->kh * s->kw;
    g.pixels = s->od * s->oh * s->ow;
    g.block_cin = g.taps < K_BLOCK ? K_BLOCK / (g.taps ? g.taps : 1) : 1;
    g.padded = s->pad_front > 0 || s->pad_top > 0 || s->pad_left > 0 ||
               (s->od - 1) * s->stride_d + (s->kd - 1) * s->dilation_d - s->pad_front >= s->d ||
               (s->oh - 1) * s->stride_h + (s->kh - 1) * s->dilation_h - s->pad_top >= s->h ||
               (s->ow - 1) * s->stride_w + (s->kw - 1) * s->dilation_w - s->pad_left >= s->w;
    g.flat = s->y_w == 1 && (s->y_h == s->ow || s->oh == 1) && (s->y_d == s->oh * s->ow || s->od == 1);
    if (g.taps == 1 && s->stride_d == 1 && s->stride_h == 1 && s->stride_w == 1 && !g.padded &&
        s->od == s->d && s->oh == s->h && s->ow == s->w && s->x_w == 1 && s->x_h == s->w &&
        (s->x_d == s->h * s->w || s->d == 1) && g.flat) {
        s->w = s->ow = g.pixels; /* pixels are one row: panels are plain copies */
        s->d = s->od = s->h = s->oh = 1;
    }
    const int64_t panels = parts(g.pixels, NR), tiles = parts(s->cout, MR);
    const int64_t blocks = parts(panels, BLOCK_PANELS), units = parts(tiles, s->unit_tiles);
    while (begin < end) {
        const int64_t unit = begin % units, block = begin / units % blocks, outer = begin / units / blocks;
        const int64_t run = smaller(smaller(end - begin, units - unit), RUN_TILES / s->unit_tiles);
        const struct block o = {
            .image = outer / s->groups,
            .group = outer % s->groups,
            .tile0 = unit * s->unit_tiles,
            .tile1 = smaller(tiles, (unit + run) * s->unit_tiles),
            .panel0 = cut(panels, block, blocks),
            .panel1 = cut(panels, block + 1, blocks),
        };
        const int32_t error = run_block(&g, &o, scratch);
        if (error)
            return error;
        begin += run;
    }
    return 0;
}
"""

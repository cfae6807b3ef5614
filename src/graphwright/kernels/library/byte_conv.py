"""2-D convolution of bytes: y = conv(x - x_zero, w - w_zero) in s32, row-major images.

Implicit GEMM, as ``conv.py``: a tile is some output channels times some output pixels. A first kernel
(:data:`INTERLEAVE`) puts four channels of a pixel side by side in a *quad*; quads then move like f32 pixels:
for a block of pixels the panels of all taps are gathered once (Chellapilla et al., "High Performance
Convolutional Neural Networks for Document Processing", 2006) and serve all channels of the chunk's units.
Images become u8 and weights s8 by moving both what is not and its zero point by 128; pads hold the zero point
of x. With sums of each channel's weights from the packing, and of a pixel's quads where w has a zero point,

    (W - wz) (X - xz) = W X - xz * sum(W) - wz * (sum(X) - K * xz)

(Jacob et al., 2018, section 2.3). All of it wraps like s32, so every way and any chunking give the same bits.
A 1-D convolution has h = 1.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum, symbol
from graphwright.kernels.library.byte_tile import (
    QUAD,
    RUN,
    TILE_ROWS,
    Array,
    as_signed,
    byte_tiles,
    entries,
    panel_columns,
    tile_bytes,
)
from graphwright.kernels.library.extent import (
    FLAG,
    SIGNED,
    Extent,
    Reach,
    Tiles,
    dense,
    window_bounds,
    within,
)
from graphwright.kernels.library.im2col import gathering
from graphwright.kernels.library.tile import HELPERS
from graphwright.records import replace
from graphwright.targets.cpu.isa import Isa, args_struct, prelude

SYMBOL: Final = "gw_conv_bytes"
WIDE: Final = "gw_conv_bytes_wide"
"""The same without AVX512-VNNI, whatever the CPU has."""
INTERLEAVE: Final = "gw_interleave_bytes"

OPERANDS: Final = ("x", "w", "x_zero", "w_zero", "y")
"""``x`` as :data:`INTERLEAVE` leaves it, ``w`` packed (:func:`pack`); zero points may be absent; ``y`` is
ignored when there is a hook. The hook, or a null pointer, comes next; its tile holds s32, its rows are the
output channels of all groups, its columns the output pixels row by row."""

INTERLEAVE_OPERANDS: Final = ("x", "quads")

_BLOCK_BYTES: Final = 512 * 1024
"""Of gathered panels, in the second-level cache."""
_MOST_PANELS: Final = 8
_UNIT_CHANNELS: Final = 64
"""Output channels per unit: few enough that small images still give work to several threads."""
_PIXELS: Final = 4096
"""Pixels per unit of :data:`INTERLEAVE`."""


class ByteConvArgs(NamedTuple):
    """The kernel's args in ABI order; strides of y in elements. Pads at the end follow from od, oh, ow."""

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
    y_n: Dim
    y_c: Dim
    w_zero_step: Dim
    """0 if ``w_zero`` is one for all output channels, else 1."""
    x_signed: Dim
    w_signed: Dim


class InterleaveArgs(NamedTuple):
    """Args of :data:`INTERLEAVE`: images of ``groups * cin`` channels of so many pixels."""

    images: Dim
    groups: Dim
    cin: Dim
    pixels: Dim
    x_signed: Dim


def quads_bytes(args: InterleaveArgs) -> Dim:
    """Bytes of the interleaved images, and of a vector behind them."""
    return args.images * args.groups * ceildiv(args.cin, QUAD) * args.pixels * QUAD


def packed_bytes(groups: int, cout: int, cin: int, taps: int) -> int:
    """Bytes of the packed weights of ``groups`` groups of cout x cin x taps."""
    quads = -(-cin // QUAD) * taps
    return groups * -(-cout // TILE_ROWS) * (TILE_ROWS * 4 + tile_bytes(quads))


def pack(out: Array, w: Array, groups: int) -> None:
    """Weights [groups * cout, cin, taps...] of u8 or s8 into the bytes ``out``.

    By tile of :data:`~graphwright.kernels.library.byte_tile.TILE_ROWS` output channels: the sum of each
    channel, then its quads, by four channels and then by tap, in runs.
    """
    cout, cin, taps = w.shape[0] // groups, w.shape[1], int(np.prod(w.shape[2:]))
    tiles, quads = -(-cout // TILE_ROWS), -(-cin // QUAD)
    padded = np.zeros((groups, tiles * TILE_ROWS, quads * QUAD, taps), np.int8)
    padded[:, :cout, :cin] = as_signed(w).reshape(groups, cout, cin, taps)
    ordered = padded.reshape(groups, tiles, TILE_ROWS, quads, QUAD, taps).transpose(0, 1, 2, 3, 5, 4)
    runs = -(-quads * QUAD * taps // RUN)
    rows = np.zeros((groups, tiles, TILE_ROWS, runs * RUN), np.int8)
    rows[..., : quads * QUAD * taps] = ordered.reshape(groups, tiles, TILE_ROWS, quads * QUAD * taps)
    sums = padded.sum(axis=(2, 3), dtype=np.int32).reshape(groups, tiles, TILE_ROWS)
    target = out.view(np.uint8).reshape(groups, tiles, TILE_ROWS * (4 + runs * RUN))
    target[..., : TILE_ROWS * 4] = sums.view(np.uint8).reshape(groups, tiles, TILE_ROWS * 4)
    by_run = rows.reshape(groups, tiles, TILE_ROWS, runs, RUN).swapaxes(2, 3)
    target[..., TILE_ROWS * 4 :] = by_run.reshape(groups, tiles, TILE_ROWS * runs * RUN).view(np.uint8)


def _quads(args: ByteConvArgs) -> Dim:
    return ceildiv(args.cin, QUAD) * args.kd * args.kh * args.kw


def _block_panels(isa: Isa, args: ByteConvArgs) -> Dim:
    """Panels of pixels per unit."""
    fitting = floordiv(_BLOCK_BYTES, maximum(_quads(args), 1) * (panel_columns(isa) * QUAD))
    return minimum(maximum(fitting, 1), _MOST_PANELS)


def grid(isa: Isa, args: ByteConvArgs) -> Dim:
    """Units of work: images, groups, blocks of pixels, blocks of output channels (fastest)."""
    pixels = _block_panels(isa, args) * panel_columns(isa)
    blocks = ceildiv(args.od * args.oh * args.ow, pixels) * ceildiv(args.cout, _UNIT_CHANNELS)
    return args.images * args.groups * blocks


def scratch_bytes(isa: Isa, args: ByteConvArgs) -> Dim:
    """Gathered panels, and the sums of their columns."""
    width = panel_columns(isa)
    panels = minimum(ceildiv(args.od * args.oh * args.ow, width), _block_panels(isa, args))
    return panels * width * QUAD * (_quads(args) + 1)


def work_ns(isa: Isa, args: ByteConvArgs) -> Dim:
    """Time on one core at 400 or 70 Gop/s, and of gathering the panels at 8 quads a nanosecond."""
    pixels = args.images * args.groups * args.od * args.oh * args.ow
    speed = 400 if isa.vector_bytes == 64 else 70
    quads = pixels * _quads(args)
    return ceildiv(8 * quads * args.cout, speed) + floordiv(quads, 8)


def interleave_grid(args: InterleaveArgs) -> Dim:
    """Blocks of pixels of each quad of channels."""
    return args.images * args.groups * ceildiv(args.cin, QUAD) * ceildiv(args.pixels, _PIXELS)


def interleave_work_ns(args: InterleaveArgs) -> Dim:
    """Six bytes a nanosecond."""
    return floordiv(quads_bytes(args), 6)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """How far the three kernels reach: taps outside the image are not read."""
    a = ByteConvArgs(*map(symbol, ByteConvArgs._fields))
    quads, tiles = ceildiv(a.cin, QUAD), ceildiv(a.cout, TILE_ROWS)
    channels, pixels = a.groups * a.cout, a.od * a.oh * a.ow
    tile = TILE_ROWS * (4 + ceildiv(_quads(a) * QUAD, RUN) * RUN)
    made = Extent(
        SYMBOL,
        ByteConvArgs._fields,
        (
            dense(QUAD, a.images * a.groups, quads, a.d * a.h * a.w),
            dense(1, a.groups, tiles, tile),
            dense(1, 1, optional=True),
            Reach(1, ((channels, a.w_zero_step),), optional=True),
            Reach(4, ((a.images, a.y_n), (channels, a.y_c), (pixels, 1)), unhooked=True),
        ),
        grid=grid(isa, a),
        scratch=scratch_bytes(isa, a),
        bounds=window_bounds(ByteConvArgs._fields)
        | within(SIGNED, "y_n", "y_c")
        | within(FLAG, "w_zero_step", "x_signed", "w_signed"),
        tiles=Tiles(a.images, channels, pixels),
    )
    return made, replace(made, symbol=WIDE), _interleave_extent()


def _interleave_extent() -> Extent:
    a = InterleaveArgs(*map(symbol, InterleaveArgs._fields))
    return Extent(
        INTERLEAVE,
        InterleaveArgs._fields,
        (dense(1, a.images * a.groups, a.cin, a.pixels), dense(1, quads_bytes(a))),
        grid=interleave_grid(a),
    )


def source(isa: Isa) -> str:
    """One C11 file with all symbols."""
    constants = f"""
#include <cpuid.h>
#define NR {panel_columns(isa)} /* output pixels of a tile, and of a panel */
#define BLOCK_BYTES {_BLOCK_BYTES}
#define MOST_PANELS {_MOST_PANELS}
#define UNIT_TILES {_UNIT_CHANNELS // TILE_ROWS}
#define PIXELS {_PIXELS} /* of a unit that interleaves */
#define ARGS {len(ByteConvArgs._fields)}
#define OPERANDS {len(OPERANDS)}
"""
    fields = args_struct(ByteConvArgs._fields) + args_struct(InterleaveArgs._fields, "interleave_args")
    body = _BODY.replace("@GATHERING@", gathering(isa, "quad", "vi", "q", "vi"))
    functions = [entries(_ENTRY, SYMBOL, WIDE), _INTERLEAVE.replace("@SYMBOL@", INTERLEAVE)]
    tiles = byte_tiles(isa, a_signed=True)
    return "\n".join([prelude(isa), constants, fields, HELPERS, tiles, body, *functions])


_BODY: Final = """
typedef uint32_t quad; /* four channels of a pixel */

struct conv {
    struct args s;
    const quad *x;
    const uint8_t *w, *w_zero;
    int32_t *y;
    gw_hook hook;
    void *const *hook_buf;
    const int64_t *hook_arg;
    int64_t taps;   /* kd * kh * kw */
    int64_t pixels; /* d * h * w */
    int64_t counts; /* od * oh * ow */
    int64_t planes; /* of quads, in a group */
    int64_t most_panels;
    int32_t zero;   /* of x as u8 */
    int padded;     /* some tap of some pixel lies outside the image */
    int w_moved, shifts; /* w was moved by 128; some channel of it has a zero point then */
    int wide;       /* without VNNI */
};

/* Tiles [tile0, tile1) of output channels and panels [panel0, panel1) of pixels of a group of an image. */
struct block {
    int64_t image, group, tile0, tile1, panel0, panel1;
};

GW_INLINE vi vi_load_n(const quad *p, int64_t n) { return (vi)vf_load_n((const float *)(const void *)p, n); }
GW_INLINE void vi_store_n(quad *p, vi x, int64_t n) { vf_store_n((float *)(void *)p, (vf)x, n); }
GW_INLINE vi q_load(const quad *p) { return *(const vi_any *)p; }
GW_INLINE void q_store(quad *p, vi x) { *(vi_any *)p = x; }

@GATHERING@
/* The panel to[plane][tap][NR] of cols pixels from the pixel at on; zero points outside the image. */
static void gather_panel(const struct conv *g, const quad *x, int64_t at, int64_t cols, quad *to) {
    const struct args *s = &g->s;
    if (g->padded || cols < NR) {
        const vi outside = vi_set1((int32_t)(0x01010101u * (uint32_t)g->zero));
        for (int64_t i = 0; i < g->planes * g->taps * NR; i += VL)
            q_store(to + i, outside);
    }
    gather_runs(s, x, g->pixels, s->h * s->w, s->w, 1, at, cols, g->planes, to);
}

/* The same where pixels are their own only tap: a copy of planes. */
static void copy_panel(const struct conv *g, const quad *x, int64_t at, int64_t cols, quad *to) {
    copy_runs(x + at, g->pixels, 1, cols, g->planes, to, NR);
    for (int64_t c = 0; cols % VL && c < g->planes; c++)
        memset(to + c * NR + cols, 0, (size_t)(-cols & (VL - 1)) * sizeof *to);
}

/* Sums of a panel's columns, over the channels that there are, less those of as many zero points of x. */
static void sum_columns(const struct conv *g, const quad *panel, int32_t *sums) {
    const int64_t last = g->s.cin - 4 * (g->planes - 1);
    const vi zeros = vi_set1((int32_t)((uint32_t)(g->s.cin * g->taps) * (uint32_t)g->zero));
    for (int64_t v = 0; v < NR; v += VL) {
        vq total = (vq){0} - (vq)zeros;
        for (int64_t c = 0; c < g->planes; c++) {
            const vi counted = vi_set1(c + 1 < g->planes || last == 4 ? -1 : (1 << 8 * last) - 1);
            for (int64_t tap = 0; tap < g->taps; tap++)
                total += (vq)quad_sums(q_load(panel + (c * g->taps + tap) * NR + v) & counted);
        }
        vi_store(sums + v, (vi)total);
    }
}

static int32_t zero_of_weights(const struct conv *g, int64_t channel) {
    return zero_at(g->w_zero, channel * g->s.w_zero_step, g->s.w_signed, g->w_moved);
}

/* What zero points of the weights take off a tile. */
static void shift_tile(const struct conv *g, int64_t channel, int64_t rows, int64_t vectors,
                       const int32_t *sums, int32_t *tile, int64_t ld) {
    int32_t zeros[TILE_ROWS];
    for (int64_t r = 0; r < rows; r++)
        zeros[r] = zero_of_weights(g, channel + r);
    subtract_products(tile, ld, rows, vectors, zeros, sums);
}

/* Where panel p begins: so that all have nearly the same number of vectors. */
static int64_t pixel_of(const struct conv *g, int64_t p) {
    return smaller(cut(parts(g->counts, VL), p, parts(g->counts, NR)) * VL, g->counts);
}

/* Takes a tile that is not in the output yet to the hook or there. */
static int32_t deliver_tile(const struct conv *g, int64_t image, int64_t channel, int64_t rows, int64_t at,
                            int64_t cols, int32_t *out, const struct byte_tile *t) {
    const struct args *s = &g->s;
    if (g->hook)
        return g->hook(g->hook_buf, g->hook_arg, (float *)(void *)out, NR, image, channel, rows, at, cols);
    if (t->to == out)
        store_tile(out, rows, cols, g->y + image * s->y_n + channel * s->y_c + at, s->y_c);
    return 0;
}

/* The panels of a block, and the sums of their columns if need be. */
static void gather_block(const struct conv *g, const struct block *o, const int64_t *pixel, quad *panels,
                         int32_t *sums) {
    const struct args *s = &g->s;
    const int64_t pointwise =
        g->taps == 1 && !g->padded && s->od == s->d && s->oh == s->h && s->ow == s->w;
    const quad *x = g->x + (o->image * s->groups + o->group) * g->planes * g->pixels;
    for (int64_t p = 0; p < o->panel1 - o->panel0; p++, panels += g->planes * g->taps * NR, sums += NR) {
        (pointwise ? copy_panel : gather_panel)(g, x, pixel[p], pixel[p + 1] - pixel[p], panels);
        if (g->shifts)
            sum_columns(g, panels, sums);
    }
}

static int32_t run_block(const struct conv *g, const struct block *o, uint8_t *scratch) {
    const struct args *s = &g->s;
    const int64_t quads = g->planes * g->taps, tiles = parts(s->cout, TILE_ROWS);
    const int64_t tile_bytes = TILE_ROWS * 4 + parts(quads * 4, RUN) * RUN * TILE_ROWS;
    const int64_t count = o->panel1 - o->panel0;
    quad *panels = (quad *)(void *)scratch;
    int32_t *sums = (int32_t *)(void *)(panels + count * quads * NR);
    int32_t out[TILE_ROWS * NR], start[TILE_ROWS];
    int64_t pixel[MOST_PANELS + 1];
    for (int64_t p = 0; p <= count; p++)
        pixel[p] = pixel_of(g, o->panel0 + p);
    gather_block(g, o, pixel, panels, sums);
    for (int64_t tile = o->tile0; tile < o->tile1; tile++) {
        const int64_t row = tile * TILE_ROWS, rows = smaller(s->cout - row, TILE_ROWS);
        const int64_t channel = o->group * s->cout + row;
        const uint8_t *w = g->w + (o->group * tiles + tile) * tile_bytes;
        memcpy(start, w, sizeof start);
        for (int64_t r = 0; r < TILE_ROWS; r++)
            start[r] = (int32_t)-((uint32_t)g->zero * (uint32_t)start[r]);
        for (int64_t p = 0; p < count; p++) {
            const int64_t at = pixel[p], cols = pixel[p + 1] - at, vectors = parts(cols, VL);
            struct byte_tile t = {.from = start, .from_rows = 1, .to = out, .to_ld = NR};
            if (!g->hook && cols % VL == 0) {
                t.to = g->y + o->image * s->y_n + channel * s->y_c + at;
                t.to_ld = s->y_c;
            }
            run_byte_tile(g->wide, rows, vectors, quads, w + TILE_ROWS * 4,
                          (const uint8_t *)(panels + p * quads * NR), &t);
            if (g->shifts)
                shift_tile(g, channel, rows, vectors, sums + p * NR, t.to, t.to_ld);
            const int32_t error = deliver_tile(g, o->image, channel, rows, at, cols, out, &t);
            if (error)
                return error;
        }
    }
    return 0;
}

static int32_t run_units(const struct conv *g, int64_t begin, int64_t end, uint8_t *scratch) {
    const struct args *s = &g->s;
    const int64_t tiles = parts(s->cout, TILE_ROWS), channel_units = parts(tiles, UNIT_TILES);
    const int64_t panels = parts(g->counts, NR), pixel_units = parts(panels, g->most_panels);
    while (begin < end) {
        const int64_t unit = begin % channel_units, block = begin / channel_units;
        const int64_t pixels = block % pixel_units, image = block / pixel_units;
        const int64_t run = smaller(end - begin, channel_units - unit);
        const struct block o = {
            .image = image / s->groups,
            .group = image % s->groups,
            .tile0 = unit * UNIT_TILES,
            .tile1 = smaller(tiles, (unit + run) * UNIT_TILES),
            .panel0 = cut(panels, pixels, pixel_units),
            .panel1 = cut(panels, pixels + 1, pixel_units),
        };
        const int32_t error = run_block(g, &o, scratch);
        if (error)
            return error;
        begin += run;
    }
    return 0;
}

static int64_t block_panels(int64_t quads) {
    const int64_t fitting = BLOCK_BYTES / ((quads > 1 ? quads : 1) * PANEL_ROW);
    return fitting < 1 ? 1 : smaller(fitting, MOST_PANELS);
}

static void prepare(struct conv *g, const uint8_t *x_zero) {
    const struct args *s = &g->s;
    g->taps = s->kd * s->kh * s->kw;
    g->pixels = s->d * s->h * s->w;
    g->counts = s->od * s->oh * s->ow;
    g->planes = parts(s->cin, 4);
    g->most_panels = block_panels(g->planes * g->taps);
    g->zero = x_zero ? (uint8_t)(*x_zero ^ (s->x_signed ? 0x80 : 0)) : (s->x_signed ? 128 : 0);
    g->w_moved = s->w_signed ? 0 : -128;
    const int64_t behind = (s->od - 1) * s->stride_d - s->pad_front + (s->kd - 1) * s->dilation_d;
    const int64_t below = (s->oh - 1) * s->stride_h - s->pad_top + (s->kh - 1) * s->dilation_h;
    const int64_t right = (s->ow - 1) * s->stride_w - s->pad_left + (s->kw - 1) * s->dilation_w;
    g->padded = s->pad_front > 0 || s->pad_top > 0 || s->pad_left > 0 || behind >= s->d ||
                below >= s->h || right >= s->w;
    const int64_t zeros = s->w_zero_step ? s->groups * s->cout : 1;
    for (int64_t i = 0; i < zeros; i++)
        g->shifts |= zero_of_weights(g, i) != 0;
}
"""

_ENTRY: Final = """
GW_EXPORT int32_t @SYMBOL@(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    struct conv g = {
        .x = buf[0],
        .w = buf[1],
        .w_zero = buf[3],
        .y = buf[4],
        .hook_buf = buf + OPERANDS + 1,
        .hook_arg = arg + ARGS,
        .wide = @WIDE@,
    };
    memcpy(&g.s, arg, sizeof g.s);
    memcpy(&g.hook, &buf[OPERANDS], sizeof g.hook);
    prepare(&g, buf[2]);
    return run_units(&g, begin, end, scratch);
}
"""

_INTERLEAVE: Final = """
struct bytes {
    uint8_t x[VL];
};

/* VL bytes, each in a lane. */
GW_INLINE vq spread(const uint8_t *p) {
    vq x;
    __asm__("vpmovzxbd %1, %0" : "=v"(x) : "m"(*(const struct bytes *)(const void *)p));
    return x;
}

/* to[i] = the bytes at[0..rows)[i], each ^ flip, the lowest first. */
GW_INLINE void interleave(const uint8_t *at, int64_t pitch, int64_t rows, int64_t n, uint8_t flip, quad *to) {
    const vi flips = vi_set1((int32_t)(0x01010101u * flip));
    int64_t i = 0;
    for (; i + VL <= n; i += VL) {
        vq x = spread(at + i);
        for (int64_t r = 1; r < rows; r++)
            x |= spread(at + r * pitch + i) << 8 * (int32_t)r;
        q_store(to + i, (vi)x ^ flips);
    }
    for (; i < n; i++) {
        quad x = 0;
        for (int64_t r = 0; r < rows; r++)
            x |= (quad)at[r * pitch + i] << 8 * r;
        to[i] = x ^ 0x01010101u * flip;
    }
}

GW_EXPORT int32_t @SYMBOL@(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    struct interleave_args s;
    (void)scratch;
    memcpy(&s, arg, sizeof s);
    const int64_t planes = parts(s.cin, 4), blocks = parts(s.pixels, PIXELS);
    for (; begin < end; begin++) {
        const int64_t pixel = begin % blocks * PIXELS, plane = begin / blocks;
        const int64_t channel = plane / planes * s.cin + plane % planes * 4;
        const uint8_t *x = (const uint8_t *)buf[0] + channel * s.pixels + pixel;
        quad *to = (quad *)buf[1] + plane * s.pixels + pixel;
        const int64_t rows = s.cin - plane % planes * 4, n = smaller(PIXELS, s.pixels - pixel);
        if (rows >= 4)
            interleave(x, s.pixels, 4, n, s.x_signed ? 0x80 : 0, to);
        else
            interleave(x, s.pixels, rows, n, s.x_signed ? 0x80 : 0, to);
    }
    return 0;
}
"""

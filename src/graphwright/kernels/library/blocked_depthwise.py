"""Depthwise convolution of blocked activations: y = act(conv(x[n, c], w[c]) + bias[c] + residual), f32.

A vector holds the channels of a block, so each tap of a pixel is one FMA. A tile is some output pixels of a
row, whose sums stay in registers for all taps. Where the image has padding at its sides, its rows are copied
with it to a ring of scratch that holds as many rows as a window spans: no tile has border code, and each row
is copied once. The columns of usual windows are unrolled so that every input vector is loaded once per row of
taps. Taps in rows outside the image are left out.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum, symbol
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
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa, args_struct, prelude

SYMBOL: Final = "gw_depthwise_blocked_f32"

OPERANDS: Final = ("x", "w", "bias", "residual", "y")
"""``w`` [CB, 1, kh, kw, VL] and ``bias`` [CB * VL] zero padded; ``bias`` and ``residual`` may be absent;
``y`` is ignored when there is a hook. The hook, or a null pointer, comes next; its batch is image * CB +
block, its rows are output pixels, its columns the VL channels."""

_BAND: Final = 16
"""Output rows per unit."""

_HOOK_PIXELS: Final = 64
"""A hook gets the whole rows that reach this many pixels, in 4 KiB under AVX-512."""

_AHEAD: Final = 512
"""Elements from what is copied to what is fetched to L1 meanwhile."""


class BlockedDepthwiseArgs(NamedTuple):
    """The kernel's args in ABI order; strides in elements. Pads at the end follow from oh, ow."""

    images: Dim
    channels: Dim
    h: Dim
    w: Dim
    oh: Dim
    ow: Dim
    kh: Dim
    kw: Dim
    stride_h: Dim
    stride_w: Dim
    pad_top: Dim
    pad_left: Dim
    dilation_h: Dim
    dilation_w: Dim
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
    """0 none, 1 relu, 2 clip."""
    lo: Dim
    hi: Dim
    """Bounds of the clip, as the bits of an f32."""


def grid(isa: Isa, args: BlockedDepthwiseArgs) -> Dim:
    """Units of work: images, blocks of channels, bands of rows (fastest)."""
    return args.images * ceildiv(args.channels, isa.lanes) * ceildiv(args.oh, _BAND)


def scratch_bytes(isa: Isa, args: BlockedDepthwiseArgs) -> Dim:
    """The ring of padded rows, the output rows of a hook, a pointer to each row of taps."""
    ring = ((args.kh - 1) * args.dilation_h + 1) * _row_pixels(args)
    out = args.ow * minimum(args.oh, ceildiv(_HOOK_PIXELS, maximum(args.ow, 1)))
    return isa.vector_bytes * (ring + out) + 8 * args.kh


def _row_pixels(args: BlockedDepthwiseArgs) -> Dim:
    """Pixels of a padded row: those that some tap reads."""
    return (maximum(args.ow, 1) - 1) * args.stride_w + (args.kw - 1) * args.dilation_w + 1


def work_ns(isa: Isa, args: BlockedDepthwiseArgs) -> Dim:
    """Time on one core: 100 or 50 GFLOP/s, or 5 elements a nanosecond in and out."""
    planes = args.images * ceildiv(args.channels, isa.lanes) * isa.lanes
    flops = 2 * planes * args.oh * args.ow * args.kh * args.kw
    moved = planes * (args.oh * args.ow + args.h * args.w)
    return maximum(ceildiv(flops, 100 if isa.vector_bytes == 64 else 50), floordiv(moved, 5))


@dataclass(frozen=True)
class _Columns:
    """How tiles read their columns: ``kw`` neighbouring taps, unrolled, or (0) any taps, in a loop.

    ``stride`` between output pixels; 0 is any.
    """

    kw: int
    stride: int

    @property
    def name(self) -> str:
        return f"columns{self.kw}s{self.stride}"

    def width(self, isa: Isa) -> int:
        """Output pixels of the widest tile: sums beside the weights of a row and one input."""
        if self.stride == 0:
            return 4
        if isa.vector_bytes == 64:
            return 14
        return min(12, 16 - self.kw - 2)


_COLUMNS: Final = (
    *(_Columns(3, 1), _Columns(3, 2), _Columns(5, 1), _Columns(5, 2), _Columns(7, 1)),
    *(_Columns(0, 1), _Columns(0, 2), _Columns(0, 0)),
)
"""The first that serves is taken."""


def extents(isa: Isa) -> tuple[Extent, ...]:
    """How far :data:`SYMBOL` reaches: rows and columns outside the image are not read."""
    a = BlockedDepthwiseArgs(*map(symbol, BlockedDepthwiseArgs._fields))
    blocks, pixels = ceildiv(a.channels, isa.lanes), (a.ow * isa.lanes, 1)
    x = ((a.images, a.x_n), (blocks, a.x_cb), (a.h, a.x_h), (a.w * isa.lanes, 1))
    residual = ((a.images, a.r_n), (blocks, a.r_cb), (a.oh, a.r_h), pixels)
    y = ((a.images, a.y_n), (blocks, a.y_cb), (a.oh, a.y_h), pixels)
    return (
        Extent(
            SYMBOL,
            BlockedDepthwiseArgs._fields,
            (
                Reach(4, x),
                dense(4, blocks * isa.lanes, a.kh * a.kw),
                dense(4, blocks * isa.lanes, optional=True),
                Reach(4, residual, optional=True),
                Reach(4, y, unhooked=True),
            ),
            grid=grid(isa, a),
            scratch=scratch_bytes(isa, a),
            bounds=window_bounds(BlockedDepthwiseArgs._fields)
            | within(SIGNED, *BlockedDepthwiseArgs._fields[14:23])
            | within(BITS, "lo", "hi")
            | within(STEP, "kh", "kw"),
            tiles=Tiles(a.images * blocks, a.oh * a.ow, isa.lanes),
        ),
    )


def source(isa: Isa) -> str:
    """One C11 file with :data:`SYMBOL`."""
    constants = f"""
#define BAND {_BAND} /* output rows of a unit */
#define HOOK_PIXELS {_HOOK_PIXELS}
#define AHEAD {_AHEAD}
#define ARGS {len(BlockedDepthwiseArgs._fields)}
#define OPERANDS {len(OPERANDS)}
"""
    fields = args_struct(BlockedDepthwiseArgs._fields)
    tiles = [
        tile
        for c in _COLUMNS
        for tile in (*(_tile(c, n) for n in range(1, c.width(isa) + 1)), _table(c, isa))
    ]
    choices = "\n".join(f"    {_choice(c, isa)}" for c in _COLUMNS)
    body = _BODY.replace("@CHOICES@", choices).replace("@SYMBOL@", SYMBOL)
    return "\n".join([prelude(isa), constants, fields, HELPERS, _STRUCTS, *tiles, body])


def _choice(columns: _Columns, isa: Isa) -> str:
    conditions = [f"s->kw == {columns.kw} && s->dilation_w == 1"] if columns.kw else []
    conditions += [f"s->stride_w == {columns.stride}"] if columns.stride else []
    chosen = f"return (struct tiles){{{columns.name}_of, {columns.width(isa)}}};"
    return f"if ({' && '.join(conditions)}) {chosen}" if conditions else chosen


def _table(columns: _Columns, isa: Isa) -> str:
    names = ", ".join(f"{columns.name}_{n}" for n in range(1, columns.width(isa) + 1))
    return f"static const tile_fn {columns.name}_of[] = {{{names}}};\n"


def _tile(columns: _Columns, width: int) -> str:
    """``width`` pixels from ``ox`` on; each sum takes its taps in the same order whatever the width."""
    pixels = range(width)
    return "\n".join(
        [
            f"static void {columns.name}_{width}(const struct row *r, int64_t ox) {{",
            "    const float *w = r->w;",
            f"    vf {', '.join(f'c{t} = r->bias' for t in pixels)};",
            *(_unrolled_taps(columns, width) if columns.kw else _any_taps(columns, width)),
            "    if (r->add) {",
            "        const float *add = r->add + ox * VL;",
            *(f"        c{t} += vf_load(add + {t} * VL);" for t in pixels),
            "    }",
            "    if (r->act) {",
            *(f"        c{t} = at_least(r->lo, c{t});" for t in pixels),
            "    }",
            "    if (r->act == 2) {",
            *(f"        c{t} = at_most(r->hi, c{t});" for t in pixels),
            "    }",
            "    float *to = r->to + ox * VL;",
            *(f"    vf_store(to + {t} * VL, c{t});" for t in pixels),
            "}",
            "",
        ]
    )


def _unrolled_taps(columns: _Columns, width: int) -> list[str]:
    taps = range(columns.kw)
    lines = [
        f"    for (int64_t i = 0; i < r->taps; i++, w += {columns.kw} * VL) {{",
        f"        const float *x = r->rows[i] + ox * {columns.stride} * VL;",
        f"        const vf {', '.join(f'w{j} = vf_load(w + {j} * VL)' for j in taps)};",
    ]
    for p in range((width - 1) * columns.stride + columns.kw):
        reached = [(t, p - t * columns.stride) for t in range(width) if p - t * columns.stride in taps]
        if reached:
            lines += [f"        vf x{p} = vf_load(x + {p} * VL);", f"        HOLD(x{p});"]
            lines += [f"        ADD(c{t}, x{p}, w{j});" for t, j in reached]
    return [*lines, "    }"]


def _any_taps(columns: _Columns, width: int) -> list[str]:
    step = f"{columns.stride} * VL" if columns.stride else "r->step"
    return [
        f"    const int64_t step = {step}, tap = r->tap;",
        "    for (int64_t i = 0; i < r->taps; i++) {",
        "        const float *x = r->rows[i] + ox * step;",
        "        for (int64_t j = 0; j < r->kw; j++, x += tap, w += VL) {",
        "            const vf k = vf_load(w);",
        *(f"            c{t} = vf_fma(vf_load(x + {t} * step), k, c{t});" for t in range(width)),
        "        }",
        "    }",
    ]


_STRUCTS: Final = """
/* One output row: pixel o takes tap j of row i of taps from rows[i] + o * step + j * tap. */
struct row {
    const float *const *rows;
    const float *w;
    int64_t taps, kw, step, tap;
    vf bias, lo, hi;
    const float *add;
    float *to;
    int64_t act;
};
typedef void (*tile_fn)(const struct row *r, int64_t ox);

/* Both give x where it is NaN: the instructions return their second source then. */
GW_INLINE vf at_least(vf lo, vf x) {
    __asm__("vmaxps %0, %1, %0" : "+v"(x) : "v"(lo));
    return x;
}
GW_INLINE vf at_most(vf hi, vf x) {
    __asm__("vminps %0, %1, %0" : "+v"(x) : "v"(hi));
    return x;
}
/* Keeps x in a register from here on: GCC would move each load to every use of it, and gather the FMAs of
   each sum into one chain. */
#define HOLD(x) __asm__("" : "+v"(x))
#define ADD(c, a, b)         \
    do {                     \
        c = vf_fma(a, b, c); \
        HOLD(c);             \
    } while (0)
"""

_BODY: Final = """
/* Tiles of one kind, by their pixels - 1. */
struct tiles {
    const tile_fn *of;
    int64_t width;
};

static struct tiles choose_tiles(const struct args *s) {
@CHOICES@
}

/* The padded rows of a plane, those of a window at least; rows are read where they are if slots is NULL. */
struct ring {
    float *slots;
    int64_t span;            /* slots */
    int64_t pitch;           /* elements of a slot */
    int64_t from, to;        /* of a slot: the columns that the image fills */
    int64_t next, next_slot; /* the first row that was not copied yet; where it will stand */
};

static void zero_pixels(float *to, int64_t pixels) {
    for (int64_t i = 0; i < pixels; i++)
        vf_store(to + i * VL, (vf){0});
}

/* The padding is the same in all slots: it is written once. */
static struct ring make_ring(const struct args *s, float *scratch) {
    const int64_t width = (s->ow - 1) * s->stride_w + (s->kw - 1) * s->dilation_w + 1;
    struct ring g = {.span = (s->kh - 1) * s->dilation_h + 1, .pitch = width * VL};
    if (s->pad_left == 0 && width <= s->w)
        return g;
    g.slots = scratch;
    g.from = smaller(s->pad_left > 0 ? s->pad_left : 0, width);
    g.to = smaller(s->pad_left + s->w, width);
    g.to = g.to < g.from ? g.from : g.to;
    for (int64_t i = 0; i < g.span; i++) {
        zero_pixels(g.slots + i * g.pitch, g.from);
        zero_pixels(g.slots + i * g.pitch + g.to * VL, width - g.to);
    }
    return g;
}

/* Copies the rows of the window that begins at row top, as far as they are missing. */
GW_INLINE void fill_ring(struct ring *g, const struct args *s, const float *x, int64_t top) {
    const int64_t last = smaller(top + g->span, s->h), n = (g->to - g->from) * VL;
    if (g->next < top)
        g->next = top;
    for (; g->next < last; g->next++) {
        const float *from = x + g->next * s->x_h + (g->from - s->pad_left) * VL;
        float *to = g->slots + g->next_slot * g->pitch + g->from * VL;
        for (int64_t i = 0; i < n; i += VL) {
            __builtin_prefetch(from + AHEAD + i);
            vf_store(to + i, vf_load(from + i));
        }
        g->next_slot = g->next_slot + 1 < g->span ? g->next_slot + 1 : 0;
    }
}

/* Points r at the rows of taps of output row oy that lie inside the image. */
static void find_rows(struct row *r, struct ring *g, const struct args *s, const float *x, const float *w,
                      int64_t oy, const float **rows) {
    const int64_t top = oy * s->stride_h - s->pad_top;
    const int64_t i0 = top < 0 ? smaller(parts(-top, s->dilation_h), s->kh) : 0;
    const int64_t i1 = s->h > top ? smaller(parts(s->h - top, s->dilation_h), s->kh) : 0;
    r->taps = i1 > i0 ? i1 - i0 : 0;
    r->w = w + i0 * s->kw * VL;
    int64_t y = top + i0 * s->dilation_h;
    if (g->slots) {
        fill_ring(g, s, x, top);
        int64_t slot = g->next_slot - (g->next - y);
        for (int64_t i = 0; i < r->taps; i++, slot += s->dilation_h) {
            slot += slot < 0 ? g->span : slot >= g->span ? -g->span : 0;
            rows[i] = g->slots + slot * g->pitch;
        }
        return;
    }
    for (int64_t i = 0; i < r->taps; i++, y += s->dilation_h)
        rows[i] = x + y * s->x_h;
}

/* The tiles of a row: `wider` ones of width + 1 pixels, then those of width. */
struct cuts {
    const tile_fn *tile_of;
    int64_t count, width, wider;
};

static struct cuts cut_row(const struct tiles *tiles, int64_t ow) {
    const int64_t count = parts(ow, tiles->width), width = quotient(ow, count);
    return (struct cuts){tiles->of, count, width, ow - count * width};
}

GW_INLINE void compute_row(const struct row *r, const struct cuts *c) {
    int64_t i = 0, ox = 0;
    for (; i < c->wider; i++, ox += c->width + 1)
        c->tile_of[c->width](r, ox);
    for (; i < c->count; i++, ox += c->width)
        c->tile_of[c->width - 1](r, ox);
}

static vf bound(int64_t bits) {
    const int32_t low = (int32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return vf_set1(value);
}

GW_EXPORT int32_t @SYMBOL@(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    const float *const x = buf[0], *const w = buf[1], *const bias = buf[2], *const residual = buf[3];
    float *const y = buf[4];
    struct args args;
    const struct args *s = &args;
    gw_hook hook;
    memcpy(&args, arg, sizeof args);
    memcpy(&hook, &buf[OPERANDS], sizeof hook);
    if (s->ow == 0)
        return 0;
    const int64_t blocks = parts(s->channels, VL), bands = parts(s->oh, BAND);
    const struct tiles tiles = choose_tiles(s);
    const struct cuts cuts = cut_row(&tiles, s->ow);
    const int64_t group = smaller(s->oh, parts(HOOK_PIXELS, s->ow)); /* rows that a hook gets at once */
    struct ring ring = make_ring(s, scratch);
    float *const out = (float *)scratch + ring.span * ring.pitch;
    const float **const rows = (const float **)(void *)(out + group * s->ow * VL);
    struct row r = {
        .rows = rows,
        .kw = s->kw,
        .step = s->stride_w * VL,
        .tap = s->dilation_w * VL,
        .lo = s->act == 2 ? bound(s->lo) : (vf){0},
        .hi = bound(s->hi),
        .act = s->act,
    };
    while (begin < end) {
        const int64_t plane = quotient(begin, bands), band = begin - plane * bands;
        const int64_t image = quotient(plane, blocks), block = plane - image * blocks;
        const int64_t run = smaller(end - begin, bands - band); /* bands of one plane share the ring */
        const int64_t last = cut(s->oh, band + run, bands);
        const float *in = x + image * s->x_n + block * s->x_cb;
        const float *add = residual ? residual + image * s->r_n + block * s->r_cb : NULL;
        float *to = hook ? NULL : y + image * s->y_n + block * s->y_cb;
        r.bias = bias ? vf_load(bias + block * VL) : (vf){0};
        ring.next = 0; /* none of this plane */
        for (int64_t oy = cut(s->oh, band, bands), first = oy; oy < last; oy++) {
            find_rows(&r, &ring, s, in, w + block * s->kh * s->kw * VL, oy, rows);
            r.add = add ? add + oy * s->r_h : NULL;
            r.to = hook ? out + (oy - first) * s->ow * VL : to + oy * s->y_h;
            compute_row(&r, &cuts);
            if (!hook || (oy + 1 - first < group && oy + 1 < last))
                continue;
            const int32_t error = hook(buf + OPERANDS + 1, arg + ARGS, out, VL, plane, first * s->ow,
                                       (oy + 1 - first) * s->ow, 0, VL);
            if (error)
                return error;
            first = oy + 1;
        }
        begin += run;
    }
    return 0;
}
"""

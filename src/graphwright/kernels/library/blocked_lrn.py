"""Local response normalisation of blocked f32 activations, across channels, as ONNX defines it.

y = x / (bias + alpha / size * sum of squares of size channels around)^beta (Krizhevsky et al., 2012). A unit
of the grid is a few pixels: their squares are laid out in scratch with all channels of a pixel side by side
and zeros at both ends, so that a window which crosses lanes or blocks is read by unaligned loads. The usual
beta of 0.75 takes two square roots in place of a power.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from graphwright.ir.symbols import Dim, ceildiv, symbol
from graphwright.kernels.library.extent import BITS, SIGNED, Extent, Reach, within
from graphwright.kernels.library.tile import HELPERS
from graphwright.targets.cpu.isa import Isa, args_struct, prelude
from graphwright.targets.cpu.vmath import vmath

SYMBOL: Final = "gw_lrn_blocked_f32"

OPERANDS: Final = ("x", "y")

_PIXELS: Final = 16
"""Of a unit: 1 KiB of each block under AVX-512."""


class BlockedLrnArgs(NamedTuple):
    """The kernel's args in ABI order; strides in elements.

    ``alpha`` (not yet divided by ``size``), ``beta`` and ``bias`` are the bits of doubles
    (``bits.double_bits``).
    """

    images: Dim
    channels: Dim
    h: Dim
    w: Dim
    size: Dim
    """Channels per window, which begins (size - 1) // 2 before its channel."""
    alpha: Dim
    beta: Dim
    bias: Dim
    x_n: Dim
    x_cb: Dim
    x_h: Dim
    y_n: Dim
    y_cb: Dim
    y_h: Dim


def grid(isa: Isa, args: BlockedLrnArgs) -> Dim:
    """Units of work: images, groups of pixels (fastest)."""
    return args.images * ceildiv(args.h * args.w, _PIXELS)


def scratch_bytes(isa: Isa, args: BlockedLrnArgs) -> Dim:
    """The squares of all channels of the pixels of a unit, with zeros around them."""
    return 4 * _PIXELS * (ceildiv(args.channels, isa.lanes) * isa.lanes + args.size - 1)


def work_ns(isa: Isa, args: BlockedLrnArgs) -> Dim:
    """Time on one core: 20 ns a vector for the power, 1 ns for each channel of the window."""
    vectors = args.images * args.h * args.w * ceildiv(args.channels, isa.lanes)
    return vectors * (20 + args.size)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """How far :data:`SYMBOL` reaches."""
    a = BlockedLrnArgs(*map(symbol, BlockedLrnArgs._fields))
    blocks, pixels = ceildiv(a.channels, isa.lanes), (a.w * isa.lanes, 1)
    return (
        Extent(
            SYMBOL,
            BlockedLrnArgs._fields,
            (
                Reach(4, ((a.images, a.x_n), (blocks, a.x_cb), (a.h, a.x_h), pixels)),
                Reach(4, ((a.images, a.y_n), (blocks, a.y_cb), (a.h, a.y_h), pixels)),
            ),
            grid=grid(isa, a),
            scratch=scratch_bytes(isa, a),
            bounds=within(SIGNED, *BlockedLrnArgs._fields[8:]) | within(BITS, "alpha", "beta", "bias"),
            at_least_0=(a.size - 1,),
        ),
    )


def source(isa: Isa) -> str:
    """One C11 file with :data:`SYMBOL`."""
    fields = args_struct(BlockedLrnArgs._fields)
    constants = f"#define PIXELS {_PIXELS} /* of a unit */\n"
    body = _BODY.replace("@SYMBOL@", SYMBOL).replace("@VL@", str(isa.lanes))
    return "\n".join([prelude(isa), vmath(isa, ("sqrt", "pow")), constants, fields, HELPERS, body])


_BODY: Final = """
static double double_of(int64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

struct lrn {
    struct args s;
    vf scale, beta, bias; /* scale is alpha / size */
    int roots;            /* beta is 3/4 */
    int64_t before;       /* channels of a window before its own */
    int64_t pitch;        /* of the squares of a pixel: zeros, channels, zeros */
    float *squares;
};

/* The squares of n pixels; those of lanes without a channel are 0, whatever stands there. */
static void square(const struct lrn *g, const float *x, int64_t n) {
    const int64_t channels = g->s.channels;
    for (int64_t c = 0; c < channels; c += VL, x += g->s.x_cb) {
        float *to = g->squares + g->before + c;
        const vi inside = vi_first(smaller(channels - c, VL));
        for (int64_t i = 0; i < n; i++, to += g->pitch) {
            const vf v = vf_load(x + i * VL);
            vf_store(to, (vf)((vi)(v * v) & inside));
        }
    }
}

GW_INLINE void normalise(const struct lrn *g, const float *x, float *y, int64_t n, int roots) {
    for (int64_t c = 0; c < g->s.channels; c += VL, x += g->s.x_cb, y += g->s.y_cb) {
        const float *from = g->squares + c;
        for (int64_t i = 0; i < n; i++, from += g->pitch) {
            vf total = vf_load(from);
            for (int64_t k = 1; k < g->s.size; k++)
                total += vf_load(from + k);
            const vf base = vf_fma(g->scale, total, g->bias);
            vf power;
            if (roots) {
                const vf root = sqrt_f32x@VL@(base);
                power = root * sqrt_f32x@VL@(root);
            } else {
                power = pow_f32x@VL@(base, g->beta);
            }
            vf_store(y + i * VL, vf_load(x + i * VL) / power);
        }
    }
}

/* n neighbouring pixels, PIXELS at most. */
static void run_pixels(const struct lrn *g, const float *x, float *y, int64_t n) {
    square(g, x, n);
    if (g->roots)
        normalise(g, x, y, n, 1);
    else
        normalise(g, x, y, n, 0);
}

static struct lrn make_lrn(const int64_t *arg, float *scratch) {
    struct lrn g = {.squares = scratch};
    memcpy(&g.s, arg, sizeof g.s);
    const double beta = double_of(g.s.beta);
    g.scale = vf_set1((float)(double_of(g.s.alpha) / (double)g.s.size));
    g.beta = vf_set1((float)beta);
    g.bias = vf_set1((float)double_of(g.s.bias));
    g.roots = beta == 0.75;
    g.before = (g.s.size - 1) / 2;
    g.pitch = parts(g.s.channels, VL) * VL + g.s.size - 1;
    if (g.s.x_h == g.s.w * VL && g.s.y_h == g.s.w * VL) {
        g.s.w *= g.s.h; /* the pixels are one row */
        g.s.h = 1;
    }
    memset(g.squares, 0, (size_t)(g.pitch * PIXELS) * sizeof *g.squares);
    return g;
}

GW_EXPORT int32_t @SYMBOL@(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    const float *const x = buf[0];
    float *const y = buf[1];
    if (begin >= end)
        return 0;
    const struct lrn g = make_lrn(arg, scratch);
    const struct args *s = &g.s;
    const int64_t pixels = s->h * s->w, groups = parts(pixels, PIXELS);
    for (; begin < end; begin++) {
        const int64_t image = quotient(begin, groups), group = begin - image * groups;
        const int64_t last = smaller(pixels, (group + 1) * PIXELS);
        for (int64_t at = group * PIXELS, n; at < last; at += n) {
            const int64_t row = quotient(at, s->w), column = at - row * s->w;
            n = smaller(s->w - column, last - at);
            run_pixels(&g, x + image * s->x_n + row * s->x_h + column * VL,
                       y + image * s->y_n + row * s->y_h + column * VL, n);
        }
    }
    return 0;
}
"""

"""Depthwise convolution: y[n, c] = act(conv(x[n, c // multiplier], w[c]) + bias[c]), f32, any memory order.

A unit of the grid is a band of output rows of one channel. Its input rows are copied to scratch with their
padding and with the columns sorted by their remainder modulo the stride, so that every tap reads
consecutive elements whatever the stride and dilation. Usual windows compute several rows at once, which
share the loads of the input rows.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum, symbol
from graphwright.kernels.library.extent import (
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

SYMBOL: Final = "gw_depthwise_f32"

OPERANDS: Final = ("x", "w", "bias", "y")
"""``w`` [channels, kd, kh, kw] as it is, ``bias`` [channels] may be absent; ``y`` is ignored when there is a
hook. The hook, or a null pointer, comes next; a tile is one channel (row) by the pixels of some image rows
(columns)."""

_BAND: Final = 16
"""Output rows per unit."""


class DepthwiseArgs(NamedTuple):
    """The kernel's args in ABI order; strides of x and y in elements. Pads at the end
    follow from od, oh, ow."""

    images: Dim
    channels: Dim
    """Output channels: input channels times ``multiplier``."""
    multiplier: Dim
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


def grid(args: DepthwiseArgs) -> Dim:
    """Units of work: images, channels, planes of the output, bands of rows (fastest)."""
    return args.images * args.channels * args.od * ceildiv(args.oh, _BAND)


def scratch_bytes(isa: Isa, args: DepthwiseArgs) -> Dim:
    """The input rows of a band, then its output rows, for one plane of taps and for all."""
    band = minimum(args.oh, _BAND)
    rows = (band - 1) * args.stride_h + (args.kh - 1) * args.dilation_h + 1
    last_tap = floordiv((args.kw - 1) * args.dilation_w, args.stride_w)
    columns = (ceildiv(args.ow, isa.lanes) + ceildiv(last_tap, isa.lanes) + 2) * isa.lanes
    planes = 1 + minimum(1, maximum(args.kd, 1) - 1)
    return 4 * (rows * args.stride_w * columns + planes * band * args.ow)


def work_ns(isa: Isa, args: DepthwiseArgs) -> Dim:
    """Time on one core: 40 or 25 GFLOP/s, or 2 elements a nanosecond in and out."""
    outputs = args.images * args.channels * args.od * args.oh * args.ow
    flops = 2 * outputs * args.kd * args.kh * args.kw
    moved = outputs + args.images * args.channels * args.d * args.h * args.w
    return maximum(ceildiv(flops, 40 if isa.vector_bytes == 64 else 25), floordiv(moved, 2))


@dataclass(frozen=True)
class _Window:
    """A window of ``size`` x ``size`` with equal strides and no dilation; ``rows`` output rows at once."""

    size: int
    stride: int
    rows: int

    @property
    def name(self) -> str:
        return f"{self.size}x{self.size}s{self.stride}"

    def weight(self, i: int, j: int) -> str:
        """The weight of a tap in all lanes: in a register, or loaded for each use where they are too many."""
        return f"w{i}_{j}" if self.size <= 5 else f"vf_set1(b->w[{i * self.size + j}])"


_WINDOWS: Final = (_Window(3, 1, 4), _Window(3, 2, 2), _Window(5, 1, 4), _Window(5, 2, 2), _Window(7, 1, 4))


def extents(isa: Isa) -> tuple[Extent, ...]:
    """How far :data:`SYMBOL` reaches: taps outside the image are not read."""
    a = DepthwiseArgs(*map(symbol, DepthwiseArgs._fields))
    channels = ceildiv(a.channels, a.multiplier)
    x = ((a.images, a.x_n), (channels, a.x_c), (a.d, a.x_d), (a.h, a.x_h), (a.w, a.x_w))
    y = ((a.images, a.y_n), (a.channels, a.y_c), (a.od, a.y_d), (a.oh, a.y_h), (a.ow, a.y_w))
    return (
        Extent(
            SYMBOL,
            DepthwiseArgs._fields,
            (
                Reach(4, x),
                dense(4, a.channels, a.kd * a.kh * a.kw),
                dense(4, a.channels, optional=True),
                Reach(4, y, unhooked=True),
            ),
            grid=grid(a),
            scratch=scratch_bytes(isa, a),
            bounds=window_bounds(DepthwiseArgs._fields)
            | within(SIGNED, *DepthwiseArgs._fields[21:31])
            | within(STEP, "multiplier", "kd", "kh", "kw"),
            tiles=Tiles(a.images, a.channels, a.od * a.oh * a.ow),
        ),
    )


def source(isa: Isa) -> str:
    """One C11 file with :data:`SYMBOL`."""
    constants = f"""
#define BAND {_BAND} /* output rows of a unit */
#define ARGS {len(DepthwiseArgs._fields)}
#define OPERANDS {len(OPERANDS)}
"""
    fields = args_struct(DepthwiseArgs._fields)
    even, odd = (", ".join(str(2 * i + first) for i in range(isa.lanes)) for first in (0, 1))
    body = _BODY.replace("@EVEN@", even).replace("@ODD@", odd)
    choices = "".join(
        f"    if (s->kh == {w.size} && s->kw == {w.size} && "
        f"s->stride_h == {w.stride} && s->stride_w == {w.stride})\n"
        f"        return band_{w.name};\n"
        for w in _WINDOWS
    )
    return "\n".join(
        [
            prelude(isa), constants, fields, HELPERS, _STRUCTS, *(_band(window) for window in _WINDOWS),
            body.replace("@CHOICES@", choices.rstrip()).replace("@SYMBOL@", SYMBOL),
        ]
    )  # fmt: skip


def _band(window: _Window) -> str:
    """The function for one window: ``rows`` output rows at once, then fewer for the rest."""
    size = window.size
    weights = "\n".join(
        f"    const vf {', '.join(f'w{i}_{j} = vf_set1(b->w[{i * size + j}])' for j in range(size))};"
        for i in range(size)
        if size <= 5
    )
    steps = "\n".join(
        f"    for (; row + {rows} <= b->rows; row += {rows}) {{\n{_rows(window, rows)}\n    }}"
        for rows in (4, 2, 1)
        if rows <= window.rows
    )
    return f"""\
static void band_{window.name}(const struct band *b) {{
{weights}
    const vf bias = vf_set1(b->bias);
    int64_t row = 0;
{steps}
}}
"""


def _rows(window: _Window, rows: int) -> str:
    """One step of ``rows`` output rows: each input vector is loaded once for all the rows that it reaches."""
    size, stride = window.size, window.stride
    lines = [
        f"const float *in = b->planes + row * {stride} * b->row_pitch;",
        "float *to = b->to + row * b->to_ld;",
        "for (int64_t x = 0; x < b->ow; x += VL, in += VL, to += VL) {",
        f"    vf {', '.join(f'y{r} = bias' for r in range(rows))};",
    ]
    for i in range((rows - 1) * stride + size):
        for j in range(size):
            plane = f" + {j % stride} * b->plane" if stride > 1 else ""
            reached = [(r, i - r * stride) for r in range(rows) if 0 <= i - r * stride < size]
            lines += [
                "    {",
                f"        const vf v = vf_load(in + {i} * b->row_pitch{plane} + {j // stride});",
            ]
            lines += [f"        y{r} = vf_fma({window.weight(k, j)}, v, y{r});" for r, k in reached]
            lines += ["    }"]
    lines += [f"    finish(b, x, y{r}, to + {r} * b->to_ld);" for r in range(rows)]
    return "\n".join(" " * 8 + line for line in [*lines, "}"])


_STRUCTS: Final = """
/* A band of output rows: row r, column x of the output takes tap (i, j) from
   planes[(r * stride_h + i * dilation_h) * row_pitch + (j * dilation_w % stride_w) * plane
          + j * dilation_w / stride_w + x]. */
struct band {
    const float *planes, *w;
    float bias;
    int relu;
    int64_t plane, row_pitch, rows, ow;
    float *to;
    int64_t to_ld;
    const struct args *s;
};

GW_INLINE void finish(const struct band *b, int64_t x, vf y, float *to) {
    if (b->relu)
        y = vf_relu(y);
    if (b->ow - x >= VL)
        vf_store(to, y);
    else
        vf_store_n(to, y, b->ow - x);
}
"""

_BODY: Final = """
/* Any window: ROWS rows and VECTORS vectors of columns at once. */
GW_INLINE void any_block(const struct band *b, int64_t row, int64_t x, const int ROWS, const int VECTORS) {
    const struct args *s = b->s;
    const int64_t step = s->stride_h * b->row_pitch;
    const float *in = b->planes + row * step + x, *w = b->w;
    float *to = b->to + row * b->to_ld + x;
    vf y[ROWS * VECTORS];
    for (int i = 0; i < ROWS * VECTORS; i++)
        y[i] = vf_set1(b->bias);
    for (int64_t i = 0; i < s->kh; i++, in += s->dilation_h * b->row_pitch) {
        int64_t plane = 0, column = 0; /* of the tap: j * dilation_w modulo the stride, and divided by it */
        for (int64_t j = 0; j < s->kw; j++) {
            const float *at = in + plane * b->plane + column;
            const vf tap = vf_set1(*w++);
            for (int r = 0; r < ROWS; r++)
                for (int v = 0; v < VECTORS; v++)
                    y[r * VECTORS + v] = vf_fma(tap, vf_load(at + r * step + v * VL), y[r * VECTORS + v]);
            plane += s->dilation_w;
            for (; plane >= s->stride_w; plane -= s->stride_w)
                column++;
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < VECTORS; v++)
            finish(b, x + v * VL, y[r * VECTORS + v], to + r * b->to_ld + v * VL);
}

/* Any window, four sums or more at once where there are so many. */
static void band_any(const struct band *b) {
    int64_t row = 0;
    for (; row + 4 <= b->rows; row += 4) {
        int64_t x = 0;
        for (; x + VL < b->ow; x += 2 * VL)
            any_block(b, row, x, 4, 2);
        if (x < b->ow)
            any_block(b, row, x, 4, 1);
    }
    for (; row < b->rows; row++) {
        int64_t x = 0;
        for (; x + 3 * VL < b->ow; x += 4 * VL)
            any_block(b, row, x, 1, 4);
        for (; x < b->ow; x += VL)
            any_block(b, row, x, 1, 1);
    }
}

typedef void (*band_fn)(const struct band *b);

static band_fn choose_band(const struct args *s) {
    if (s->dilation_h != 1 || s->dilation_w != 1)
        return band_any;
@CHOICES@
    return band_any;
}

/* Input rows of a band, each as stride_w planes: plane p holds columns p - pad_left, p - pad_left +
   stride_w, ..., zeros outside. The image begins VL elements into a plane, on an aligned vector; what
   stands before and after it was zeroed once for all bands. */
struct fill {
    const float *in; /* of the plane */
    int outside;     /* the plane is padding */
    int64_t top, rows, pitch;
    int64_t width; /* columns of the image that some tap reads */
    float *planes;
    const struct args *s;
};

GW_INLINE const float *row_of(const struct fill *f, int64_t i) {
    const int64_t y = f->top + i;
    return !f->outside && y >= 0 && y < f->s->h ? f->in + y * f->s->x_h : NULL;
}

/* Zeros in whole vectors: n elements and up to VL - 1 after them. */
GW_INLINE void fill_zeros(float *to, int64_t n) {
    for (int64_t i = 0; i < n; i += VL)
        vf_store(to + i, (vf){0});
}

/* stride 1, columns contiguous */
static void fill_whole(const struct fill *f) {
    const int64_t width = f->width, full = width & -VL;
    float *to = f->planes + VL;
    for (int64_t i = 0; i < f->rows; i++, to += f->pitch) {
        const float *row = row_of(f, i);
        if (!row) {
            fill_zeros(to, width);
            continue;
        }
        for (int64_t x = 0; x < full; x += VL)
            vf_store(to + x, vf_load(row + x));
        if (full < width)
            vf_store(to + full, vf_load_n(row + full, width - full));
    }
}

/* stride 2, columns contiguous: columns of even and of odd index */
static void fill_halves(const struct fill *f) {
    const int64_t width = f->width, pairs = width & -(2 * VL), rest = width - pairs;
    const int64_t low = smaller(rest, VL), high = rest - low, swapped = f->s->pad_left & 1;
    float *even = f->planes + swapped * f->pitch + VL, *odd = f->planes + !swapped * f->pitch + VL;
    for (int64_t i = 0; i < f->rows; i++, even += 2 * f->pitch, odd += 2 * f->pitch) {
        const float *row = row_of(f, i);
        if (!row) {
            fill_zeros(even, (width + 1) / 2);
            fill_zeros(odd, (width + 1) / 2);
            continue;
        }
        int64_t x = 0;
        for (; x < pairs; x += 2 * VL) {
            const vf a = vf_load(row + x), b = vf_load(row + x + VL);
            vf_store(even + x / 2, __builtin_shufflevector(a, b, @EVEN@));
            vf_store(odd + x / 2, __builtin_shufflevector(a, b, @ODD@));
        }
        if (rest) {
            const vf a = vf_load_n(row + x, low), b = high ? vf_load_n(row + x + VL, high) : (vf){0};
            vf_store(even + x / 2, __builtin_shufflevector(a, b, @EVEN@));
            vf_store(odd + x / 2, __builtin_shufflevector(a, b, @ODD@));
        }
    }
}

/* Any stride and padding; plane p begins at its own start. */
static void fill_any(const struct fill *f) {
    const struct args *s = f->s;
    for (int64_t r = 0; r < f->rows; r++) {
        const float *row = row_of(f, r);
        for (int64_t p = 0; p < s->stride_w; p++) {
            float *to = f->planes + (r * s->stride_w + p) * f->pitch;
            for (int64_t i = 0, x = p - s->pad_left; i < f->pitch - 2 * VL; i++, x += s->stride_w)
                to[i] = row && x >= 0 && x < s->w ? row[x * s->x_w] : 0;
        }
    }
}

typedef void (*fill_fn)(const struct fill *f);

static fill_fn choose_fill(const struct args *s) {
    if (s->x_w != 1 || s->pad_left < 0 || s->pad_left > VL || s->stride_w > 2)
        return fill_any;
    return s->stride_w == 1 ? fill_whole : fill_halves;
}

/* Where column p - pad_left of the image, or the zero in its place, stands in a row of planes. */
static int64_t origin(const struct args *s, fill_fn fill, int64_t p, int64_t pitch) {
    if (fill == fill_any)
        return p * pitch;
    return p * pitch + VL - (s->pad_left - p + s->stride_w - 1) / s->stride_w;
}

/* The band's rows on top of those of other planes of taps, which lie at to. */
static void add_rows(const struct band *b, float *to, int64_t to_ld, int relu) {
    const float *from = b->to;
    for (int64_t r = 0; r < b->rows; r++, from += b->to_ld, to += to_ld)
        for (int64_t x = 0; x < b->ow; x += VL) {
            const int64_t n = smaller(VL, b->ow - x);
            const vf y = vf_load_n(to + x, n) + vf_load_n(from + x, n);
            vf_store_n(to + x, relu ? vf_relu(y) : y, n);
        }
}

static void store_rows(const struct args *s, const float *from, int64_t rows, float *y) {
    for (int64_t r = 0; r < rows; r++, y += s->y_h)
        for (int64_t x = 0; x < s->ow; x++)
            y[x * s->y_w] = *from++;
}

GW_EXPORT int32_t @SYMBOL@(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    const float *const x = buf[0], *const w = buf[1], *const bias = buf[2];
    float *const y = buf[3];
    struct args args;
    const struct args *s = &args;
    gw_hook hook;
    memcpy(&args, arg, sizeof args);
    memcpy(&hook, &buf[OPERANDS], sizeof hook);
    const band_fn compute = choose_band(s);
    const fill_fn fill = choose_fill(s);
    const int64_t bands = parts(s->oh, BAND);
    const int64_t last_tap = quotient((s->kw - 1) * s->dilation_w, s->stride_w);
    const int64_t pitch = (parts(s->ow, VL) + parts(last_tap, VL) + 2) * VL;
    const int64_t row_pitch = s->stride_w * pitch, reach = (s->kh - 1) * s->dilation_h + 1;
    float *planes = scratch;
    float *out = planes + ((smaller(s->oh, BAND) - 1) * s->stride_h + reach) * row_pitch;
    float *part = out + smaller(s->oh, BAND) * s->ow;
    fill_zeros(planes, out - planes);
    const int64_t read = (s->ow - 1) * s->stride_w + (s->kw - 1) * s->dilation_w + 1 - s->pad_left;
    const int64_t width = read > 0 ? smaller(s->w, read) : 0;
    const int64_t start = origin(s, fill, 0, pitch);
    const int64_t next = s->stride_w > 1 ? origin(s, fill, 1, pitch) - start : 0;
    for (; begin < end; begin++) {
        const int64_t slice = quotient(begin, bands), band = begin - slice * bands;
        const int64_t plane = quotient(slice, s->od), oz = slice - plane * s->od;
        const int64_t image = quotient(plane, s->channels), channel = plane - image * s->channels;
        const int64_t row = cut(s->oh, band, bands), rows = cut(s->oh, band + 1, bands) - row;
        const float *in = x + image * s->x_n + quotient(channel, s->multiplier) * s->x_c;
        float *to = hook ? NULL : y + image * s->y_n + channel * s->y_c + oz * s->y_d + row * s->y_h;
        const int direct = to && s->y_w == 1;
        const int64_t z = oz * s->stride_d - s->pad_front;
        int64_t first = z < 0 ? parts(-z, s->dilation_d) : 0; /* planes of taps inside the image */
        int64_t last = z < s->d ? smaller(s->kd, parts(s->d - z, s->dilation_d)) : 0;
        const int outside = first >= last;
        if (outside) {
            first = 0;
            last = 1;
        }
        for (int64_t k = first; k < last; k++) {
            const struct fill f = {
                .in = outside ? in : in + (z + k * s->dilation_d) * s->x_d,
                .outside = outside,
                .top = row * s->stride_h - s->pad_top,
                .rows = (rows - 1) * s->stride_h + reach,
                .pitch = pitch,
                .width = width,
                .planes = planes,
                .s = s,
            };
            fill(&f);
            const struct band b = {
                .planes = planes + start,
                .w = w + (channel * s->kd + k) * s->kh * s->kw,
                .bias = bias && k == first ? bias[channel] : 0,
                .relu = s->act == 1 && last - first == 1,
                .plane = next,
                .row_pitch = row_pitch,
                .rows = rows,
                .ow = s->ow,
                .to = k > first ? part : direct ? to : out,
                .to_ld = k == first && direct ? s->y_h : s->ow,
                .s = s,
            };
            compute(&b);
            if (k > first)
                add_rows(&b, direct ? to : out, direct ? s->y_h : s->ow, s->act == 1 && k + 1 == last);
        }
        if (hook) {
            const int64_t cols = rows * s->ow, at = (oz * s->oh + row) * s->ow;
            const int32_t error =
                hook(buf + OPERANDS + 1, arg + ARGS, out, cols, image, channel, 1, at, cols);
            if (error)
                return error;
        } else if (!direct) {
            store_rows(s, out, rows, to);
        }
    }
    return 0;
}
"""

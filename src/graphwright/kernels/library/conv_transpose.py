"""Transposed 3-D convolution of f32 [N, C, D, H, W] by gathering: each output is computed once,
nothing is added to memory.

The outputs of one row whose columns are equal modulo the stride (a phase) read x with the same taps, at
neighbouring columns: for each tap they are a product [output channels, input channels] @ [input channels,
columns of x], the register tile of GEMM. The phases of a tile are interleaved when it is stored.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from graphwright.ir.symbols import Dim, ceildiv, floordiv, product, symbol
from graphwright.kernels.library.extent import (
    SIGNED,
    SIZE,
    Extent,
    Reach,
    Tiles,
    dense,
    window_bounds,
    within,
)
from graphwright.kernels.library.pack_transpose import BLOCK
from graphwright.kernels.library.tile import TileShape, tiles
from graphwright.targets.cpu.isa import Isa, args_struct, prelude

SYMBOL: Final = "gw_conv_transpose_f32"
OPERANDS: Final = ("x", "w", "bias", "y")
"""``w`` packed as ``pack_transpose.LAYOUT``; ``bias`` [groups * out_channels] may be absent; ``y`` is
ignored when there is a hook. The hook (or a null pointer) stands after them."""

UNIT_COLUMNS: Final = 256
"""Columns of one unit of the grid, counted in strides: a multiple of every tile's."""


class ConvTransposeArgs(NamedTuple):
    """The kernel's args in ABI order; strides in elements, widths contiguous. ``output_padding`` is in
    the sizes of the output."""

    batch: Dim
    groups: Dim
    in_channels: Dim
    """Per group."""
    out_channels: Dim
    """Per group."""
    depth: Dim
    height: Dim
    width: Dim
    out_depth: Dim
    out_height: Dim
    out_width: Dim
    kernel_d: Dim
    kernel_h: Dim
    kernel_w: Dim
    stride_d: Dim
    stride_h: Dim
    stride_w: Dim
    pad_front: Dim
    pad_top: Dim
    pad_left: Dim
    dilation_d: Dim
    dilation_h: Dim
    dilation_w: Dim
    x_batch: Dim
    x_channel: Dim
    x_depth: Dim
    x_row: Dim
    y_batch: Dim
    y_channel: Dim
    y_depth: Dim
    y_row: Dim
    act: Dim
    """0 none, 1 relu."""


def tile_shape(isa: Isa) -> TileShape:
    """12 x 2 vectors fill 24 of 32 registers, 6 x 2 fill 12 of 16."""
    rows = BLOCK if isa.vector_bytes == 64 else BLOCK // 2
    return TileShape(rows=rows, vectors=2, a_row=1, a_k=BLOCK)


def grid(isa: Isa, args: ConvTransposeArgs) -> Dim:
    """Rows of the output of each image and group, wide ones in parts."""
    first = floordiv(args.pad_left, args.stride_w)
    last = floordiv(args.out_width + args.pad_left - 1, args.stride_w) + 1
    parts = ceildiv(last - first, UNIT_COLUMNS)
    return product([args.batch, args.groups, args.out_depth, args.out_height, parts])


def scratch_bytes(isa: Isa, args: ConvTransposeArgs) -> Dim:
    """A tile by phases, the tile interleaved, and the columns of x that taps read beyond its edges."""
    shape = tile_shape(isa)
    reach = floordiv((args.kernel_w - 1) * args.dilation_w, args.stride_w)
    copied = args.kernel_d * args.kernel_h * args.in_channels * (reach + shape.columns(isa))
    return 4 * (args.stride_w * (2 * shape.rows * shape.columns(isa)) + copied)


def work_ns(isa: Isa, args: ConvTransposeArgs) -> Dim:
    """FMAs at 60 or 30 GFLOP/s (small tiles), and storing the output at 4 bytes a ns."""
    speed = 60 if isa.vector_bytes == 64 else 30
    rows = product([args.batch, args.groups, args.out_channels])
    outputs = product([rows, args.out_depth, args.out_height, args.out_width])
    pixels = product([args.depth, args.height, args.width])
    taps = product([rows, pixels, args.kernel_d, args.kernel_h, args.kernel_w])
    return 2 * taps * args.in_channels // speed + outputs


def extents(isa: Isa) -> tuple[Extent, ...]:
    """How far :data:`SYMBOL` reaches: taps outside the image are not read."""
    a = ConvTransposeArgs(*map(symbol, ConvTransposeArgs._fields))
    channels, results = a.groups * a.in_channels, a.groups * a.out_channels
    x = (
        (a.batch, a.x_batch),
        (channels, a.x_channel),
        (a.depth, a.x_depth),
        (a.height, a.x_row),
        (a.width, 1),
    )
    rows = (a.out_depth, a.y_depth), (a.out_height, a.y_row)
    taps = a.kernel_d * a.kernel_h * a.kernel_w
    return (
        Extent(
            SYMBOL,
            ConvTransposeArgs._fields,
            (
                Reach(4, x),
                dense(4, ceildiv(a.out_channels, BLOCK) * BLOCK, taps, channels),
                dense(4, results, optional=True),
                Reach(
                    4, ((a.batch, a.y_batch), (results, a.y_channel), *rows, (a.out_width, 1)), unhooked=True
                ),
            ),
            grid=grid(isa, a),
            scratch=scratch_bytes(isa, a),
            bounds=window_bounds(ConvTransposeArgs._fields)
            | within(SIGNED, *ConvTransposeArgs._fields[22:30])
            | within(SIZE, "pad_front", "pad_top", "pad_left"),
            tiles=Tiles(a.batch, results, a.out_depth * a.out_height * a.out_width),
        ),
    )


def source(isa: Isa) -> str:
    """One C file with ``gw_conv_transpose_f32``."""
    shape, lanes = tile_shape(isa), isa.lanes
    low = ", ".join(f"{i}, {i + lanes}" for i in range(lanes // 2))
    high = ", ".join(f"{i}, {i + lanes}" for i in range(lanes // 2, lanes))
    constants = f"""
#define MR {shape.rows} /* rows of a tile */
#define NR {shape.columns(isa)} /* columns of a tile, before phases are interleaved */
#define UNIT_COLUMNS {UNIT_COLUMNS} /* columns of a unit of the grid */
#define BLOCK {BLOCK} /* output channels per block of w */
#define ARGS {len(ConvTransposeArgs._fields)}
#define OPERANDS {len(OPERANDS)}
"""
    fields = args_struct(ConvTransposeArgs._fields)
    body = _BODY.replace("@LOW@", low).replace("@HIGH@", high)
    return "\n".join([prelude(isa), constants, fields, tiles(shape, isa), body])


_BODY: Final = """
struct transposed {
    struct args s;
    const float *x, *w, *bias;
    float *y;
    gw_hook hook;
    void *const *hook_buf;
    const int64_t *hook_arg;
    float *phases, *tile, *columns; /* scratch */
};

/* Output channels [row, row + rows) of one group, and columns j of the output row, j counted in strides.
   Where they
   read beyond the edges of x they read a copy instead: copied columns from copied_at on, of each channel. */
struct part {
    const float *x; /* of the image and group */
    int64_t batch, group, oz, oy, row, rows, j, vectors, copied, copied_at;
};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* The input row (or plane) that a tap brings to an output row, which lies so many rows behind the tap's
   first; -1 if none. */
GW_INLINE int64_t source_of(int64_t distance, int64_t stride, int64_t size) {
    if (distance < 0 || distance % stride || distance / stride >= size) return -1;
    return distance / stride;
}

GW_INLINE int64_t input_plane(const struct args *s, int64_t oz, int64_t kz) {
    return source_of(oz + s->pad_front - kz * s->dilation_d, s->stride_d, s->depth);
}

GW_INLINE int64_t input_row(const struct args *s, int64_t oy, int64_t ky) {
    return source_of(oy + s->pad_top - ky * s->dilation_h, s->stride_h, s->height);
}

/* Columns [at, at + n) of each input channel of the input rows that oy reads, zeros outside of x. */
static void copy_columns(const struct transposed *t, const struct part *p, int64_t at, int64_t n) {
    const struct args *s = &t->s;
    int64_t first = at < 0 ? smaller(-at, n) : 0, last = smaller(s->width - at, n);
    last = last < first ? first : last;
    for (int64_t k = 0; k < s->kernel_d * s->kernel_h; k++) {
        int64_t iz = input_plane(s, p->oz, k / s->kernel_h), iy = input_row(s, p->oy, k % s->kernel_h);
        for (int64_t c = 0; iz >= 0 && iy >= 0 && c < s->in_channels; c++) {
            float *to = t->columns + (k * s->in_channels + c) * n;
            const float *from = p->x + c * s->x_channel + iz * s->x_depth + iy * s->x_row + at;
            memset(to, 0, (size_t)first * sizeof *to);
            memcpy(to + first, from + first, (size_t)(last - first) * sizeof *to);
            memset(to + last, 0, (size_t)(n - last) * sizeof *to);
        }
    }
}

/* One phase of a part, summed over its taps into [MR x NR]. */
static void sum_phase(const struct transposed *t, const struct part *p, int64_t phase, float *to) {
    const struct args *s = &t->s;
    int64_t channels = s->groups * s->in_channels, n = p->vectors * VL;
    const float *bias = t->bias ? t->bias + p->group * s->out_channels + p->row : NULL;
    const float *w = t->w + p->row % BLOCK +
                     p->row / BLOCK * (s->kernel_d * s->kernel_h * s->kernel_w * channels * BLOCK);
    struct tile tile = {
        .from_kind = bias ? FROM_ROWS : FROM_ZERO, .from = bias, .from_ld = 1, .to = to, .to_ld = NR};
    for (int64_t k = 0; k < s->kernel_d * s->kernel_h; k++) {
        int64_t iz = input_plane(s, p->oz, k / s->kernel_h), iy = input_row(s, p->oy, k % s->kernel_h);
        for (int64_t kx = 0; iz >= 0 && iy >= 0 && kx < s->kernel_w; kx++) {
            if ((kx * s->dilation_w - phase) % s->stride_w) continue;
            int64_t at = p->j + (phase - kx * s->dilation_w) / s->stride_w;
            if (at + n <= 0 || at >= s->width) continue;
            const float *b = p->x + iz * s->x_depth + iy * s->x_row + at;
            if (p->copied) b = t->columns + k * s->in_channels * p->copied + at - p->copied_at;
            run_tile(p->rows, p->vectors, s->in_channels,
                     w + ((k * s->kernel_w + kx) * channels + p->group * s->in_channels) * BLOCK, b,
                     p->copied ? p->copied : s->x_channel, &tile);
            tile.from_kind = FROM_TILE;
            tile.from = to;
            tile.from_ld = NR;
        }
    }
    if (tile.from_kind == FROM_TILE) return;
    for (int64_t r = 0; r < p->rows; r++) /* no tap reaches this part */
        for (int64_t i = 0; i < n; i++)
            to[r * NR + i] = bias ? bias[r] : 0.0f;
}

/* to[r][i * stride + phase] = phases[phase][r][i], with the activation unless there is a hook. */
static void interleave(const struct transposed *t, const struct part *p, float *to, int64_t ld) {
    int64_t n = p->vectors * VL, stride = t->s.stride_w;
    int relu = t->s.act && !t->hook;
    for (int64_t r = 0; r < p->rows; r++, to += ld) {
        const float *from = t->phases + r * NR;
        if (stride <= 2) {
            for (int64_t i = 0; i < n; i += VL) {
                vf a = vf_load(from + i);
                a = relu ? vf_relu(a) : a;
                if (stride == 1) {
                    vf_store(to + i, a);
                    continue;
                }
                vf b = vf_load(from + MR * NR + i);
                b = relu ? vf_relu(b) : b;
                vf_store(to + 2 * i, __builtin_shufflevector(a, b, @LOW@));
                vf_store(to + 2 * i + VL, __builtin_shufflevector(a, b, @HIGH@));
            }
            continue;
        }
        for (int64_t phase = 0; phase < stride; phase++)
            for (int64_t i = 0; i < n; i++) {
                float v = from[phase * MR * NR + i];
                to[i * stride + phase] = relu && v < 0.0f ? 0.0f : v;
            }
    }
}

/* Stores a part, or hands it to the hook; ox0 is the output column of its first element, maybe outside of y.
 */
static int32_t finish(const struct transposed *t, const struct part *p) {
    const struct args *s = &t->s;
    int64_t width = p->vectors * VL * s->stride_w, ox0 = p->j * s->stride_w - s->pad_left,
            pitch = NR * s->stride_w;
    int64_t first = ox0 < 0 ? -ox0 : 0, last = smaller(width, s->out_width - ox0);
    int64_t channel = p->group * s->out_channels + p->row;
    if (last <= first) return 0;
    float *y = t->y + p->batch * s->y_batch + channel * s->y_channel + p->oz * s->y_depth +
               p->oy * s->y_row + ox0;
    if (!t->hook && first == 0 && last == width) {
        interleave(t, p, y, s->y_channel);
        return 0;
    }
    interleave(t, p, t->tile, pitch);
    if (t->hook)
        return t->hook(t->hook_buf, t->hook_arg, t->tile + first, pitch, p->batch, channel, p->rows,
                       (p->oz * s->out_height + p->oy) * s->out_width + ox0 + first, last - first);
    for (int64_t r = 0; r < p->rows; r++)
        memcpy(y + r * s->y_channel + first, t->tile + r * pitch + first, (size_t)(last - first) * sizeof *y);
    return 0;
}

/* All output channels of the columns from p->j on. */
static int32_t run_columns(const struct transposed *t, struct part *p) {
    const struct args *s = &t->s;
    int64_t reach = (s->kernel_w - 1) * s->dilation_w / s->stride_w, n = p->vectors * VL;
    p->copied_at = p->j - reach;
    p->copied = p->copied_at < 0 || p->j + n > s->width ? n + reach : 0;
    if (p->copied) copy_columns(t, p, p->copied_at, p->copied);
    for (p->row = 0; p->row < s->out_channels; p->row += MR) {
        p->rows = smaller(MR, s->out_channels - p->row);
        for (int64_t phase = 0; phase < s->stride_w; phase++)
            sum_phase(t, p, phase, t->phases + phase * MR * NR);
        int32_t error = finish(t, p);
        if (error) return error;
    }
    return 0;
}

/* One unit of the grid: part of an output row. */
static int32_t run_unit(const struct transposed *t, int64_t index) {
    const struct args *s = &t->s;
    int64_t first = s->pad_left / s->stride_w, last = (s->out_width - 1 + s->pad_left) / s->stride_w + 1;
    int64_t units = (last - first + UNIT_COLUMNS - 1) / UNIT_COLUMNS;
    first += index % units * UNIT_COLUMNS;
    last = smaller(last, first + UNIT_COLUMNS);
    index /= units;
    struct part p = {.oy = index % s->out_height, .oz = index / s->out_height % s->out_depth};
    index /= s->out_height * s->out_depth;
    p.group = index % s->groups;
    p.batch = index / s->groups;
    p.x = t->x + p.batch * s->x_batch + p.group * s->in_channels * s->x_channel;
    for (p.j = first; p.j < last; p.j += NR) {
        p.vectors = (smaller(NR, last - p.j) + VL - 1) / VL;
        int32_t error = run_columns(t, &p);
        if (error) return error;
    }
    return 0;
}

/* buf: x, w, bias or NULL, y, hook or NULL, the hook's operands. arg: the fields of args, the hook's args. */
GW_EXPORT int32_t gw_conv_transpose_f32(void *const *buf, const int64_t *arg, int64_t begin, int64_t end,
                                        void *scratch) {
    struct transposed t = {.x = buf[0], .w = buf[1], .bias = buf[2], .y = buf[3]};
    memcpy(&t.s, arg, sizeof t.s);
    memcpy(&t.hook, &buf[OPERANDS], sizeof t.hook);
    t.hook_buf = buf + OPERANDS + 1;
    t.hook_arg = arg + ARGS;
    t.phases = scratch;
    t.tile = t.phases + t.s.stride_w * MR * NR;
    t.columns = t.tile + t.s.stride_w * MR * NR;
    if (t.s.out_width == 0) return 0;
    for (int64_t index = begin; index < end; index++) {
        int32_t error = run_unit(&t, index);
        if (error) return error;
    }
    return 0;
}
"""

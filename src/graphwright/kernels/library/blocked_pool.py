"""Max, average and global average pooling of blocked f32 activations.

A vector holds the channels of a block, so that no step shuffles lanes. An output row is made in two steps, as
in ``pool``: the rows of its windows are reduced into one line of scratch that has the padding around it; then
the columns of each window are reduced out of that line. NaN wins, as in NumPy.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from graphwright.ir.symbols import Dim, ceildiv, maximum, symbol
from graphwright.kernels.library.extent import SIGNED, SIZE, STEP, Extent, Reach, within
from graphwright.kernels.library.tile import HELPERS
from graphwright.targets.cpu.isa import Isa, args_struct, prelude

MAX: Final = "gw_max_pool_blocked_f32"
AVERAGE: Final = "gw_average_pool_blocked_f32"
GLOBAL_AVERAGE: Final = "gw_global_average_pool_blocked_f32"
"""Reads only the sizes and strides of x, and y_n and y_cb: y is [N, CB, 1, 1, VL]."""

OPERANDS: Final = ("x", "y")


class BlockedPoolArgs(NamedTuple):
    """The args of all three kernels in ABI order; strides in elements.

    ``oh``, ``ow`` have ceil_mode in them. The pads at the end only bound the divisor of an average that
    counts padding. A window without any element is -inf (max) or 0 (average).
    """

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
    pad_bottom: Dim
    pad_right: Dim
    dilation_h: Dim
    dilation_w: Dim
    count_include_pad: Dim
    x_n: Dim
    x_cb: Dim
    x_h: Dim
    y_n: Dim
    y_cb: Dim
    y_h: Dim


def grid(isa: Isa, args: BlockedPoolArgs) -> Dim:
    """Units of max and average: images, blocks of channels, output rows (fastest)."""
    return args.images * ceildiv(args.channels, isa.lanes) * args.oh


def global_grid(isa: Isa, args: BlockedPoolArgs) -> Dim:
    """Units of the global average: images, blocks of channels (fastest)."""
    return args.images * ceildiv(args.channels, isa.lanes)


def scratch_bytes(isa: Isa, args: BlockedPoolArgs) -> Dim:
    """Of max and average: the padded line, then a divisor for each column. The global average needs none."""
    reach = (maximum(args.ow, 1) - 1) * args.stride_w + (args.kw - 1) * args.dilation_w + 1
    return isa.vector_bytes * maximum(reach, args.pad_left + args.w) + 4 * args.ow


def work_ns(isa: Isa, args: BlockedPoolArgs) -> Dim:
    """Time of max and average on one core: 1 vector a nanosecond of those that both steps combine."""
    return grid(isa, args) * (args.kh * args.w + args.kw * args.ow + 20)


def global_work_ns(isa: Isa, args: BlockedPoolArgs) -> Dim:
    """Time of the global average on one core: a vector read takes 3 ns."""
    return global_grid(isa, args) * (args.h * args.w * 3 + 10)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """How far the three kernels reach."""
    a = BlockedPoolArgs(*map(symbol, BlockedPoolArgs._fields))
    blocks, pixel = ceildiv(a.channels, isa.lanes), (isa.lanes, 1)
    x = Reach(4, ((a.images, a.x_n), (blocks, a.x_cb), (a.h, a.x_h), (a.w, isa.lanes), pixel))
    y = Reach(4, ((a.images, a.y_n), (blocks, a.y_cb), (a.oh, a.y_h), (a.ow, isa.lanes), pixel))
    one = Reach(4, ((a.images, a.y_n), (blocks, a.y_cb), pixel))
    forms = {
        MAX: (y, grid(isa, a), scratch_bytes(isa, a)),
        AVERAGE: (y, grid(isa, a), scratch_bytes(isa, a)),
        GLOBAL_AVERAGE: (one, global_grid(isa, a), 0),
    }
    sizes = ("kh", "kw", "pad_top", "pad_left", "pad_bottom", "pad_right")
    steps = ("stride_h", "stride_w", "dilation_h", "dilation_w")
    bounds = within(SIGNED, *BlockedPoolArgs._fields[17:])
    windows = bounds | within(SIZE, *sizes) | within(STEP, *steps)
    return tuple(
        Extent(
            name,
            BlockedPoolArgs._fields,
            (x, result),
            grid=units,
            scratch=scratch,
            bounds=bounds if name == GLOBAL_AVERAGE else windows,
        )
        for name, (result, units, scratch) in forms.items()
    )


def source(isa: Isa) -> str:
    """One C11 file with :data:`MAX`, :data:`AVERAGE` and :data:`GLOBAL_AVERAGE`."""
    fields = args_struct(BlockedPoolArgs._fields)
    parts = [prelude(isa), fields, HELPERS, _WINDOW]
    for name, identity, combine in (("max", "-__builtin_inff()", "larger"), ("average", "0.0f", "sum")):
        parts.append(_ROW.replace("@OP@", name).replace("@IDENTITY@", identity).replace("@COMBINE@", combine))
    kernels = _KERNELS.replace("@MAX@", MAX).replace("@AVERAGE@", AVERAGE)
    return "\n".join([*parts, kernels.replace("@GLOBAL_AVERAGE@", GLOBAL_AVERAGE)])


_WINDOW: Final = """
#define AHEAD 1024 /* elements that rows are fetched to L1 before they are read, at least */

GW_INLINE vf sum(vf a, vf b) { return a + b; }
/* NaN if either is: the instruction gives b where one is, so that only a remains to be looked at. */
GW_INLINE vf larger(vf a, vf b) {
    vf r;
    __asm__("vmaxps %2, %1, %0" : "=v"(r) : "v"(a), "v"(b));
    return vf_select(a != a, a, r);
}

/* Taps [*first, *last) of an output position, whose tap 0 stands at `at`, that lie inside an axis. */
GW_INLINE void taps(int64_t at, int64_t size, int64_t kernel, int64_t dilation, int64_t *first,
                    int64_t *last) {
    *first = at < 0 ? smaller(parts(-at, dilation), kernel) : 0;
    *last = at < size ? smaller(parts(size - at, dilation), kernel) : 0;
    *last = *last < *first ? *first : *last;
}

/* How many taps an average divides by: those inside, or those that the padding allows; 1 if there is none. */
static int64_t divisor(int64_t at, int64_t size, int64_t kernel, int64_t dilation, int64_t after,
                       int64_t include_pad) {
    int64_t first, last;
    if (!include_pad) {
        taps(at, size, kernel, dilation, &first, &last);
        return last > first ? last - first : 1;
    }
    return at < size + after ? smaller(parts(size + after - at, dilation), kernel) : 1;
}

/* The rows of a window: rows of them from x on, step elements apart, each n elements. */
struct rows {
    const float *x;
    int64_t rows, step, n, ahead;
};

/* The windows of a row: the taps of window o stand at line + o * stride + k * dilation (elements). */
struct columns {
    const float *line;
    float *y;
    int64_t out, kernel, stride, dilation;
};
"""

_ROW: Final = """
GW_INLINE void @OP@_some_rows(const struct rows *r, float *line, int64_t rows) {
    for (int64_t i = 0; i < r->n; i += VL) {
        const float *x = r->x + i;
        __builtin_prefetch(x + r->ahead);
        vf v = vf_load(x);
        for (int64_t k = 1; k < rows; k++)
            v = @COMBINE@(v, vf_load(x + k * r->step));
        vf_store(line + i, v);
    }
}

static void @OP@_rows(const struct rows *r, float *line) {
    if (r->rows == 3)
        @OP@_some_rows(r, line, 3);
    else if (r->rows == 2)
        @OP@_some_rows(r, line, 2);
    else if (r->rows > 0)
        @OP@_some_rows(r, line, r->rows);
    else
        for (int64_t i = 0; i < r->n; i += VL)
            vf_store(line + i, vf_set1(@IDENTITY@));
}

GW_INLINE void @OP@_some_columns(const struct columns *c, int64_t kernel, int64_t stride, int64_t dilation) {
    const float *from = c->line;
    for (int64_t o = 0; o < c->out; o++, from += stride) {
        vf v = vf_load(from);
        for (int64_t k = 1; k < kernel; k++)
            v = @COMBINE@(v, vf_load(from + k * dilation));
        vf_store(c->y + o * VL, v);
    }
}

static void @OP@_columns(const struct columns *c) {
    if (c->kernel == 3 && c->dilation == VL)
        @OP@_some_columns(c, 3, c->stride, VL);
    else if (c->kernel == 2 && c->dilation == VL)
        @OP@_some_columns(c, 2, c->stride, VL);
    else
        @OP@_some_columns(c, c->kernel, c->stride, c->dilation);
}

/* The line: pad_left identities, w values, identities as far as windows reach; returns its end. */
static float *@OP@_line(const struct args *s, float *line) {
    const int64_t reach = (s->ow - 1) * s->stride_w + (s->kw - 1) * s->dilation_w + 1;
    const int64_t length = reach > s->pad_left + s->w ? reach : s->pad_left + s->w;
    for (int64_t i = 0; i < s->pad_left; i++)
        vf_store(line + i * VL, vf_set1(@IDENTITY@));
    for (int64_t i = s->pad_left + s->w; i < length; i++)
        vf_store(line + i * VL, vf_set1(@IDENTITY@));
    return line + length * VL;
}

/* Output row oy of a plane. */
GW_INLINE void @OP@_row(const struct args *s, const float *x, int64_t oy, float *line, float *y) {
    const int64_t top = oy * s->stride_h - s->pad_top;
    int64_t first, last;
    taps(top, s->h, s->kh, s->dilation_h, &first, &last);
    const struct rows rows = {
        .x = x + (top + first * s->dilation_h) * s->x_h,
        .rows = last - first,
        .step = s->dilation_h * s->x_h,
        .n = s->w * VL,
        .ahead = (last - first) * s->dilation_h * s->x_h + (s->x_h < AHEAD ? AHEAD : 0),
    };
    const struct columns columns = {
        .line = line,
        .y = y,
        .out = s->ow,
        .kernel = s->kw,
        .stride = s->stride_w * VL,
        .dilation = s->dilation_w * VL,
    };
    @OP@_rows(&rows, line + s->pad_left * VL);
    @OP@_columns(&columns);
}
"""

_KERNELS: Final = """
/* An output row. */
struct place {
    int64_t image, block, oy;
};

GW_INLINE struct place place_of(const struct args *s, int64_t unit) {
    const int64_t blocks = parts(s->channels, VL), plane = quotient(unit, s->oh);
    const int64_t image = quotient(plane, blocks);
    return (struct place){image, plane - image * blocks, unit - plane * s->oh};
}

GW_INLINE void next_place(const struct args *s, struct place *p) {
    if (++p->oy < s->oh)
        return;
    p->oy = 0;
    if (++p->block < parts(s->channels, VL))
        return;
    p->block = 0;
    p->image++;
}

GW_EXPORT int32_t @MAX@(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    const float *const x = buf[0];
    float *const y = buf[1];
    struct args s;
    memcpy(&s, arg, sizeof s);
    if (s.ow == 0 || begin >= end)
        return 0;
    float *line = scratch;
    max_line(&s, line);
    struct place p = place_of(&s, begin);
    for (; begin < end; begin++, next_place(&s, &p))
        max_row(&s, x + p.image * s.x_n + p.block * s.x_cb, p.oy, line,
                y + p.image * s.y_n + p.block * s.y_cb + p.oy * s.y_h);
    return 0;
}

GW_EXPORT int32_t @AVERAGE@(void *const *buf, const int64_t *arg, int64_t begin, int64_t end,
                            void *scratch) {
    const float *const x = buf[0];
    float *const y = buf[1];
    struct args s;
    memcpy(&s, arg, sizeof s);
    if (s.ow == 0 || begin >= end)
        return 0;
    float *line = scratch, *columns = average_line(&s, line);
    for (int64_t o = 0; o < s.ow; o++)
        columns[o] = (float)divisor(o * s.stride_w - s.pad_left, s.w, s.kw, s.dilation_w, s.pad_right,
                                    s.count_include_pad);
    struct place p = place_of(&s, begin);
    for (; begin < end; begin++, next_place(&s, &p)) {
        float *to = y + p.image * s.y_n + p.block * s.y_cb + p.oy * s.y_h;
        average_row(&s, x + p.image * s.x_n + p.block * s.x_cb, p.oy, line, to);
        const float rows = (float)divisor(p.oy * s.stride_h - s.pad_top, s.h, s.kh, s.dilation_h,
                                          s.pad_bottom, s.count_include_pad);
        for (int64_t o = 0; o < s.ow; o++)
            vf_store(to + o * VL, vf_load(to + o * VL) / vf_set1(rows * columns[o]));
    }
    return 0;
}

/* The sum of n pixels from p on, in four partial sums. */
GW_INLINE vf sum_row(const float *p, int64_t n) {
    vf a = {0}, b = {0}, c = {0}, d = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8, p += 8 * VL) {
        __builtin_prefetch(p + AHEAD);
        a += vf_load(p) + vf_load(p + 4 * VL);
        b += vf_load(p + VL) + vf_load(p + 5 * VL);
        c += vf_load(p + 2 * VL) + vf_load(p + 6 * VL);
        d += vf_load(p + 3 * VL) + vf_load(p + 7 * VL);
    }
    for (; i < n; i++, p += VL)
        a += vf_load(p);
    return (a + b) + (c + d);
}

GW_EXPORT int32_t @GLOBAL_AVERAGE@(void *const *buf, const int64_t *arg, int64_t begin, int64_t end,
                                   void *scratch) {
    (void)scratch;
    const float *const x = buf[0];
    float *const y = buf[1];
    struct args s;
    memcpy(&s, arg, sizeof s);
    const int64_t blocks = parts(s.channels, VL);
    const vf count = vf_set1((float)(s.h * s.w));
    if (s.x_h == s.w * VL) {
        s.w *= s.h; /* the pixels are one row */
        s.h = 1;
    }
    for (; begin < end; begin++) {
        const int64_t image = quotient(begin, blocks), block = begin - image * blocks;
        const float *plane = x + image * s.x_n + block * s.x_cb;
        vf total = {0};
        for (int64_t row = 0; row < s.h; row++)
            total += sum_row(plane + row * s.x_h, s.w);
        vf_store(y + image * s.y_n + block * s.y_cb, total / count);
    }
    return 0;
}
"""

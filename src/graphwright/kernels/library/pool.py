"""Max and average pooling of f32 tensors [N, C, D, H, W] (fewer spatial axes: sizes of 1).

Each output row is made in two steps, so that no step has border code: the rows (and depths) of its window are
reduced, vectorised along the width, into one line of scratch that has the padding around it; then the columns
of each window are reduced out of that line. Both steps cost ``kernel`` operations instead of their product.
"""

from __future__ import annotations

from typing import ClassVar, Final

from graphwright.ir.symbols import Dim, product
from graphwright.kernels.library.extent import SIGNED, SIZE, STEP, Extent, Reach, arguments, dense, within
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa, prelude

Triple = tuple[Dim, Dim, Dim]
_MOST_LANES: Final = 16


@dataclass(frozen=True)
class Pool:
    """Windows over (depth, height, width). Operands: x, y; ``gw_max_pool_indices_f32``: x, y, indices (int64,
    dense).

    The width is contiguous in x and y. ``x_strides`` and ``y_strides``: of N, C, D, H, in elements.
    ``pads_after`` only bounds the divisor of an average that counts padding; ``out`` is given by the caller
    (ceil_mode is in it). A window without any element is -inf (max) or 0 (average). NaN wins, as in NumPy.
    """

    MAX: ClassVar[str] = "gw_max_pool_f32"
    AVERAGE: ClassVar[str] = "gw_average_pool_f32"
    MAX_INDICES: ClassVar[str] = "gw_max_pool_indices_f32"

    symbol: str
    batch: Dim
    channels: Dim
    size: Triple
    out: Triple
    kernel: Triple
    strides: Triple
    pads_before: Triple
    pads_after: Triple
    dilations: Triple
    x_strides: tuple[Dim, Dim, Dim, Dim]
    y_strides: tuple[Dim, Dim, Dim, Dim]
    count_include_pad: bool = False
    column_major: bool = False
    """Indices count columns first (ONNX storage_order 1)."""

    @property
    def args(self) -> tuple[Dim, ...]:
        return (
            *(self.batch, self.channels, int(self.count_include_pad), int(self.column_major)),
            *(*self.size, *self.out, *self.kernel, *self.strides),
            *(*self.pads_before, *self.pads_after, *self.dilations),
            *(*self.x_strides, *self.y_strides),
        )

    @property
    def grid(self) -> Dim:
        """Rows of the output."""
        return self.batch * self.channels * self.out[0] * self.out[1]

    @property
    def scratch_bytes(self) -> Dim:
        """The padded line, the divisors of the columns, and what a last vector of windows reads beyond
        them."""
        reach = (self.out[2] + _MOST_LANES) * self.strides[2] + self.kernel[2] * self.dilations[2]
        line = reach + self.pads_before[2] + self.size[2] + 64
        return 4 * (line + self.out[2] + 64)

    @property
    def work_ns(self) -> Dim:
        taps = self.kernel[0] * self.kernel[1] * self.size[2] + self.kernel[2] * self.out[2]
        return product([self.grid, taps]) // 8 + self.grid * 10


_AXES: Final = "dhw"
_STRIDES: Final = tuple(f"{x}_{axis}" for x in "xy" for axis in "ncdh")
_ARGS: Final = (
    *("batch", "channels", "count_include_pad", "column_major"),
    *(f"{what}_{axis}" for what in ("size", "out", "kernel") for axis in _AXES),
    *(f"{what}_{axis}" for what in ("stride", "before", "after", "dilation") for axis in _AXES),
    *_STRIDES,
)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """How far the three kernels reach."""
    a = arguments(*_ARGS)
    size, out, kernel, stride, before, after, dilation = (
        (getattr(a, f"{what}_d"), getattr(a, f"{what}_h"), getattr(a, f"{what}_w"))
        for what in ("size", "out", "kernel", "stride", "before", "after", "dilation")
    )
    x_strides, y_strides = ([getattr(a, f"{x}_{axis}") for axis in "ncdh"] for x in "xy")
    x = Reach(4, (*zip((a.batch, a.channels, *size[:2]), x_strides, strict=True), (size[2], 1)))
    y = Reach(4, (*zip((a.batch, a.channels, *out[:2]), y_strides, strict=True), (out[2], 1)))
    indices = dense(8, a.batch, a.channels, *out)
    pool = Pool(
        *("", a.batch, a.channels, size, out, kernel, stride, before, after, dilation),
        *((0, 0, 0, 0), (0, 0, 0, 0)),
    )
    operands = {Pool.MAX: (x, y), Pool.AVERAGE: (x, y), Pool.MAX_INDICES: (x, y, indices)}
    sizes = (f"{what}_{axis}" for what in ("kernel", "before", "after") for axis in _AXES)
    steps = (f"{what}_{axis}" for what in ("stride", "dilation") for axis in _AXES)
    return tuple(
        Extent(
            name,
            _ARGS,
            touched,
            grid=pool.grid,
            scratch=0 if name == Pool.MAX_INDICES else pool.scratch_bytes,
            bounds=within(SIGNED, *_STRIDES) | within(SIZE, *sizes) | within(STEP, *steps),
        )
        for name, touched in operands.items()
    )


def source(isa: Isa) -> str:
    """One C file with ``gw_max_pool_f32``, ``gw_average_pool_f32`` and ``gw_max_pool_indices_f32``."""
    even, odd = (", ".join(str(2 * i + side) for i in range(isa.lanes)) for side in (0, 1))
    parts = [prelude(isa), _WINDOW.replace("@EVEN@", even).replace("@ODD@", odd)]
    for name, identity, combine in (("max", "-__builtin_inff()", "vf_larger"), ("average", "0.0f", "vf_add")):
        parts.append(_ROW.replace("@OP@", name).replace("@IDENTITY@", identity).replace("@COMBINE@", combine))
    return "\n".join([*parts, _KERNELS])


_WINDOW: Final = """
enum { D, H, W };

typedef struct {
    int64_t batch, channels, count_include_pad, column_major;
    int64_t size[3], out[3], kernel[3], stride[3], before[3], after[3], dilation[3];
    int64_t xs[4], ys[4]; /* strides of N, C, D, H */
} pool;

GW_INLINE vf vf_add(vf a, vf b) { return a + b; }
/* NaN if either is: the instruction gives b where one is, so that only a remains to be looked at. */
GW_INLINE vf vf_larger(vf a, vf b) {
    vf r;
    __asm__("vmaxps %2, %1, %0" : "=v"(r) : "v"(a), "v"(b));
    return vf_select(a != a, a, r);
}
/* Elements 0, 2, 4, ... of the 2 * VL from p on. */
GW_INLINE vf vf_load_even(const float *p) {
    return __builtin_shufflevector(vf_load(p), vf_load(p + VL), @EVEN@);
}

GW_INLINE vf vf_even(vf a, vf b) { return __builtin_shufflevector(a, b, @EVEN@); }
GW_INLINE vf vf_odd(vf a, vf b) { return __builtin_shufflevector(a, b, @ODD@); }

GW_INLINE vf vf_load_every(const float *p, int64_t step) {
    float lane[VL];
    for (int i = 0; i < VL; i++)
        lane[i] = p[i * step];
    return vf_load(lane);
}

/* A division by 1 in place of the machine's slow one, for the usual dilation. */
GW_INLINE int64_t parts(int64_t length, int64_t step) {
    return step == 1 ? length : (length + step - 1) / step;
}

/* Taps [*first, *last) of output position o that lie inside the axis. */
GW_INLINE void taps(const pool *t, int axis, int64_t o, int64_t *first, int64_t *last) {
    int64_t at = o * t->stride[axis] - t->before[axis], step = t->dilation[axis];
    int64_t left = t->size[axis] - at; /* tap k is inside for 0 <= at + k * step < size */
    *first = at >= 0 ? 0 : parts(-at, step);
    *last = left <= 0 ? 0 : parts(left, step);
    *first = *first < t->kernel[axis] ? *first : t->kernel[axis];
    *last = *last < t->kernel[axis] ? *last : t->kernel[axis];
    *last = *last < *first ? *first : *last;
}

/* Whether each window has two columns of its own, all of them inside. */
GW_INLINE int has_pairs(const pool *t) {
    return t->kernel[W] == 2 && t->stride[W] == 2 && t->dilation[W] == 1 && t->before[W] == 0 &&
           2 * t->out[W] <= t->size[W];
}

/* How many taps of output position o the average divides by: 1 where there is none, as sums are 0 there. */
static int64_t divisor(const pool *t, int axis, int64_t o) {
    int64_t first, last;
    if (!t->count_include_pad) {
        taps(t, axis, o, &first, &last);
        return last > first ? last - first : 1;
    }
    int64_t left = t->size[axis] + t->after[axis] - (o * t->stride[axis] - t->before[axis]);
    last = left <= 0 ? 1 : parts(left, t->dilation[axis]);
    return last < t->kernel[axis] ? last : t->kernel[axis];
}

/* An output row. */
typedef struct {
    int64_t n, c, d, h;
} place;

static place place_of(const pool *t, int64_t row) {
    place p;
    p.h = row % t->out[H];
    row /= t->out[H];
    p.d = row % t->out[D];
    row /= t->out[D];
    p.c = row % t->channels;
    p.n = row / t->channels;
    return p;
}

GW_INLINE void next_place(const pool *t, place *p) {
    if (++p->h < t->out[H]) return;
    p->h = 0;
    if (++p->d < t->out[D]) return;
    p->d = 0;
    if (++p->c < t->channels) return;
    p->c = 0;
    p->n++;
}

GW_INLINE float *output_row(const pool *t, float *y, const place *p) {
    return y + p->n * t->ys[0] + p->c * t->ys[1] + p->d * t->ys[2] + p->h * t->ys[3];
}
"""

_ROW: Final = """
/* line[i] = line[i] (@OP@) x[i], or x[i] if this is the first row. */
GW_INLINE void @OP@_add_row(float *line, const float *x, int64_t n, int first) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(line + i, first ? vf_load(x + i) : @COMBINE@(vf_load(line + i), vf_load(x + i)));
    if (i < n)
        vf_store_n(line + i,
                   first ? vf_load_n(x + i, n - i) : @COMBINE@(vf_load(line + i), vf_load_n(x + i, n - i)),
                   n - i);
}

/* Three rows at once, the usual window: one store in place of three. */
GW_INLINE void @OP@_three_rows(float *line, const float *a, const float *b, const float *c, int64_t n) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(line + i, @COMBINE@(@COMBINE@(vf_load(a + i), vf_load(b + i)), vf_load(c + i)));
    if (i < n)
        vf_store_n(
            line + i,
            @COMBINE@(@COMBINE@(vf_load_n(a + i, n - i), vf_load_n(b + i, n - i)), vf_load_n(c + i, n - i)),
            n - i);
}

/* Any number of rows at once, so that the line is stored once. */
GW_INLINE void @OP@_window_rows(float *line, const float *x, int64_t step, int64_t rows, int64_t n) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL) {
        vf r = vf_load(x + i);
        for (int64_t k = 1; k < rows; k++)
            r = @COMBINE@(r, vf_load(x + k * step + i));
        vf_store(line + i, r);
    }
    if (i < n) {
        vf r = vf_load_n(x + i, n - i);
        for (int64_t k = 1; k < rows; k++)
            r = @COMBINE@(r, vf_load_n(x + k * step + i, n - i));
        vf_store_n(line + i, r, n - i);
    }
}

/* The rows of the window of output row p, reduced into line. */
static void @OP@_rows(const pool *t, const float *x, float *line, const place *p) {
    int64_t d = p->d, h = p->h;
    int64_t d0, d1, h0, h1, step = t->dilation[H] * t->xs[3], width = t->size[W];
    int first = 1;
    taps(t, D, d, &d0, &d1);
    taps(t, H, h, &h0, &h1);
    x += p->n * t->xs[0] + p->c * t->xs[1] + (h * t->stride[H] - t->before[H]) * t->xs[3];
    for (int64_t kd = d0; kd < d1; kd++) {
        const float *plane = x + (d * t->stride[D] - t->before[D] + kd * t->dilation[D]) * t->xs[2];
        int64_t kh = h0;
        if (first && h1 - h0 == 3)
            @OP@_three_rows(line, plane + kh * step, plane + (kh + 1) * step, plane + (kh + 2) * step, width);
        else if (first && h1 > h0)
            @OP@_window_rows(line, plane + kh * step, step, h1 - h0, width);
        if (first && h1 > h0) {
            kh = h1;
            first = 0;
        }
        for (; kh < h1; kh++, first = 0)
            @OP@_add_row(line, plane + kh * step, width, first);
    }
    for (int64_t i = 0; first && i < width; i++)
        line[i] = @IDENTITY@;
}

/* VL windows: those that begin at line, line + stride, ... */
GW_INLINE vf @OP@_windows(const float *line, int64_t kernel, int64_t dilation, int64_t stride) {
    vf r = {0};
    for (int64_t k = 0; k < kernel; k++, line += dilation) {
        vf tap = stride == 1 ? vf_load(line) : stride == 2 ? vf_load_even(line) : vf_load_every(line, stride);
        r = k ? @COMBINE@(r, tap) : tap;
    }
    return r;
}

/* All windows of the line; the last vector reads beyond it, within the scratch. */
GW_INLINE void @OP@_sweep(const float *line, float *y, int64_t out, int64_t kernel, int64_t dilation,
                          int64_t stride) {
    int64_t o = 0;
    for (; o + VL <= out; o += VL)
        vf_store(y + o, @OP@_windows(line + o * stride, kernel, dilation, stride));
    if (o < out) vf_store_n(y + o, @OP@_windows(line + o * stride, kernel, dilation, stride), out - o);
}

static void @OP@_reduce_columns(const pool *t, const float *line, float *y) {
    int64_t kernel = t->kernel[W], dilation = t->dilation[W], stride = t->stride[W], out = t->out[W];
    if (kernel == 3 && dilation == 1 && stride == 1)
        @OP@_sweep(line, y, out, 3, 1, 1);
    else if (kernel == 3 && dilation == 1 && stride == 2)
        @OP@_sweep(line, y, out, 3, 1, 2);
    else if (kernel == 2 && dilation == 1 && stride == 2)
        @OP@_sweep(line, y, out, 2, 1, 2);
    else if (stride == 1)
        @OP@_sweep(line, y, out, kernel, dilation, 1);
    else if (stride == 2)
        @OP@_sweep(line, y, out, kernel, dilation, 2);
    else
        @OP@_sweep(line, y, out, kernel, dilation, stride);
}

/* The first n elements of two vectors from p on. */
GW_INLINE void @OP@_load_two(const float *p, int64_t n, vf *low, vf *high) {
    *low = n < VL ? vf_load_n(p, n) : vf_load(p);
    *high = n <= VL ? vf_set1(0.0f) : n < 2 * VL ? vf_load_n(p + VL, n - VL) : vf_load(p + VL);
}

/* Output row p of windows with two columns of their own: no line, each pair lies side by side in registers.
   Results are divided by count. False if the window has no row. */
GW_INLINE int @OP@_pairs(const pool *t, const float *x, float *y, const place *p, int divides, float count) {
    int64_t d0, d1, h0, h1, step = t->dilation[H] * t->xs[3], out = t->out[W];
    taps(t, D, p->d, &d0, &d1);
    taps(t, H, p->h, &h0, &h1);
    if (d1 <= d0 || h1 <= h0) return 0;
    x += p->n * t->xs[0] + p->c * t->xs[1] + (p->h * t->stride[H] - t->before[H]) * t->xs[3] +
         (p->d * t->stride[D] - t->before[D]) * t->xs[2];
    for (int64_t o = 0; o < out; o += VL) {
        int64_t n = out - o < VL ? out - o : VL;
        vf low = vf_set1(0.0f), high = low, a, b;
        for (int64_t kd = d0; kd < d1; kd++)
            for (int64_t kh = h0; kh < h1; kh++) {
                @OP@_load_two(x + kd * t->dilation[D] * t->xs[2] + kh * step + 2 * o, 2 * n, &a, &b);
                int first = kd == d0 && kh == h0;
                low = first ? a : @COMBINE@(low, a);
                high = first ? b : @COMBINE@(high, b);
            }
        vf r = @COMBINE@(vf_even(low, high), vf_odd(low, high));
        r = divides ? r / vf_set1(count) : r;
        if (n == VL)
            vf_store(y + o, r);
        else
            vf_store_n(y + o, r, n);
    }
    return 1;
}

/* The line: [before] identity, [size] values, identity as far as windows reach. */
static float *@OP@_line(const pool *t, float *scratch) {
    int64_t reach = (t->out[W] - 1) * t->stride[W] + (t->kernel[W] - 1) * t->dilation[W] + 1;
    int64_t length = reach > t->before[W] + t->size[W] ? reach : t->before[W] + t->size[W];
    for (int64_t i = 0; i < length; i++)
        scratch[i] = @IDENTITY@;
    return scratch + length;
}
"""

_KERNELS: Final = """
/* buf: x, y. arg: the fields of pool. Scratch: the line. */
GW_EXPORT int32_t gw_max_pool_f32(void *const *buf, const int64_t *arg, int64_t begin, int64_t end,
                                  void *scratch) {
    const pool *t = (const pool *)arg;
    if (t->out[W] == 0 || begin >= end) return 0;
    float *line = scratch;
    max_line(t, line);
    place p = place_of(t, begin);
    int pairs = has_pairs(t);
    for (int64_t row = begin; row < end; row++, next_place(t, &p)) {
        if (pairs && max_pairs(t, buf[0], output_row(t, buf[1], &p), &p, 0, 1)) continue;
        max_rows(t, buf[0], line + t->before[W], &p);
        max_reduce_columns(t, line, output_row(t, buf[1], &p));
    }
    return 0;
}

/* buf: x, y. arg: the fields of pool. Scratch: the line, then a divisor for each column. */
GW_EXPORT int32_t gw_average_pool_f32(void *const *buf, const int64_t *arg, int64_t begin, int64_t end,
                                      void *scratch) {
    const pool *t = (const pool *)arg;
    int64_t out = t->out[W];
    if (out == 0 || begin >= end) return 0;
    float *line = scratch, *columns = average_line(t, line);
    for (int64_t o = 0; o < out; o++)
        columns[o] = (float)divisor(t, W, o);
    place p = place_of(t, begin);
    int pairs = has_pairs(t);
    for (int64_t row = begin; row < end; row++, next_place(t, &p)) {
        float *y = output_row(t, buf[1], &p), count = (float)(divisor(t, D, p.d) * divisor(t, H, p.h));
        if (pairs && average_pairs(t, buf[0], y, &p, 1, 2 * count)) continue;
        average_rows(t, buf[0], line + t->before[W], &p);
        average_reduce_columns(t, line, y);
        vf rows = vf_set1(count);
        int64_t o = 0;
        for (; o + VL <= out; o += VL)
            vf_store(y + o, vf_load(y + o) / (rows * vf_load(columns + o)));
        if (o < out)
            vf_store_n(y + o, vf_load_n(y + o, out - o) / (rows * vf_load_n(columns + o, out - o)), out - o);
    }
    return 0;
}

/* buf: x, y, indices. arg: the fields of pool. The first of equal maxima counts; the first NaN, if there is
   one. */
GW_EXPORT int32_t gw_max_pool_indices_f32(void *const *buf, const int64_t *arg, int64_t begin, int64_t end,
                                          void *scratch) {
    (void)scratch;
    const pool *t = (const pool *)arg;
    const int64_t *size = t->size;
    if (begin >= end) return 0;
    place p = place_of(t, begin);
    for (int64_t row = begin; row < end; row++, next_place(t, &p)) {
        const float *plane = (const float *)buf[0] + p.n * t->xs[0] + p.c * t->xs[1];
        float *y = output_row(t, buf[1], &p);
        int64_t *indices = (int64_t *)buf[2] + row * t->out[W];
        int64_t d0, d1, h0, h1, w0, w1;
        taps(t, D, p.d, &d0, &d1);
        taps(t, H, p.h, &h0, &h1);
        for (int64_t o = 0; o < t->out[W]; o++) {
            float best = -__builtin_inff();
            int64_t at = -1;
            taps(t, W, o, &w0, &w1);
            for (int64_t kd = d0; kd < d1; kd++)
                for (int64_t kh = h0; kh < h1; kh++)
                    for (int64_t kw = w0; kw < w1; kw++) {
                        int64_t z = p.d * t->stride[D] - t->before[D] + kd * t->dilation[D];
                        int64_t i = p.h * t->stride[H] - t->before[H] + kh * t->dilation[H];
                        int64_t j = o * t->stride[W] - t->before[W] + kw * t->dilation[W];
                        float v = plane[z * t->xs[2] + i * t->xs[3] + j];
                        if (at >= 0 && !(v > best || (v != v && best == best))) continue;
                        best = v;
                        at = t->column_major ? (j * size[H] + i) * size[D] + z
                                             : (z * size[H] + i) * size[W] + j;
                    }
            y[o] = best;
            indices[o] = at < 0 ? -1 : (p.n * t->channels + p.c) * size[D] * size[H] * size[W] + at;
        }
    }
    return 0;
}
"""

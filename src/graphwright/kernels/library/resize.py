"""Resize the last two axes of f32 tensors, leading axes flattened: nearest, linear and cubic, as ONNX defines
them.

All three are one algorithm with 1, 2 or 4 taps per axis (Keys, "Cubic Convolution Interpolation", 1981). A
row of x is resized along the width when an output row first needs it and kept for the next ones; then rows
are blended. Where the indices of taps advance by one input per two outputs (a factor of 2), loads and
shuffles replace the gather.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar, Final

from graphwright.ir.symbols import Dim, product
from graphwright.kernels.library.bits import double_bits
from graphwright.kernels.library.extent import BITS, SIGNED, Extent, Reach, arguments, within
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa, prelude

_TAPS: Final = {"nearest": 1, "linear": 2, "cubic": 4}


class Coordinates(IntEnum):
    """ONNX's ``coordinate_transformation_mode``, but for tf_crop_and_resize."""

    HALF_PIXEL = 0
    PYTORCH_HALF_PIXEL = 1
    ALIGN_CORNERS = 2
    ASYMMETRIC = 3
    HALF_PIXEL_SYMMETRIC = 4


class Rounding(IntEnum):
    """ONNX's ``nearest_mode``."""

    ROUND_PREFER_FLOOR = 0
    ROUND_PREFER_CEIL = 1
    FLOOR = 2
    CEIL = 3


@dataclass(frozen=True)
class Resize:
    """``[planes, height, width]`` to ``[planes, out_height, out_width]``. Operands: x, y; their widths are
    contiguous.

    A scale of 0 stands for the quotient of the sizes. Strides (of planes and rows) in elements.
    """

    NEAREST: ClassVar[str] = "gw_resize_nearest_f32"
    LINEAR: ClassVar[str] = "gw_resize_linear_f32"
    CUBIC: ClassVar[str] = "gw_resize_cubic_f32"

    symbol: str
    planes: Dim
    height: Dim
    width: Dim
    out_height: Dim
    out_width: Dim
    x_strides: tuple[Dim, Dim]
    y_strides: tuple[Dim, Dim]
    scale_h: float = 0.0
    scale_w: float = 0.0
    coordinates: Coordinates = Coordinates.HALF_PIXEL
    rounding: Rounding = Rounding.ROUND_PREFER_FLOOR
    cubic_a: float = -0.75
    exclude_outside: bool = False

    @property
    def args(self) -> tuple[Dim, ...]:
        return (
            *(self.planes, *self.x_strides, *self.y_strides),
            *(
                int(self.coordinates),
                int(self.rounding),
                int(self.exclude_outside),
                double_bits(self.cubic_a),
            ),
            *(self.height, self.out_height, double_bits(self.scale_h)),
            *(self.width, self.out_width, double_bits(self.scale_w)),
        )

    @property
    def taps(self) -> int:
        """Per axis."""
        return {self.NEAREST: 1, self.LINEAR: 2, self.CUBIC: 4}[self.symbol]

    @property
    def grid(self) -> Dim:
        """Rows of the output."""
        return self.planes * self.out_height

    @property
    def scratch_bytes(self) -> Dim:
        """Indices and weights of the columns, and as many resized rows as there are taps."""
        return self.out_width * (12 * self.taps) + 64

    @property
    def work_ns(self) -> Dim:
        return product([self.planes, self.out_height, self.out_width]) * self.taps // 2


_ARGS: Final = (
    *("planes", "x_plane", "x_row", "y_plane", "y_row", "coordinates", "rounding", "exclude", "cubic_a"),
    *("height", "out_height", "scale_h", "width", "out_width", "scale_w"),
)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """How far the three kernels reach. Columns are numbered by 32 bits."""
    a = arguments(*_ARGS)
    strides = (a.x_plane, a.x_row), (a.y_plane, a.y_row)
    made = (
        Resize(name, a.planes, a.height, a.width, a.out_height, a.out_width, *strides)
        for name in (Resize.NEAREST, Resize.LINEAR, Resize.CUBIC)
    )
    return tuple(
        Extent(
            resize.symbol,
            _ARGS,
            (
                Reach(4, ((a.planes, a.x_plane), (a.height, a.x_row), (a.width, 1))),
                Reach(4, ((a.planes, a.y_plane), (a.out_height, a.y_row), (a.out_width, 1))),
            ),
            grid=resize.grid,
            scratch=resize.scratch_bytes,
            bounds=within(SIGNED, "x_plane", "x_row", "y_plane", "y_row")
            | within(BITS, "cubic_a", "scale_h", "scale_w")
            | within((0, (1 << 31) - 1), "width"),
        )
        for resize in made
    )


def source(isa: Isa) -> str:
    """One C file with ``gw_resize_nearest_f32``, ``gw_resize_linear_f32`` and ``gw_resize_cubic_f32``."""
    lanes = isa.lanes
    low = ", ".join(f"{i}, {i + lanes}" for i in range(lanes // 2))
    high = ", ".join(f"{i}, {i + lanes}" for i in range(lanes // 2, lanes))
    modes = (
        _MODE.replace("@MODE@", mode)
        .replace("@TAPS@", str(taps))
        .replace("@LOW@", low)
        .replace("@HIGH@", high)
        for mode, taps in _TAPS.items()
    )
    return "\n".join([prelude(isa), axis_taps(), *modes])


def axis_taps() -> str:
    """C text of the types ``axis`` and ``resize`` and, for each mode, ``taps_MODE(t, a, o, index, weight)``.

    They give the input indices and weights of output ``o`` along axis ``a``, by the coordinates, rounding,
    ``exclude_outside`` and ``cubic_a`` of ``t``.
    """
    coordinates = (_COORDINATE.replace("@T@", kind) for kind in ("float", "double"))
    return "\n".join([_AXES, *coordinates, _WEIGHTS])


_AXES: Final = """
enum { HALF_PIXEL, PYTORCH_HALF_PIXEL, ALIGN_CORNERS, ASYMMETRIC, HALF_PIXEL_SYMMETRIC };
enum { ROUND_PREFER_FLOOR, ROUND_PREFER_CEIL, FLOOR, CEIL };

typedef struct {
    int64_t in, out;
    double scale;
} axis;

typedef struct {
    int64_t planes, x_plane, x_row, y_plane, y_row, coordinates, rounding, exclude_outside;
    double cubic_a;
    axis h, w;
} resize;

/* By comparison, so that no rounding mode and no library matters; |x| is far below 2^63. */
static int64_t floor_of(double x) {
    int64_t i = (int64_t)x;
    return i - ((double)i > x);
}
GW_INLINE void copy_line(float *to, const float *from, int64_t n) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(to + i, vf_load(from + i));
    if (i < n) vf_store_n(to + i, vf_load_n(from + i, n - i), n - i);
}
static int64_t clamp_index(int64_t i, int64_t n) { return i < 0 ? 0 : i < n ? i : n - 1; }
"""

_COORDINATE: Final = """
/* Where output o stands on the input's axis. */
static @T@ coordinate_@T@(const resize *t, const axis *a, int64_t o) {
    @T@ scale = (@T@)a->scale, half = (@T@)0.5, at = (@T@)o;
    switch (t->coordinates) {
    case PYTORCH_HALF_PIXEL: return a->out > 1 ? (at + half) / scale - half : 0;
    case ALIGN_CORNERS: return a->out > 1 ? at * (@T@)(a->in - 1) / (@T@)(a->out - 1) : 0;
    case ASYMMETRIC: return at / scale;
    case HALF_PIXEL_SYMMETRIC: { /* the part of the input that the output covers is centred */
        @T@ covered = (@T@)a->out / (scale * (@T@)a->in);
        return (@T@)a->in * half * (1 - covered) + (at + half) / scale - half;
    }
    default: return (at + half) / scale - half;
    }
}
"""

_WEIGHTS: Final = """
/* The taps of output o: input indices within the axis, and weights. */
static void taps_nearest(const resize *t, const axis *a, int64_t o, int64_t *index, float *weight) {
    double x = (double)coordinate_float(t, a, o); /* ties are those of f32 scales: 3 / (1/3) is 9 */
    int64_t i = floor_of(x);
    if (t->rounding == ROUND_PREFER_FLOOR) i = -floor_of(0.5 - x); /* ceil(x - 0.5) */
    if (t->rounding == ROUND_PREFER_CEIL) i = floor_of(x + 0.5);
    if (t->rounding == CEIL) i = -floor_of(-x);
    index[0] = clamp_index(i, a->in);
    weight[0] = 1.0f;
}

static void taps_linear(const resize *t, const axis *a, int64_t o, int64_t *index, float *weight) {
    double x = coordinate_double(t, a, o), last = (double)(a->in - 1);
    x = x < 0.0 ? 0.0 : x > last ? last : x;
    int64_t i = floor_of(x);
    index[0] = clamp_index(i, a->in); /* a scale that is no number must not lead out of x */
    index[1] = clamp_index(index[0] + 1, a->in);
    weight[1] = (float)(x - (double)i);
    weight[0] = 1.0f - weight[1];
}

static void taps_cubic(const resize *t, const axis *a, int64_t o, int64_t *index, float *weight) {
    double x = coordinate_double(t, a, o), k = t->cubic_a, sum = 0.0, w[4];
    int64_t i = floor_of(x);
    for (int j = 0; j < 4; j++) {
        double d = x - (double)(i - 1 + j); /* the distance from tap j */
        d = d < 0.0 ? -d : d;
        w[j] = d <= 1.0 ? ((k + 2.0) * d - (k + 3.0)) * d * d + 1.0
                        : ((k * d - 5.0 * k) * d + 8.0 * k) * d - 4.0 * k;
        index[j] = clamp_index(i - 1 + j, a->in);
        if (t->exclude_outside && index[j] != i - 1 + j) w[j] = 0.0;
        sum += w[j];
    }
    for (int j = 0; j < 4; j++)
        weight[j] = (float)(t->exclude_outside ? w[j] / sum : w[j]);
}
"""

_MODE: Final = """
/* For every output column: index[tap][o] and weight[tap][o]. Outputs [from, to) are doubled: index[tap][2m]
   is
   m + even[tap], index[tap][2m + 1] is m + odd[tap]. */
typedef struct {
    int32_t *index;
    float *weight;
    int64_t out, from, to, even[@TAPS@], odd[@TAPS@];
} columns_@MODE@;

static int is_doubled_@MODE@(const columns_@MODE@ *c, int64_t m) {
    for (int k = 0; k < @TAPS@; k++) {
        const int32_t *index = c->index + k * c->out + 2 * m;
        if (index[0] - m != c->even[k] || index[1] - m != c->odd[k]) return 0;
    }
    return 1;
}

static void find_doubled_@MODE@(columns_@MODE@ *c) {
    int64_t pairs = c->out / 2, middle = pairs / 2, first = middle, last = middle;
    c->from = c->to = 0;
    if (pairs < VL) return;
    for (int k = 0; k < @TAPS@; k++) {
        c->even[k] = c->index[k * c->out + 2 * middle] - middle;
        c->odd[k] = c->index[k * c->out + 2 * middle + 1] - middle;
    }
    while (first > 0 && is_doubled_@MODE@(c, first - 1))
        first--;
    while (last < pairs && is_doubled_@MODE@(c, last))
        last++;
    c->from = 2 * first;
    c->to = 2 * last;
}

static columns_@MODE@ columns_of_@MODE@(const resize *t, int32_t *scratch) {
    columns_@MODE@ c = {.index = scratch, .weight = (float *)(scratch + @TAPS@ * t->w.out), .out = t->w.out};
    for (int64_t o = 0; o < c.out; o++) {
        int64_t index[@TAPS@];
        float weight[@TAPS@];
        taps_@MODE@(t, &t->w, o, index, weight);
        for (int k = 0; k < @TAPS@; k++) {
            c.index[k * c.out + o] = (int32_t)index[k];
            c.weight[k * c.out + o] = weight[k];
        }
    }
    find_doubled_@MODE@(&c);
    return c;
}

GW_INLINE void columns_one_by_one_@MODE@(const columns_@MODE@ *c, const float *x, float *y, int64_t from,
                                         int64_t to) {
    for (int64_t o = from; o < to; o++) {
        float sum = x[c->index[o]];
        if (@TAPS@ > 1) sum *= c->weight[o];
        for (int k = 1; k < @TAPS@; k++)
            sum = __builtin_fmaf(x[c->index[k * c->out + o]], c->weight[k * c->out + o], sum);
        y[o] = sum;
    }
}

/* Columns [o, o + 2 * VL), all among those that are doubled. */
GW_INLINE void resize_doubled_@MODE@(const columns_@MODE@ *c, const float *x, float *y, int64_t o) {
    vf low = {0}, high = {0};
    for (int k = 0; k < @TAPS@; k++) {
        vf even = vf_load(x + o / 2 + c->even[k]), odd = vf_load(x + o / 2 + c->odd[k]);
        vf a = __builtin_shufflevector(even, odd, @LOW@), b = __builtin_shufflevector(even, odd, @HIGH@);
        const float *weight = c->weight + k * c->out + o;
        low = @TAPS@ == 1 ? a : k == 0 ? a * vf_load(weight) : vf_fma(a, vf_load(weight), low);
        high = @TAPS@ == 1 ? b
               : k == 0    ? b * vf_load(weight + VL)
                           : vf_fma(b, vf_load(weight + VL), high);
    }
    vf_store(y + o, low);
    vf_store(y + o + VL, high);
}

/* One row of x resized along the width; the last vectors of what is doubled overlap those before. */
static void resize_columns_@MODE@(const columns_@MODE@ *c, const float *x, float *y) {
    int64_t o = c->from;
    columns_one_by_one_@MODE@(c, x, y, 0, o);
    for (; o + 2 * VL <= c->to; o += 2 * VL)
        resize_doubled_@MODE@(c, x, y, o);
    if (o < c->to && c->to - c->from >= 2 * VL) {
        resize_doubled_@MODE@(c, x, y, c->to - 2 * VL);
        o = c->to;
    }
    columns_one_by_one_@MODE@(c, x, y, o, c->out);
}

/* y = the sum of weight[k] * line[k]. */
static void blend_@MODE@(const float *const *line, const float *weight, float *y, int64_t n) {
    int64_t i = 0, some = n % VL;
    for (; i + VL <= n; i += VL) {
        vf sum = vf_load(line[0] + i) * weight[0];
        for (int k = 1; k < @TAPS@; k++)
            sum = vf_fma(vf_load(line[k] + i), vf_set1(weight[k]), sum);
        vf_store(y + i, sum);
    }
    if (some == 0) return;
    vf sum = vf_load_n(line[0] + i, some) * weight[0];
    for (int k = 1; k < @TAPS@; k++)
        sum = vf_fma(vf_load_n(line[k] + i, some), vf_set1(weight[k]), sum);
    vf_store_n(y + i, sum, some);
}

/* buf: x, y. arg: the fields of resize. Scratch: indices, weights, one resized row of x per tap. */
GW_EXPORT int32_t gw_resize_@MODE@_f32(void *const *buf, const int64_t *arg, int64_t begin, int64_t end,
                                       void *scratch) {
    resize t;
    memcpy(&t, arg, sizeof t);
    if (t.w.out == 0 || t.h.in == 0 || t.w.in == 0 || begin >= end) return 0;
    t.h.scale = t.h.scale != 0.0 ? t.h.scale : (double)t.h.out / (double)t.h.in;
    t.w.scale = t.w.scale != 0.0 ? t.w.scale : (double)t.w.out / (double)t.w.in;
    columns_@MODE@ columns = columns_of_@MODE@(&t, scratch);
    float *lines = columns.weight + @TAPS@ * columns.out;
    const float *held[@TAPS@] = {0}; /* the row of x that each line was made of */
    const float *previous = NULL;
    int64_t plane = begin / t.h.out, o = begin % t.h.out;
    for (int64_t row = begin; row < end; row++) {
        int64_t index[@TAPS@];
        float weight[@TAPS@], *y = (float *)buf[1] + plane * t.y_plane + o * t.y_row;
        const float *line[@TAPS@];
        taps_@MODE@(&t, &t.h, o, index, weight);
        for (int k = 0; k < @TAPS@; k++) {
            const float *x = (const float *)buf[0] + plane * t.x_plane + index[k] * t.x_row;
            int64_t slot = index[k] % @TAPS@; /* taps are neighbours: no two of them share a slot */
            if (@TAPS@ == 1) {
                if (held[0] == x)
                    copy_line(y, previous, columns.out);
                else
                    resize_columns_@MODE@(&columns, x, y);
            } else if (held[slot] != x) {
                resize_columns_@MODE@(&columns, x, lines + slot * columns.out);
            }
            held[slot] = x;
            line[k] = lines + slot * columns.out;
        }
        if (@TAPS@ > 1) blend_@MODE@(line, weight, y, columns.out);
        previous = y;
        if (++o < t.h.out) continue;
        o = 0;
        plane++;
    }
    return 0;
}
"""

"""Resize height and width of blocked f32 activations: nearest, linear and cubic, as ONNX defines them.

The taps are those of ``resize``. A vector holds the channels of a block, so that whatever the factor an
output pixel is a weighted sum of whole vectors: nothing is gathered by lanes and no case is special.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from graphwright.ir.symbols import Dim, ceildiv, symbol
from graphwright.kernels.library.extent import BITS, SIGNED, Extent, Reach, within
from graphwright.kernels.library.resize import axis_taps
from graphwright.kernels.library.tile import HELPERS
from graphwright.targets.cpu.isa import Isa, args_struct, prelude

NEAREST: Final = "gw_resize_nearest_blocked_f32"
LINEAR: Final = "gw_resize_linear_blocked_f32"
CUBIC: Final = "gw_resize_cubic_blocked_f32"

TAPS: Final[dict[str, int]] = {NEAREST: 1, LINEAR: 2, CUBIC: 4}
"""Per axis."""

OPERANDS: Final = ("x", "y")


class BlockedResizeArgs(NamedTuple):
    """The args of all three kernels in ABI order; strides in elements.

    ``scale_h``, ``scale_w`` and ``cubic_a`` are the bits of doubles (``bits.double_bits``); a scale of 0
    stands for the quotient of the sizes.
    """

    images: Dim
    channels: Dim
    coordinates: Dim
    """``resize.Coordinates``."""
    rounding: Dim
    """``resize.Rounding``, of nearest."""
    exclude_outside: Dim
    """0 or 1, of cubic."""
    cubic_a: Dim
    h: Dim
    oh: Dim
    scale_h: Dim
    w: Dim
    ow: Dim
    scale_w: Dim
    x_n: Dim
    x_cb: Dim
    x_h: Dim
    y_n: Dim
    y_cb: Dim
    y_h: Dim


def grid(isa: Isa, args: BlockedResizeArgs) -> Dim:
    """Units of work: images, blocks of channels, output rows (fastest)."""
    return args.images * ceildiv(args.channels, isa.lanes) * args.oh


def scratch_bytes(symbol: str, args: BlockedResizeArgs) -> Dim:
    """Offsets and weights of the taps of each column."""
    return args.ow * (12 * TAPS[symbol])


def work_ns(isa: Isa, symbol: str, args: BlockedResizeArgs) -> Dim:
    """Time on one core: 4 ns for the vector that is written, 1 ns for each that is read."""
    return grid(isa, args) * args.ow * (4 + TAPS[symbol] ** 2)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """How far the three kernels reach."""
    a = BlockedResizeArgs(*map(symbol, BlockedResizeArgs._fields))
    blocks = ceildiv(a.channels, isa.lanes)
    x = Reach(4, ((a.images, a.x_n), (blocks, a.x_cb), (a.h, a.x_h), (a.w * isa.lanes, 1)))
    y = Reach(4, ((a.images, a.y_n), (blocks, a.y_cb), (a.oh, a.y_h), (a.ow * isa.lanes, 1)))
    return tuple(
        Extent(
            name,
            BlockedResizeArgs._fields,
            (x, y),
            grid=grid(isa, a),
            scratch=scratch_bytes(name, a),
            bounds=within(SIGNED, *BlockedResizeArgs._fields[12:])
            | within(BITS, "cubic_a", "scale_h", "scale_w"),
        )
        for name in TAPS
    )


def source(isa: Isa) -> str:
    """One C11 file with :data:`NEAREST`, :data:`LINEAR` and :data:`CUBIC`."""
    fields = args_struct(BlockedResizeArgs._fields)
    modes = (
        _MODE.replace("@SUM@", _sum(taps)).replace("@MODE@", symbol.split("_")[2])
        .replace("@TAPS@", str(taps)).replace("@SYMBOL@", symbol)
        for symbol, taps in TAPS.items()
    )  # fmt: skip
    return "\n".join([prelude(isa), HELPERS, axis_taps(), fields, _READ, *modes])


def _sum(taps: int) -> str:
    """``total`` of one output pixel, unrolled."""
    if taps == 1:
        return (
            "        (void)row_weight, (void)weight;\n        const vf total = vf_load(row[0] + offset[0]);"
        )
    lines = [f"const vf w{k} = vf_set1(weight[{k}]);" for k in range(taps)]
    for i in range(taps):
        lines.append(f"vf r{i} = vf_load(row[{i}] + offset[0]) * w0;")
        lines += [f"r{i} = vf_fma(vf_load(row[{i}] + offset[{k}]), w{k}, r{i});" for k in range(1, taps)]
    lines.append("vf total = r0 * vf_set1(row_weight[0]);")
    lines += [f"total = vf_fma(r{i}, vf_set1(row_weight[{i}]), total);" for i in range(1, taps)]
    return "\n".join(" " * 8 + line for line in lines)


_READ: Final = """
static double double_of(int64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static axis axis_of(int64_t in, int64_t out, int64_t scale) {
    const double given = double_of(scale);
    return (axis){in, out, given != 0.0 ? given : (double)out / (double)in};
}
"""

_MODE: Final = """
/* y[o] = the sum over rows i and taps k of row_weight[i] * weight[o][k] * row[i][offset[o][k]]. */
static void resize_row_@MODE@(const float *const *row, const float *row_weight, const int64_t *offset,
                              const float *weight, int64_t n, float *y) {
    for (int64_t o = 0; o < n; o++, offset += @TAPS@, weight += @TAPS@) {
@SUM@
        vf_store(y + o * VL, total);
    }
}

/* buf: x, y. arg: the fields of args. Scratch: offsets, then weights. */
GW_EXPORT int32_t @SYMBOL@(void *const *buf, const int64_t *arg, int64_t begin, int64_t end, void *scratch) {
    const float *const x = buf[0];
    float *const y = buf[1];
    struct args s;
    memcpy(&s, arg, sizeof s);
    if (s.ow == 0 || s.h == 0 || s.w == 0 || begin >= end)
        return 0;
    const resize t = {
        .coordinates = s.coordinates,
        .rounding = s.rounding,
        .exclude_outside = s.exclude_outside,
        .cubic_a = double_of(s.cubic_a),
        .h = axis_of(s.h, s.oh, s.scale_h),
        .w = axis_of(s.w, s.ow, s.scale_w),
    };
    int64_t *const offset = scratch, index[@TAPS@];
    float *const weight = (float *)(void *)(offset + @TAPS@ * s.ow), row_weight[@TAPS@];
    for (int64_t o = 0; o < s.ow; o++) {
        taps_@MODE@(&t, &t.w, o, index, weight + @TAPS@ * o);
        for (int k = 0; k < @TAPS@; k++)
            offset[@TAPS@ * o + k] = index[k] * VL;
    }
    const int64_t blocks = parts(s.channels, VL);
    for (; begin < end; begin++) {
        const int64_t plane = quotient(begin, s.oh), oy = begin - plane * s.oh;
        const int64_t image = quotient(plane, blocks), block = plane - image * blocks;
        const float *row[@TAPS@];
        taps_@MODE@(&t, &t.h, oy, index, row_weight);
        for (int k = 0; k < @TAPS@; k++)
            row[k] = x + image * s.x_n + block * s.x_cb + index[k] * s.x_h;
        resize_row_@MODE@(row, row_weight, offset, weight, s.ow,
                          y + image * s.y_n + block * s.y_cb + oy * s.y_h);
    }
    return 0;
}
"""

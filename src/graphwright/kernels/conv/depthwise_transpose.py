"""Transposed depthwise convolution of f32 [N, C, D, H, W]: each input channel has features of its own.

The outputs of a row whose columns are equal modulo the stride (a phase) read x with the same taps, at
adjacent columns: sums of whole vectors, which are interleaved when the row is stored. If the stride is at
least half a vector and divides the window, adjacent outputs are summed instead, which read the same columns
of x with adjacent taps.

A unit of the grid is a band of output rows of one channel. Its input rows are copied to scratch with zeros
around them.
"""

from __future__ import annotations

from typing import Final

from graphwright.cost.images import transposed_depthwise_work
from graphwright.cost.predict import predict
from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum, product
from graphwright.kernels.conv import phases
from graphwright.kernels.conv.conv_transpose import ConvTransposeArgs
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.extent import (
    SIZE,
    STEP,
    Extent,
    Reach,
    Tiles,
    dense,
    stride_bounds,
    window_bounds,
    within,
)
from graphwright.targets.cpu.isa import Isa

SYMBOL: Final = "gw_depthwise_transpose_f32"

_BAND: Final = 16
"""Output rows per unit."""

ABI: Final = Abi("depthwise_transpose", ("x", "w", "bias", "y"), ConvTransposeArgs.names())
"""``cin`` is 1. ``w`` [groups, cout, kd, kh, kw] is not packed; ``bias`` [groups * cout] may be absent; ``y``
is ignored if there is a hook. The hook, or a null pointer, comes next; a tile is one channel (row) by the
pixels of some image rows (columns).
"""


def grid(args: ConvTransposeArgs) -> Dim:
    """The number of units of work: images, channels, planes of the output, bands of rows (fastest)."""
    return product([args.images, args.groups, args.cout, args.od, ceildiv(args.oh, _BAND)])


def _length(isa: Isa, args: ConvTransposeArgs) -> Dim:
    """The columns of a phase of an output row: two vectors, or a multiple of four."""
    pairs = maximum(1, ceildiv(ceildiv(args.ow, args.stride_w), 2 * isa.lanes))
    odd = maximum(0, 2 - pairs)
    return 2 * isa.lanes * (2 * ceildiv(pairs, 2) - odd)


def scratch_bytes(isa: Isa, args: ConvTransposeArgs) -> Dim:
    """The bytes of the input rows of a band, and of its output rows: by phase, the end of one, for a hook."""
    band, length = minimum(args.oh, _BAND), _length(isa, args)
    reach = floordiv((args.kw - 1) * args.dilation_w, args.stride_w)
    pitch = reach + ceildiv(args.pad_left, args.stride_w) + length
    rows = floordiv(band - 1 + (args.kh - 1) * args.dilation_h, args.stride_h) + 1
    return 4 * (args.kd * rows * pitch + args.stride_w * (band * length + isa.lanes) + band * args.ow)


def _by_strides(isa: Isa, args: ConvTransposeArgs) -> bool:
    """Whether a vector of results consists of adjacent outputs, not of outputs one stride apart."""
    taps, stride = args.kw, args.stride_w
    if not isinstance(taps, int) or not isinstance(stride, int):
        return False
    return 2 * stride >= isa.lanes and taps % stride == 0 and args.dilation_w == 1


def work_ns(isa: Isa, args: ConvTransposeArgs) -> Dim:
    """The predicted time on one core, in nanoseconds."""
    rows = product([args.images, args.groups, args.cout, args.od, args.oh])
    vectors = product([rows, floordiv(_length(isa, args), isa.lanes), args.stride_w])
    if _by_strides(isa, args):
        vectors = product([rows, ceildiv(args.ow, args.stride_w), ceildiv(args.stride_w, isa.lanes)])
    strides = product([args.stride_d, args.stride_h, args.stride_w])
    return predict(transposed_depthwise_work(rows, vectors, ceildiv(args.taps, strides)), isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that :data:`SYMBOL` accesses: taps outside the image are not read."""
    a = ConvTransposeArgs.symbols()
    results = a.groups * a.cout
    x = (a.images, a.x_batch), (a.groups, a.x_channel), (a.d, a.x_depth), (a.h, a.x_row), (a.w, 1)
    y = (a.images, a.y_batch), (results, a.y_channel), (a.od, a.y_depth), (a.oh, a.y_row), (a.ow, 1)
    return (
        Extent(
            SYMBOL,
            ABI.args,
            ABI.ordered(
                x=Reach(4, x),
                w=dense(4, results, a.taps),
                bias=dense(4, results, optional=True),
                y=Reach(4, y, unhooked=True),
            ),
            grid=grid(a),
            scratch=scratch_bytes(isa, a),
            bounds=window_bounds(ABI.args)
            | stride_bounds(ABI.args, "x", "y")
            | within(SIZE, "pad_front", "pad_top", "pad_left")
            | within(STEP, "groups", "cout", "kd", "kh", "kw"),
            choices={"cin": (1,)},
            tiles=Tiles(a.images, results, a.pixels),
        ),
    )


def header(isa: Isa) -> str:
    """The generated header of ``depthwise_transpose.c``."""
    constants = f"""
#define BAND {_BAND} /* output rows of a unit */
"""
    return "\n".join([ABI.c_text(), constants, phases.c_text(isa)])

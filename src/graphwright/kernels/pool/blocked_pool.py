"""Max and average pooling of blocked f32 activations.

A vector holds the channels of a block, so no step shuffles lanes. An output row is computed in two steps, as
in ``pool``: the rows of its windows are reduced to one padded line in scratch, then the columns of each
window are reduced from that line. NaN propagates, as in NumPy.
"""

from __future__ import annotations

from typing import Final

from graphwright.cost.images import blocked_pool_work
from graphwright.cost.predict import predict
from graphwright.ir.symbols import Dim, ceildiv, maximum
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.arguments import Arguments
from graphwright.kernels.library.extent import SIZE, STEP, Extent, Reach, stride_bounds, within
from graphwright.kernels.library.windows import window_span
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

MAX: Final = "gw_max_pool_blocked_f32"
AVERAGE: Final = "gw_average_pool_blocked_f32"


@dataclass(frozen=True)
class BlockedPoolArgs(Arguments):
    """The arguments of both kernels. Strides are in elements. ``oh`` and ``ow`` already include ceil_mode.
    Trailing pads only limit the divisor of an average that counts padding. A window without elements is -inf
    (max) or 0 (average).
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


ABI: Final = Abi("blocked_pool", ("x", "y"), BlockedPoolArgs.names())


def grid(isa: Isa, args: BlockedPoolArgs) -> Dim:
    """The units: images, channel blocks, output rows (fastest)."""
    return args.images * ceildiv(args.channels, isa.lanes) * args.oh


def scratch_bytes(isa: Isa, args: BlockedPoolArgs) -> Dim:
    """The bytes of the padded line, then of a divisor per column."""
    reach = window_span(maximum(args.ow, 1), args.stride_w, args.kw, args.dilation_w)
    return isa.vector_bytes * maximum(reach, args.pad_left + args.w) + 4 * args.ow


def work_ns(isa: Isa, args: BlockedPoolArgs, average: bool = False) -> Dim:
    """The predicted time on one core, in nanoseconds: both steps combine vectors of a row."""
    vectors = args.kh * args.w + (args.kw + average) * args.ow
    pixels = args.h * args.w + args.oh * args.ow
    moved = 4 * isa.lanes * args.images * ceildiv(args.channels, isa.lanes) * pixels
    return predict(blocked_pool_work(isa.lanes, grid(isa, args), vectors, moved, average), isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that both kernels access."""
    a = BlockedPoolArgs.symbols()
    blocks, pixel = ceildiv(a.channels, isa.lanes), (isa.lanes, 1)
    x = Reach(4, ((a.images, a.x_n), (blocks, a.x_cb), (a.h, a.x_h), (a.w, isa.lanes), pixel))
    y = Reach(4, ((a.images, a.y_n), (blocks, a.y_cb), (a.oh, a.y_h), (a.ow, isa.lanes), pixel))
    sizes = ("kh", "kw", "pad_top", "pad_left", "pad_bottom", "pad_right")
    steps = ("stride_h", "stride_w", "dilation_h", "dilation_w")
    bounds = stride_bounds(ABI.args, "x", "y") | within(SIZE, *sizes) | within(STEP, *steps)
    return tuple(
        Extent(
            name,
            ABI.args,
            ABI.ordered(x=x, y=y),
            grid=grid(isa, a),
            scratch=scratch_bytes(isa, a),
            bounds=bounds,
        )
        for name in (MAX, AVERAGE)
    )


def header(isa: Isa) -> str:
    """The generated header of ``blocked_pool.c``."""
    return ABI.c_text()

"""Resizes height and width of blocked f32 activations: nearest, linear and cubic, as ONNX defines them.

The taps are those of ``resize``. A vector holds the channels of a block, so an output pixel is a weighted sum
of whole vectors for any scale: there are no gathers and no special cases.
"""

from __future__ import annotations

from typing import Final

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, ceildiv
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.arguments import Arguments
from graphwright.kernels.library.extent import BITS, Extent, Reach, stride_bounds, within
from graphwright.kernels.resize.resize import RECORDS, modes
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

NEAREST: Final = "gw_resize_nearest_blocked_f32"
LINEAR: Final = "gw_resize_linear_blocked_f32"
CUBIC: Final = "gw_resize_cubic_blocked_f32"

TAPS: Final[dict[str, int]] = {NEAREST: 1, LINEAR: 2, CUBIC: 4}
"""Taps per axis."""


@dataclass(frozen=True)
class BlockedResizeArgs(Arguments):
    """The arguments of all three kernels. Strides are in elements. ``scale_h``, ``scale_w`` and ``cubic_a``
    are the bits of doubles (``bits.double_bits``); a scale of 0 means the quotient of the sizes.
    """

    images: Dim
    channels: Dim
    coordinates: Dim
    """``resize.Coordinates``."""
    rounding: Dim
    """``resize.Rounding``, for nearest."""
    exclude_outside: Dim
    """0 or 1, for cubic."""
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


ABI: Final = Abi("blocked_resize", ("x", "y"), BlockedResizeArgs.names(), RECORDS)


def grid(isa: Isa, args: BlockedResizeArgs) -> Dim:
    """The number of units of work: images, blocks of channels, output rows (fastest)."""
    return args.images * ceildiv(args.channels, isa.lanes) * args.oh


def scratch_bytes(symbol: str, args: BlockedResizeArgs) -> Dim:
    """The bytes of offsets and weights of the taps of each column."""
    return args.ow * (12 * TAPS[symbol])


def work_ns(isa: Isa, symbol: str, args: BlockedResizeArgs) -> Dim:
    """The predicted time on one core, in nanoseconds: cycles per written and per read vector."""
    return predict(Work(cycles=grid(isa, args) * args.ow * (5 + 2 * TAPS[symbol] ** 2)), isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that the three kernels access."""
    a = BlockedResizeArgs.symbols()
    blocks = ceildiv(a.channels, isa.lanes)
    x = Reach(4, ((a.images, a.x_n), (blocks, a.x_cb), (a.h, a.x_h), (a.w * isa.lanes, 1)))
    y = Reach(4, ((a.images, a.y_n), (blocks, a.y_cb), (a.oh, a.y_h), (a.ow * isa.lanes, 1)))
    return tuple(
        Extent(
            name,
            ABI.args,
            ABI.ordered(x=x, y=y),
            grid=grid(isa, a),
            scratch=scratch_bytes(name, a),
            bounds=stride_bounds(ABI.args, "x", "y") | within(BITS, "cubic_a", "scale_h", "scale_w"),
        )
        for name in TAPS
    )


def header(isa: Isa) -> str:
    """The generated header of ``blocked_resize.c``."""
    return f"{ABI.c_text()}{modes()}"

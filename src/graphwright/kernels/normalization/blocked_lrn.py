"""Local response normalization of blocked f32 activations, across channels, as ONNX defines it.

y = x / (bias + alpha / size * sum of the squares of size adjacent channels)^beta (Krizhevsky et al., 2012). A
unit of the grid is a few pixels. Their squares are stored in scratch: all channels of a pixel are contiguous,
with zeros at both ends, so that unaligned loads read windows across lanes and blocks. The usual beta of 0.75
takes two square roots instead of a power.
"""

from __future__ import annotations

from typing import Final

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, ceildiv
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.arguments import Arguments
from graphwright.kernels.library.extent import BITS, Extent, Reach, stride_bounds, within
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa
from graphwright.targets.cpu.vmath import vmath

SYMBOL: Final = "gw_lrn_blocked_f32"


_PIXELS: Final = 16
"""Pixels per unit: 1 KiB of each block with AVX-512."""


@dataclass(frozen=True)
class BlockedLrnArgs(Arguments):
    """The arguments of the kernel. Strides are in elements.

    ``alpha`` (not yet divided by ``size``), ``beta`` and ``bias`` are the bits of doubles
    (``bits.double_bits``).
    """

    images: Dim
    channels: Dim
    h: Dim
    w: Dim
    size: Dim
    """Channels per window; it begins (size - 1) // 2 channels before its center."""
    alpha: Dim
    beta: Dim
    bias: Dim
    x_n: Dim
    x_cb: Dim
    x_h: Dim
    y_n: Dim
    y_cb: Dim
    y_h: Dim


ABI: Final = Abi("lrn", ("x", "y"), BlockedLrnArgs.names())


def grid(isa: Isa, args: BlockedLrnArgs) -> Dim:
    """The number of units of work: images, groups of pixels (fastest)."""
    return args.images * ceildiv(args.h * args.w, _PIXELS)


def scratch_bytes(isa: Isa, args: BlockedLrnArgs) -> Dim:
    """The bytes of the squares of all channels of a unit's pixels, padded with zeros."""
    return 4 * _PIXELS * (ceildiv(args.channels, isa.lanes) * isa.lanes + args.size - 1)


def work_ns(isa: Isa, args: BlockedLrnArgs) -> Dim:
    """The predicted time on one core, in nanoseconds: for each vector, the cycles of the power and one per
    channel of the window.
    """
    vectors = args.images * args.h * args.w * ceildiv(args.channels, isa.lanes)
    return predict(Work(cycles=vectors * (3 * isa.lanes // 2 + args.size)), isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that :data:`SYMBOL` accesses."""
    a = BlockedLrnArgs.symbols()
    blocks, pixels = ceildiv(a.channels, isa.lanes), (a.w * isa.lanes, 1)
    return (
        Extent(
            SYMBOL,
            ABI.args,
            ABI.ordered(
                x=Reach(4, ((a.images, a.x_n), (blocks, a.x_cb), (a.h, a.x_h), pixels)),
                y=Reach(4, ((a.images, a.y_n), (blocks, a.y_cb), (a.h, a.y_h), pixels)),
            ),
            grid=grid(isa, a),
            scratch=scratch_bytes(isa, a),
            bounds=stride_bounds(ABI.args, "x", "y") | within(BITS, "alpha", "beta", "bias"),
            at_least_0=(a.size - 1,),
        ),
    )


def header(isa: Isa) -> str:
    """The generated header of ``blocked_lrn.c``."""
    return "\n".join(
        [ABI.c_text(), f"#define PIXELS {_PIXELS} /* of a unit */\n", vmath(isa, ("sqrt", "pow"))]
    )

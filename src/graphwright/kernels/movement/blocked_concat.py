"""Copies channels of a blocked f32 value into the channels of another one: Concat, Split and Slice.

Called once per input of a Concat, or per output of a Split. If both positions are equal modulo VL, whole
vectors are copied. Otherwise, every vector of y combines the end of one vector of x with the beginning of the
vector in the next block. Only the lanes of the copied channels are written.
"""

from __future__ import annotations

from typing import Final

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, ceildiv, floordiv
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.arguments import Arguments
from graphwright.kernels.library.extent import Extent, Reach, stride_bounds
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

SYMBOL: Final = "gw_copy_channels_blocked_f32"


_CHUNK: Final = 1024
"""Pixels per unit: 64 KiB with AVX-512."""


@dataclass(frozen=True)
class CopyChannelsArgs(Arguments):
    """The arguments of the kernel. Strides are in elements, of images, channel blocks and rows."""

    images: Dim
    channels: Dim
    """The number of copied channels."""
    h: Dim
    w: Dim
    x_first: Dim
    """The first channel to read from x."""
    y_first: Dim
    """The first channel to write in y."""
    x_n: Dim
    x_cb: Dim
    x_h: Dim
    y_n: Dim
    y_cb: Dim
    y_h: Dim


ABI: Final = Abi("copy_channels", ("x", "y"), CopyChannelsArgs.names())


def grid(isa: Isa, args: CopyChannelsArgs) -> Dim:
    """The number of units of work: images, blocks of y that are written, chunks of pixels (fastest)."""
    blocks = ceildiv(args.y_first + args.channels, isa.lanes) - floordiv(args.y_first, isa.lanes)
    return args.images * blocks * ceildiv(args.h * args.w, _CHUNK)


def work_ns(isa: Isa, args: CopyChannelsArgs) -> Dim:
    """The predicted time on one core, in nanoseconds: half a cycle per element, each
    read and written once.
    """
    elements = args.images * args.h * args.w * args.channels
    return predict(Work(cycles=floordiv(elements, 2), moved=8 * elements), isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that :data:`SYMBOL` accesses: whole blocks."""
    a = CopyChannelsArgs.symbols()
    x_blocks, y_blocks = (ceildiv(first + a.channels, isa.lanes) for first in (a.x_first, a.y_first))
    pixels = (a.w * isa.lanes, 1)
    return (
        Extent(
            SYMBOL,
            ABI.args,
            ABI.ordered(
                x=Reach(4, ((a.images, a.x_n), (x_blocks, a.x_cb), (a.h, a.x_h), pixels)),
                y=Reach(4, ((a.images, a.y_n), (y_blocks, a.y_cb), (a.h, a.y_h), pixels)),
            ),
            grid=grid(isa, a),
            bounds=stride_bounds(ABI.args, "x", "y"),
        ),
    )


def header(isa: Isa) -> str:
    """The generated header of ``blocked_concat.c``."""
    return f"{ABI.c_text()}#define CHUNK {_CHUNK} /* pixels of a unit */\n"

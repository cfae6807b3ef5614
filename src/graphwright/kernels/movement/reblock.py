"""Converts row-major f32 images to channel blocks and back: [N, C, H, W] <-> [N, ceil(C / VL), H, W, VL].

A unit of the grid is a block of channels times a chunk of pixels. Squares of VL channels x VL pixels are
transposed in registers. The last square of a row overlaps the one before it, so that only rows shorter than a
vector need masks. Missing channels of a last block are written as zeros.
"""

from __future__ import annotations

from typing import Final

from graphwright.cost.images import reblock_work
from graphwright.cost.predict import predict
from graphwright.ir.symbols import Dim, ceildiv
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.arguments import Arguments
from graphwright.kernels.library.extent import Extent, Reach, stride_bounds
from graphwright.kernels.library.transpose import transpose
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

BLOCK: Final = "gw_block_f32"
"""Row-major to blocked."""
UNBLOCK: Final = "gw_unblock_f32"
"""Blocked to row-major."""


_CHUNK: Final = 1024
"""Pixels per unit: 64 KiB of blocked values with AVX-512."""


@dataclass(frozen=True)
class ReblockArgs(Arguments):
    """The arguments of both kernels. Strides are in elements; pixels of a row are contiguous."""

    images: Dim
    channels: Dim
    h: Dim
    w: Dim
    plain_n: Dim
    plain_c: Dim
    plain_h: Dim
    """``plain_*`` are the strides of images, channels and rows of the row-major operand."""
    blocked_n: Dim
    blocked_cb: Dim
    blocked_h: Dim
    """``blocked_*`` are the strides of images, channel blocks and rows of the blocked operand."""


ABI: Final = Abi("reblock", ("x", "y"), ReblockArgs.names())


def grid(isa: Isa, args: ReblockArgs) -> Dim:
    """The number of units of work: images, blocks of channels, chunks of pixels (fastest)."""
    return args.images * ceildiv(args.channels, isa.lanes) * ceildiv(args.h * args.w, _CHUNK)


def work_ns(isa: Isa, args: ReblockArgs) -> Dim:
    """The predicted time on one core, in nanoseconds."""
    planes = args.images * ceildiv(args.channels, isa.lanes)
    return predict(reblock_work(isa.lanes, planes, args.h * args.w), isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that both kernels access."""
    a = ReblockArgs.symbols()
    blocks = ceildiv(a.channels, isa.lanes)
    plain = ((a.images, a.plain_n), (a.channels, a.plain_c), (a.h, a.plain_h), (a.w, 1))
    blocked = ((a.images, a.blocked_n), (blocks, a.blocked_cb), (a.h, a.blocked_h), (a.w * isa.lanes, 1))
    operands = {BLOCK: (plain, blocked), UNBLOCK: (blocked, plain)}
    return tuple(
        Extent(
            name,
            ABI.args,
            ABI.ordered(x=Reach(4, touched[0]), y=Reach(4, touched[1])),
            grid=grid(isa, a),
            bounds=stride_bounds(ABI.args, "plain", "blocked"),
        )
        for name, touched in operands.items()
    )


def header(isa: Isa) -> str:
    """The generated header of ``reblock.c``."""
    return "\n".join([ABI.c_text(), f"#define CHUNK {_CHUNK} /* pixels of a unit */\n", transpose(isa)])

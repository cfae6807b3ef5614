"""Transposed 3-D convolution of f32 [N, C, D, H, W] by gathering: each output is computed once.

The outputs of a row whose columns are equal modulo the stride (a phase) read x with the same taps, at
adjacent columns. For each tap, they are a product [output channels, input channels] @ [input channels,
columns of x], computed by the register tile of GEMM. The phases of a tile are interleaved when it is stored.
"""

from __future__ import annotations

from typing import Final

from graphwright.cost.images import TRANSPOSED
from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, ceildiv, floordiv, product
from graphwright.ir.types import Layout
from graphwright.kernels.conv import phases
from graphwright.kernels.conv.arguments import ConvolutionArgs
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.extent import (
    SIZE,
    Extent,
    Reach,
    Tiles,
    dense,
    stride_bounds,
    window_bounds,
    within,
)
from graphwright.kernels.library.tile import TileShape
from graphwright.kernels.library.tile_tables import tiles
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

SYMBOL: Final = "gw_conv_transpose_f32"

BLOCK: Final = 12
"""Output channels that are contiguous in packed weights, for each tap and input channel."""
LAYOUT: Final = Layout((1, 2, 3, 0), ((1, BLOCK),), zero_padded=True)
"""For weights [Cin, Cout/groups, kd * kh, kw]: [blocks, kd * kh, kw, Cin, BLOCK] in memory."""
_FEW_ROWS: Final = 4
"""With fewer features, packing takes longer than the products."""
UNIT_COLUMNS: Final = 256
"""Columns of one unit of the grid, in units of the stride: a multiple of the columns of every tile."""


@dataclass(frozen=True)
class ConvTransposeArgs(ConvolutionArgs):
    """The arguments of the kernel. Strides are in elements; widths are contiguous. The sizes of the output
    include ``output_padding``.
    """

    x_batch: Dim
    x_channel: Dim
    x_depth: Dim
    x_row: Dim
    y_batch: Dim
    y_channel: Dim
    y_depth: Dim
    y_row: Dim
    act: Dim
    """0 none, 1 relu."""


ABI: Final = Abi("conv_transpose", ("x", "w", "bias", "y"), ConvTransposeArgs.names())
"""``w`` is in :data:`LAYOUT`; ``bias`` [groups * out_channels] may be absent; ``y`` is ignored if there is a
hook. The hook, or a null pointer, comes next.
"""


def tile_shape(isa: Isa) -> TileShape:
    """The largest tile: 12 x 2 accumulators fill 24 of 32 registers, 6 x 2 fill 12 of 16."""
    rows = BLOCK if isa.vector_bytes == 64 else BLOCK // 2
    return TileShape(rows=rows, vectors=2, a_row=1, a_k=BLOCK)


def grid(isa: Isa, args: ConvTransposeArgs) -> Dim:
    """The number of units: output rows of each image and group; wide rows are divided."""
    first = floordiv(args.pad_left, args.stride_w)
    last = floordiv(args.ow + args.pad_left - 1, args.stride_w) + 1
    parts = ceildiv(last - first, UNIT_COLUMNS)
    return product([args.images, args.groups, args.od, args.oh, parts])


def scratch_bytes(isa: Isa, args: ConvTransposeArgs) -> Dim:
    """The bytes of a tile by phases, of the interleaved tile, and of columns copied because taps read beyond
    the edges of x.
    """
    shape = tile_shape(isa)
    reach = floordiv((args.kw - 1) * args.dilation_w, args.stride_w)
    copied = args.kd * args.kh * args.cin * (reach + shape.columns(isa))
    return 4 * (args.stride_w * (2 * shape.rows * shape.columns(isa)) + copied)


def work_ns(isa: Isa, args: ConvTransposeArgs) -> Dim:
    """The predicted time on one core, in nanoseconds: products of small tiles, accumulated in the output."""
    rows = product([args.images, args.groups, args.cout])
    outputs = product([rows, args.od, args.oh, args.ow])
    pixels = product([args.d, args.h, args.w])
    taps = product([rows, pixels, args.kd, args.kh, args.kw])
    if isinstance(args.cout, int) and args.cout < _FEW_ROWS:
        cycles, efficiency = floordiv(7 * taps, 6) + 5 * outputs, TRANSPOSED
    else:
        cycles, efficiency = floordiv(taps, 8) + 2 * outputs, 50
    return predict(Work(fmas=taps * args.cin, efficiency=efficiency, cycles=cycles), isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that :data:`SYMBOL` accesses: taps outside the image are not read."""
    a = ConvTransposeArgs.symbols()
    channels, results = a.groups * a.cin, a.groups * a.cout
    x = (
        (a.images, a.x_batch),
        (channels, a.x_channel),
        (a.d, a.x_depth),
        (a.h, a.x_row),
        (a.w, 1),
    )
    rows = (a.od, a.y_depth), (a.oh, a.y_row)
    taps = a.taps
    return (
        Extent(
            SYMBOL,
            ABI.args,
            ABI.ordered(
                x=Reach(4, x),
                w=dense(4, ceildiv(a.cout, BLOCK) * BLOCK, taps, channels),
                bias=dense(4, results, optional=True),
                y=Reach(4, ((a.images, a.y_batch), (results, a.y_channel), *rows, (a.ow, 1)), unhooked=True),
            ),
            grid=grid(isa, a),
            scratch=scratch_bytes(isa, a),
            bounds=window_bounds(ABI.args)
            | stride_bounds(ABI.args, "x", "y")
            | within(SIZE, "pad_front", "pad_top", "pad_left"),
            tiles=Tiles(a.images, results, a.pixels),
        ),
    )


def header(isa: Isa) -> str:
    """The generated header of ``conv_transpose.c``."""
    shape = tile_shape(isa)
    constants = f"""
#define MR {shape.rows} /* rows of a tile */
#define NR {shape.columns(isa)} /* columns of a tile, before phases are interleaved */
#define UNIT_COLUMNS {UNIT_COLUMNS} /* columns of a unit of the grid */
#define BLOCK {BLOCK} /* output channels per block of w */
"""
    return "\n".join([ABI.c_text(), constants, tiles(shape, isa), phases.c_text(isa)])

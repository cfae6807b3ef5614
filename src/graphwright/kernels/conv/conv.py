"""3-D convolution: y = act(conv(x, w) + bias), f32, NCDHW in any memory order.

Implicit GEMM: a tile is some output channels times some output pixels. A unit of the grid is a block of
pixels and a few tiles of channels. For each block of input channels, the im2col panels of the pixels are
packed once (Chellapilla et al., "High Performance Convolutional Neural Networks for Document Processing",
2006). They are used for all channels of the unit and of later units of the same chunk, while packed weights
are streamed. The order of each sum depends only on sizes, so every division into chunks gives the same bits.
A 1-D convolution has d = h = 1, a 2-D convolution d = 1.
"""

from __future__ import annotations

from typing import Final

from graphwright.cost.images import im2col_work
from graphwright.cost.predict import predict
from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum
from graphwright.ir.types import Layout
from graphwright.kernels.conv.arguments import StridedConvolutionArgs
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.extent import (
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

SYMBOL: Final = "gw_conv_f32"


_UNITS: Final = 32
_MOST_PIXELS: Final = 1536
"""The most pixels per unit."""

_K_BLOCK: Final = 384
"""The most rows of a packed panel: whole input channels, at least one."""


@dataclass(frozen=True)
class ConvArgs(StridedConvolutionArgs):
    """The arguments of the kernel: the shape and strides, then how the work is divided."""

    unit_tiles: Dim
    """Tiles of output channels in a unit (:func:`unit_tiles`)."""
    block_panels: Dim
    """Panels of pixels in a unit (:func:`block_panels`)."""


ABI: Final = Abi("conv", ("x", "w", "bias", "y"), ConvArgs.names())
"""``w`` is packed in panels (:func:`weights_layout`); ``bias`` [groups * cout] may be absent; ``y`` is
ignored if there is a hook. The hook, or a null pointer, comes next; its rows are the output channels of all
groups, its columns the output pixels row by row.
"""


def tile_shape(isa: Isa) -> TileShape:
    """The largest tile: 8 x 3 accumulators fill 24 of 32 registers, 4 x 3 fill 12 of 16; most channel counts
    are multiples of 8.
    """
    rows = 8 if isa.vector_bytes == 64 else 4
    return TileShape(rows=rows, vectors=3, a_row=1, a_k=rows)


def panel_rows(isa: Isa) -> int:
    """Output channels per panel of packed weights (``mr``)."""
    return tile_shape(isa).rows


def weights_layout(isa: Isa) -> Layout:
    """The layout of packed weights [groups, Cout/groups, Cin/groups * kh * kw].

    If there is one group, or if Cout/groups is a multiple of ``mr``, these are the bytes of [Cout,
    Cin/groups, kh, kw] in ``Layout((0, 1, 2, 3), ((0, mr),))``, which divides axis 0 into blocks.
    """
    return Layout((0, 1, 2), ((1, panel_rows(isa)),), zero_padded=True)


def unit_tiles(isa: Isa, args: ConvArgs) -> Dim:
    """Tiles of output channels per unit: at least 64 channels, so that packing a panel costs little compared
    with using it; more if :data:`_UNITS` units remain for several threads.
    """
    rows = panel_rows(isa)
    tiles = ceildiv(args.cout, rows) * args.images * args.groups * _pixel_blocks(isa, args)
    return minimum(_run_tiles(isa), maximum(64 // rows, ceildiv(tiles, _UNITS)))


def _pixel_blocks(isa: Isa, args: ConvArgs) -> Dim:
    return ceildiv(args.pixels, args.block_panels * tile_shape(isa).columns(isa))


def _run_tiles(isa: Isa) -> int:
    """The most tiles that share packed panels, 512 output channels: the partial sums have room for these."""
    return 512 // panel_rows(isa)


def block_panels(isa: Isa, args: ConvArgs) -> Dim:
    """Panels of pixels per unit, at least 96 pixels: with fewer, the output would be written in short pieces.

    If sums are short, a unit has up to :data:`_MOST_PIXELS` pixels, as many as fill an eighth of the L2
    cache: hardware prefetches long pieces of the input and of the hook's operands. A unit has fewer if there
    would otherwise be less than :data:`_UNITS` units.
    """
    columns = tile_shape(isa).columns(isa)
    fitting = floordiv(isa.machine.l2.bytes // 8 // (4 * columns), maximum(args.cin * args.taps, 1))
    spread = floordiv(args.images * args.groups * args.pixels, _UNITS * columns)
    return maximum(96 // columns, minimum(minimum(fitting, spread), _MOST_PIXELS // columns))


def grid(isa: Isa, args: ConvArgs) -> Dim:
    """The number of units of work: images, groups, blocks of pixels, blocks of output channels (fastest)."""
    units = ceildiv(args.cout, args.unit_tiles * panel_rows(isa))
    return args.images * args.groups * _pixel_blocks(isa, args) * units


def scratch_bytes(isa: Isa, args: ConvArgs) -> Dim:
    """The bytes of packed panels, then of partial sums between blocks of input channels."""
    width, rows = tile_shape(isa).columns(isa), panel_rows(isa)
    taps = args.taps
    channels = minimum(args.cin, maximum(1, floordiv(_K_BLOCK, taps)))
    pixels = minimum(ceildiv(args.pixels, width), args.block_panels) * width
    sums = (
        minimum(args.cin - channels, 1) * minimum(ceildiv(args.cout, rows), _run_tiles(isa)) * rows * pixels
    )
    return 4 * (channels * taps * pixels + sums)


def work_ns(isa: Isa, args: ConvArgs) -> Dim:
    """The predicted time on one core, in nanoseconds."""
    pixels = args.images * args.groups * args.pixels
    return predict(im2col_work(isa.lanes, pixels, args.cout, args.cin * args.taps), isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that :data:`SYMBOL` accesses: taps outside the image are not read."""
    a = ConvArgs.symbols()
    pixels, rows = a.pixels, panel_rows(isa)
    x = ((a.images, a.x_n), (a.groups * a.cin, a.x_c), (a.d, a.x_d), (a.h, a.x_h), (a.w, a.x_w))
    y = ((a.images, a.y_n), (a.groups * a.cout, a.y_c), (a.od, a.y_d), (a.oh, a.y_h), (a.ow, a.y_w))
    return (
        Extent(
            SYMBOL,
            ABI.args,
            ABI.ordered(
                x=Reach(4, x),
                w=dense(4, a.groups * ceildiv(a.cout, rows) * rows, a.cin, a.taps),
                bias=dense(4, a.groups, a.cout, optional=True),
                y=Reach(4, y, unhooked=True),
            ),
            grid=grid(isa, a),
            scratch=scratch_bytes(isa, a),
            bounds=window_bounds(ABI.args)
            | stride_bounds(ABI.args, "x", "y")
            | within((1, _run_tiles(isa)), "unit_tiles")
            | within((1, _MOST_PIXELS // tile_shape(isa).columns(isa)), "block_panels"),
            tiles=Tiles(a.images, a.groups * a.cout, pixels),
        ),
    )


def header(isa: Isa) -> str:
    """The generated header of ``conv.c``."""
    shape = tile_shape(isa)
    constants = f"""
#define MR {shape.rows} /* output channels of a tile */
#define NR {shape.columns(isa)} /* output pixels of a tile, and of a panel */
#define K_BLOCK {_K_BLOCK}
#define RUN_TILES {_run_tiles(isa)}
"""
    return "\n".join([ABI.c_text(), constants, tiles(shape, isa)])

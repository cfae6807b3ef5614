"""Transposed 2-D convolution of f32 [N, C, H, W] with few features, by scattering.

The products of an input pixel with all taps of all features are one column of a matrix product, whose rows
fill the register tile of GEMM although there are few features. They are added to sums that are kept by phase,
the remainder of the column modulo the stride, so that additions are of whole vectors. A ring of rows holds
the sums that are not finished; the phases of a row are interleaved when it is stored. Units of the grid are
bands of output rows, some of which read the same input rows. (Dumoulin and Visin, "A guide to convolution
arithmetic for deep learning", 2016.)
"""

from __future__ import annotations

from typing import Final

from graphwright.cost.images import MOST_SCATTERED, scattered_transpose_work
from graphwright.cost.predict import predict
from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, product
from graphwright.ir.types import Layout
from graphwright.kernels.conv import phases
from graphwright.kernels.conv.arguments import Convolution2dArgs
from graphwright.kernels.conv.conv_transpose import BLOCK, tile_shape
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
from graphwright.kernels.library.tile_tables import tiles
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

SYMBOL: Final = "gw_scattered_transpose_f32"

LAYOUT: Final = Layout((1, 0), ((1, BLOCK),), zero_padded=True)
"""For weights [groups * cin, cout * kh * kw]: [blocks, groups * cin, BLOCK] in memory."""
_PRODUCTS: Final = 4096
"""Products that are computed before they are added: they stay in L1."""
_UNITS: Final = 8
"""The number of bands that is wanted for several threads."""
_HALOS: Final = 8
"""The fewest rows of a band, in units of the rows that it shares with the next one."""


@dataclass(frozen=True)
class ScatteredTransposeArgs(Convolution2dArgs):
    """The arguments of the kernel. Strides are in elements; rows are contiguous. ``oh`` and ``ow`` include
    ``output_padding``.
    """

    x_n: Dim
    x_c: Dim
    x_h: Dim
    y_n: Dim
    y_c: Dim
    y_h: Dim
    act: Dim
    """0 none, 1 relu."""

    @property
    def products(self) -> Dim:
        """The products of an input pixel."""
        return self.cout * self.kh * self.kw

    @property
    def row_groups(self) -> Dim:
        """Groups of stride_h output rows, from the one of the first row on."""
        return ceildiv(self.pad_top + self.oh, self.stride_h) - floordiv(self.pad_top, self.stride_h)

    def length(self, isa: Isa) -> Dim:
        """The elements of a row of sums of one phase."""
        columns = self.w + floordiv((self.kw - 1) * self.dilation_w, self.stride_w)
        needed = ceildiv(self.pad_left + self.ow, self.stride_w)
        return ceildiv(maximum(columns, needed), isa.lanes) * isa.lanes

    @property
    def ring(self) -> Dim:
        """The number of rows of sums that are kept: those that one input row adds to or finishes."""
        return (self.kh - 1) * self.dilation_h + self.stride_h

    @property
    def band_groups(self) -> Dim:
        """The row groups of a band: enough bands for several threads, unless they would share many rows."""
        halo = ceildiv((self.kh - 1) * self.dilation_h, self.stride_h)
        return maximum(maximum(1, _HALOS * halo), ceildiv(self.row_groups, _UNITS))


ABI: Final = Abi("scattered_transpose", ("x", "w", "bias", "y"), ScatteredTransposeArgs.names())
"""``w`` is in :data:`LAYOUT`; ``bias`` [groups * cout] may be absent; ``y`` is ignored if there is a hook.
The hook, or a null pointer, comes next.
"""


def grid(isa: Isa, args: ScatteredTransposeArgs) -> Dim:
    """The number of units: bands of each image and group."""
    return product([args.images, args.groups, ceildiv(args.row_groups, args.band_groups)])


def scratch_bytes(isa: Isa, args: ScatteredTransposeArgs) -> Dim:
    """The bytes of the products of a tile, of copied columns, of a row of the result, and of the sums."""
    row = product([args.cout, args.stride_w, args.length(isa)])
    columns = tile_shape(isa).columns(isa)
    width = columns * maximum(1, floordiv(_PRODUCTS, maximum(1, args.products) * columns))
    return 4 * (args.products * width + args.cin * columns + row + row * args.ring)


def work_ns(isa: Isa, args: ScatteredTransposeArgs) -> Dim:
    """The predicted time on one core, in nanoseconds."""
    columns = ceildiv(args.w, isa.lanes) * isa.lanes
    pixels = product([args.images, args.groups, args.h, columns])
    stored = product([args.images, args.groups, args.cout, args.oh, args.ow])
    work = scattered_transpose_work(isa.lanes, pixels, args.cin, args.products, stored)
    return predict(work, isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that :data:`SYMBOL` accesses."""
    a = ScatteredTransposeArgs.symbols()
    channels, results = a.groups * a.cin, a.groups * a.cout
    x = (a.images, a.x_n), (channels, a.x_c), (a.h, a.x_h), (a.w, 1)
    y = (a.images, a.y_n), (results, a.y_c), (a.oh, a.y_h), (a.ow, 1)
    return (
        Extent(
            SYMBOL,
            ABI.args,
            ABI.ordered(
                x=Reach(4, x),
                w=dense(4, ceildiv(a.products, BLOCK) * BLOCK, channels),
                bias=dense(4, results, optional=True),
                y=Reach(4, y, unhooked=True),
            ),
            grid=grid(isa, a),
            scratch=scratch_bytes(isa, a),
            bounds=window_bounds(ABI.args)
            | stride_bounds(ABI.args, "x", "y")
            | within(SIZE, "pad_top", "pad_left")
            | within((0, MOST_SCATTERED), "kw"),
            tiles=Tiles(a.images, results, a.oh * a.ow),
        ),
    )


def header(isa: Isa) -> str:
    """The generated header of ``scattered_transpose.c``."""
    shape = tile_shape(isa)
    constants = f"""
#define MR {shape.rows} /* rows of a tile */
#define NR {shape.columns(isa)} /* columns of a tile */
#define BLOCK {BLOCK} /* rows per block of w */
#define MOST_TAPS {MOST_SCATTERED} /* of a row of a window */
#define PRODUCTS {_PRODUCTS} /* about this many products are added at once */
#define UNITS {_UNITS} /* wanted bands */
#define HALOS {_HALOS} /* the fewest rows of a band, in units of shared rows */
"""
    return "\n".join([ABI.c_text(), constants, tiles(shape, isa), phases.c_text(isa)])

"""Winograd convolution, 3x3 with stride 1: y = act(conv(x, w) + bias + residual), f32, blocked activations.

An output tile of m x m pixels takes (m + 2)^2 products per pair of channels, while direct convolution takes 9
m^2 (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015). F(4x4) interpolates at 0,
+-sqrt(1/2), +-sqrt(2) and infinity. Its rms error is twice that of direct convolution; with the points 1 and
2 it would be four times (on points: Barabasz et al., "Error Analysis and Improving the Accuracy of Winograd
Convolution for Deep Neural Networks", 2020; Alam et al., "Winograd Convolution for Deep Neural Networks:
Efficient Point Selection", 2022). F(2x2), at 0, +-sqrt(1/2) and infinity, is more accurate than direct
convolution. With F(4x4), tiles in the last row and column that have only 2 pixels left use the points of
F(2x2). All tiles share the transformed weights, as factors that depend on the set of points are in the
transforms of input and output.

With a dilation of d, the pixels whose coordinates are equal modulo d form d^2 images without dilation
(phases), which are read and written in place.

A unit of the grid is a block of tiles of one phase of an image times some output channels. The transformed
input is stored in scratch as (m + 2)^2 planes; each plane is multiplied by its weight matrix, and the
products are transformed back. Weights are packed in the order in which they are read. For F(4x4), those at
+-sqrt(2) in the horizontal direction are computed from the other four points, since products of few tiles
are bound by reading weights. Units of one block in a chunk share the transformed input. Every sum runs over
the channels in order, for any division into chunks.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum
from graphwright.kernels.conv.arguments import BlockedOperandArgs
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.arguments import Arguments
from graphwright.kernels.library.extent import (
    BITS,
    PAD,
    STEP,
    Extent,
    Reach,
    Tiles,
    dense,
    stride_bounds,
    within,
)
from graphwright.kernels.winograd.winograd_tile import K_RUN, product_rows, product_vectors, products
from graphwright.kernels.winograd.winograd_transforms import ROOT, STORED
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

SYMBOLS: Final = {4: "gw_winograd4_f32", 2: "gw_winograd2_f32"}
"""The kernel for each m."""


@dataclass(frozen=True)
class _Sizes(Arguments):
    """The first arguments. Trailing pads follow from oh and ow."""

    images: Dim
    cin: Dim
    cout: Dim
    h: Dim
    w: Dim
    oh: Dim
    ow: Dim
    pad_top: Dim
    pad_left: Dim
    dilation: Dim
    """Of both axes; if it is not 1, there is no hook."""


@dataclass(frozen=True)
class WinogradArgs(BlockedOperandArgs, _Sizes):
    """The arguments of the kernel: sizes, strides, then how tiles are divided among units."""

    block_tiles: Dim
    """The most tiles per block, and groups of up to three output channel blocks per unit: see
    :func:`blocking`.
    """
    unit_groups: Dim

    @property
    def phases(self) -> Dim:
        """The images of phases: see the module."""
        return self.images * self.dilation * self.dilation

    @property
    def height(self) -> Dim:
        """The rows of the result of a phase."""
        return ceildiv(self.oh, self.dilation)

    @property
    def width(self) -> Dim:
        """The columns of the result of a phase."""
        return ceildiv(self.ow, self.dilation)


ABI: Final = Abi("winograd", ("x", "w", "bias", "residual", "y"), WinogradArgs.names())
"""``w`` is transformed (module ``winograd_transforms``); ``bias`` [channel blocks * VL] and ``residual``
(laid out as y) may be absent; ``y`` is ignored if there is a hook. The hook, or a null pointer, comes next; a
tile is some pixels (rows) of one channel block (columns), its batch is the image times the channel blocks,
plus the block.
"""


_RUN: Final = 14
"""Tiles of a row that are transformed together."""

_PLANES_SHARE: Final = 70
"""The percentage of the L2 cache that the planes of a block take."""
_BLOCK_TILES: Final = 56
"""The most tiles per block."""
_UNIT_CHANNELS: Final = 256
"""The most output channels per unit."""
_FEW_BLOCKS: Final = 4
"""With fewer blocks of tiles than this, two threads are not loaded evenly."""


def tiles(m: int, args: WinogradArgs) -> Dim:
    """The number of output tiles of a phase of an image."""
    return ceildiv(args.height, m) * ceildiv(args.width, m)


def output_groups(isa: Isa, cout: Dim) -> Dim:
    """The number of groups of output channel blocks."""
    return ceildiv(ceildiv(cout, isa.lanes), product_vectors(isa))


def grid(m: int, isa: Isa, args: WinogradArgs) -> Dim:
    """The number of units of work: phases of images, blocks of tiles, groups of output channels (fastest)."""
    blocks = ceildiv(tiles(m, args), args.block_tiles)
    return args.phases * blocks * ceildiv(output_groups(isa, args.cout), args.unit_groups)


def _plane(elements: Dim) -> Dim:
    """Elements between planes: an odd number of cache lines, so that planes do not alias in the cache."""
    return (2 * floordiv(elements, 32) + 3) * 16


def scratch_bytes(m: int, isa: Isa, args: WinogradArgs) -> Dim:
    """The bytes of the planes of a block's input, of the planes of its products with a group of outputs, and
    of the weights at two computed points.
    """
    rows = product_rows(isa)
    inputs = _plane(ceildiv(args.block_tiles, rows) * rows * ceildiv(args.cin, K_RUN) * K_RUN)
    products = _plane(args.block_tiles * product_vectors(isa) * isa.lanes)
    weights = (m + 2 - STORED) * args.cin * product_vectors(isa) * isa.lanes
    return 4 * ((m + 2) ** 2 * (inputs + products) + weights)


class Conv3x3(NamedTuple):
    """The sizes of a convolution that Winograd's forms can compute."""

    images: Dim
    cin: int
    cout: int
    oh: Dim
    ow: Dim
    dilation: int = 1

    @property
    def of_phases(self) -> Conv3x3:
        """The phases as images without dilation."""
        images, cin, cout, oh, ow, d = self
        return Conv3x3(images * d * d, cin, cout, ceildiv(oh, d), ceildiv(ow, d))


def blocking(m: int, isa: Isa, conv: Conv3x3) -> tuple[Dim, Dim]:
    """``block_tiles`` and ``unit_groups``, which depend only on sizes. A block has as many tiles as the L2
    cache holds planes for; or more, if rereading the planes for each group of outputs moves fewer bytes than
    rereading the weights for each block. If there are few blocks, each is divided into two units, for two
    threads.
    """
    images, cin, cout, oh, ow, _ = conv.of_phases
    width = product_vectors(isa) * isa.lanes
    groups, planes = -(-cout // width), 4 * (m + 2) ** 2
    room = isa.machine.l2.bytes * _PLANES_SHARE // 100
    fitting = min(max(room // (planes * (cin + width)), 1), _BLOCK_TILES)
    weights = planes * cin * cout  # bytes read or computed
    many = weights // _BLOCK_TILES + groups * planes * cin < weights // fitting
    most = _BLOCK_TILES if many else fitting
    count = ceildiv(oh, m) * ceildiv(ow, m)
    blocks = maximum(1, ceildiv(count, most))
    whole = min(groups, -(-_UNIT_CHANNELS // width))
    unit = minimum(whole, maximum(-(-groups // 2), whole * floordiv(images * blocks, _FEW_BLOCKS)))
    return maximum(1, ceildiv(count, blocks)), unit


def dense_args(m: int, isa: Isa, conv: Conv3x3, pads: tuple[int, int, int, int]) -> WinogradArgs:
    """The arguments for dense operands without an activation; ``pads``: top, left, bottom, right."""
    _, cin, cout, oh, ow, dilation = conv
    h, w = oh + 2 * dilation - pads[0] - pads[2], ow + 2 * dilation - pads[1] - pads[3]
    block_tiles, unit_groups = blocking(m, isa, conv)
    x_strides = _dense_strides(isa, cin, h, w)
    y_strides = _dense_strides(isa, cout, oh, ow)
    return WinogradArgs(
        conv.images, cin, cout, h, w, oh, ow, pads[0], pads[1], dilation, *x_strides, *y_strides, *y_strides,
        0, 0, 0, block_tiles, unit_groups,
    )  # fmt: skip


def _dense_strides(isa: Isa, channels: int, h: Dim, w: Dim) -> tuple[Dim, Dim, Dim]:
    """The strides of images, channel blocks and rows."""
    row = w * isa.lanes
    return -(-channels // isa.lanes) * h * row, h * row, row


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that both kernels access: pixels outside the image are not read."""
    return tuple(_extent(m, isa) for m in SYMBOLS)


def _extent(m: int, isa: Isa) -> Extent:
    a = WinogradArgs.symbols()
    inputs, outputs = ceildiv(a.cin, isa.lanes), ceildiv(a.cout, isa.lanes)
    pixels = (a.ow * isa.lanes, 1)
    x = ((a.images, a.x_n), (inputs, a.x_cb), (a.h, a.x_h), (a.w * isa.lanes, 1))
    residual = ((a.images, a.r_n), (outputs, a.r_cb), (a.oh, a.r_h), pixels)
    y = ((a.images, a.y_n), (outputs, a.y_cb), (a.oh, a.y_h), pixels)
    return Extent(
        SYMBOLS[m],
        ABI.args,
        ABI.ordered(
            x=Reach(4, x),
            w=dense(4, (m + 2) * STORED, a.cin, outputs * isa.lanes),
            bias=dense(4, outputs * isa.lanes, optional=True),
            residual=Reach(4, residual, optional=True),
            y=Reach(4, y, unhooked=True),
        ),
        grid=grid(m, isa, a),
        scratch=scratch_bytes(m, isa, a),
        bounds=stride_bounds(ABI.args, "x", "r", "y")
        | within(PAD, "pad_top", "pad_left")
        | within(STEP, "dilation")
        | within(BITS, "lo", "hi"),
        at_least_0=(a.block_tiles - 1, a.unit_groups - 1),
        tiles=Tiles(a.images * outputs, a.oh * a.ow, isa.lanes),
    )


def header(isa: Isa) -> str:
    """The generated header of ``winograd.c``."""
    constants = f"""
#define STORED {STORED} /* points of a line whose weights are packed */
#define RUN {_RUN} /* tiles of a row that are transformed at once */
#define A {ROOT:.9g}f
#define B {2 * ROOT:.9g}f
"""
    return "\n".join([ABI.c_text(), constants, products(isa)])

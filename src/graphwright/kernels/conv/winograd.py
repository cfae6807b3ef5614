"""Winograd convolution, 3x3 with stride 1: y = act(conv(x, w) + bias + residual), f32, blocked activations.

An output tile of m x m pixels takes (m + 2)^2 products per pair of channels where direct convolution takes
9 m^2 (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015). F(4x4) interpolates at 0,
+-sqrt(1/2), +-sqrt(2) and infinity, which doubles direct's rms error where the points 1 and 2 make it four
times as large (on points: Barabasz et al., "Error Analysis and Improving the Accuracy of Winograd Convolution
for Deep Neural Networks", 2020; Alam et al., "Winograd Convolution for Deep Neural Networks: Efficient Point
Selection", 2022). F(2x2) at 0, +-sqrt(1/2) and infinity is more exact than direct.

The last row and column of F(4x4)'s tiles have 2 pixels where no more are left, and take the points of
F(2x2) alone. What depends on the set of points stands in the transforms of the input and of the products, so
that all tiles share their weights.

A unit of the grid is a block of tiles of one image times some output channels: the input's transform goes
to scratch as (m + 2)^2 planes, each plane is multiplied with its matrix of weights, and the products are
transformed back. Weights lie in the order in which they are read; F(4x4)'s at +-sqrt(2) in the horizontal
direction are made of those at the other four points, since few tiles meet each weight and wait for it. Units
of one block in a chunk share the transformed input. Every sum runs over the channels in order, whatever the
chunking.
"""

from __future__ import annotations

from typing import Final

from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum, symbol
from graphwright.kernels.conv.arguments import BlockedOperandArgs
from graphwright.kernels.conv.winograd_tile import K_RUN, product_rows, product_vectors, products
from graphwright.kernels.conv.winograd_transforms import ROOT, STORED
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.arguments import Arguments
from graphwright.kernels.library.extent import BITS, PAD, Extent, Reach, Tiles, dense, stride_bounds, within
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

SYMBOLS: Final = {4: "gw_winograd4_f32", 2: "gw_winograd2_f32"}
"""The kernel of each m."""


@dataclass(frozen=True)
class _Sizes(Arguments):
    """The first args. Pads at the end follow from oh and ow."""

    images: Dim
    cin: Dim
    cout: Dim
    h: Dim
    w: Dim
    oh: Dim
    ow: Dim
    pad_top: Dim
    pad_left: Dim


@dataclass(frozen=True)
class WinogradArgs(BlockedOperandArgs, _Sizes):
    """The kernel's args: sizes, then strides, then how tiles are shared out."""

    block_tiles: Dim
    """Tiles of a block at most, and groups of up to three output channel blocks of a unit: see
    :func:`blocking`."""
    unit_groups: Dim


ABI: Final = Abi("winograd", ("x", "w", "bias", "residual", "y"), WinogradArgs.names())
"""``w`` transformed (module ``winograd_transforms``); ``bias`` [channel blocks * VL] and ``residual`` (as y)
may be absent; ``y`` is ignored when there is a hook. The hook, or a null pointer, comes next; a tile is some
pixels (rows) of one channel block (columns), its batch the image times the channel blocks plus the block."""


_RUN: Final = 14
"""Tiles of a row that are transformed at once."""

_PLANES_SHARE: Final = 70
"""What a block's planes take of the L2 cache, in percent."""
_BLOCK_TILES: Final = 56
"""Tiles of a block at most."""
_UNIT_CHANNELS: Final = 256
"""Output channels of a unit at most."""
_FEW_BLOCKS: Final = 4
"""Fewer blocks of tiles than this do not occupy two threads evenly."""


def tiles(m: int, args: WinogradArgs) -> Dim:
    """Output tiles of an image."""
    return ceildiv(args.oh, m) * ceildiv(args.ow, m)


def output_groups(isa: Isa, cout: Dim) -> Dim:
    """Groups of output channel blocks."""
    return ceildiv(ceildiv(cout, isa.lanes), product_vectors(isa))


def grid(m: int, isa: Isa, args: WinogradArgs) -> Dim:
    """The number of units of work: images, blocks of tiles, groups of output channels (fastest)."""
    blocks = ceildiv(tiles(m, args), args.block_tiles)
    return args.images * blocks * ceildiv(output_groups(isa, args.cout), args.unit_groups)


def _plane(elements: Dim) -> Dim:
    """Elements from one plane to the next: an odd number of cache lines, so that planes do not alias."""
    return (2 * floordiv(elements, 32) + 3) * 16


def scratch_bytes(m: int, isa: Isa, args: WinogradArgs) -> Dim:
    """Planes of a block's input and of its products with a group of outputs; weights of two more."""
    rows = product_rows(isa)
    inputs = _plane(ceildiv(args.block_tiles, rows) * rows * ceildiv(args.cin, K_RUN) * K_RUN)
    products = _plane(args.block_tiles * product_vectors(isa) * isa.lanes)
    weights = (m + 2 - STORED) * args.cin * product_vectors(isa) * isa.lanes
    return 4 * ((m + 2) ** 2 * (inputs + products) + weights)


def blocking(m: int, isa: Isa, images: Dim, cin: int, cout: int, oh: Dim, ow: Dim) -> tuple[Dim, Dim]:
    """``block_tiles`` and ``unit_groups``, by sizes alone.

    Planes of as many tiles as fit the L2 cache; of more, if reading their planes again for each group of
    outputs takes fewer bytes than reading the weights again for each block. A few blocks make two units each,
    that two threads have work.
    """
    width = product_vectors(isa) * isa.lanes
    groups, planes = -(-cout // width), 4 * (m + 2) ** 2
    room = isa.machine.l2.bytes * _PLANES_SHARE // 100
    fitting = min(max(room // (planes * (cin + width)), 1), _BLOCK_TILES)
    weights = planes * cin * cout  # read or made
    many = weights // _BLOCK_TILES + groups * planes * cin < weights // fitting
    most = _BLOCK_TILES if many else fitting
    count = ceildiv(oh, m) * ceildiv(ow, m)
    blocks = maximum(1, ceildiv(count, most))
    whole = min(groups, -(-_UNIT_CHANNELS // width))
    unit = minimum(whole, maximum(-(-groups // 2), whole * floordiv(images * blocks, _FEW_BLOCKS)))
    return maximum(1, ceildiv(count, blocks)), unit


def dense_args(
    m: int, isa: Isa, images: Dim, cin: int, cout: int, oh: Dim, ow: Dim, *,
    pads: tuple[int, int, int, int] = (0, 0, 0, 0), act: int = 0, lo: int = 0, hi: int = 0,
) -> WinogradArgs:  # fmt: skip
    """The args for dense operands; ``pads``: top, left, bottom, right; ``lo``, ``hi``: bits of an f32."""
    h, w = oh + 2 - pads[0] - pads[2], ow + 2 - pads[1] - pads[3]
    block_tiles, unit_groups = blocking(m, isa, images, cin, cout, oh, ow)
    x_strides = _dense_strides(isa, cin, h, w)
    y_strides = _dense_strides(isa, cout, oh, ow)
    return WinogradArgs(
        images, cin, cout, h, w, oh, ow, pads[0], pads[1], *x_strides, *y_strides, *y_strides,
        act, lo, hi, block_tiles, unit_groups,
    )  # fmt: skip


def _dense_strides(isa: Isa, channels: int, h: Dim, w: Dim) -> tuple[Dim, Dim, Dim]:
    """From one image, channel block and row to the next."""
    row = w * isa.lanes
    return -(-channels // isa.lanes) * h * row, h * row, row


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that both kernels access: pixels outside the image are not read."""
    return tuple(_extent(m, isa) for m in SYMBOLS)


def _extent(m: int, isa: Isa) -> Extent:
    a = WinogradArgs(*map(symbol, WinogradArgs.names()))
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

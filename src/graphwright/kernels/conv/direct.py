"""Direct convolution with a channel-blocked result: y = act(conv(x, w) + bias + residual), f32.

The input is channel-blocked as well, or planar (for the first layer, which has few channels). Tiles of pixels
times output blocks (module ``blocked_tile``) loop over all taps and channels while their accumulators stay in
registers. A unit of the grid is a band of output pixels and a few output blocks. Its input stays in the L2
cache while weights are streamed; large weights are prefetched to L2. Tiles read a blocked input in place if
only the first and the last pixel of a row touch the padding, and the stride between columns is 1 or 2.
Otherwise the unit copies the rows of its band to scratch, padded with zeros, and for larger strides with
columns sorted by their remainder, so that the pixels of a tap are adjacent. Taps above and below the image
are skipped. If the weights exceed the cache, the input channels are processed in blocks, with partial sums in
scratch. Bands, tiles and channel blocks depend only on sizes, so every division into chunks gives the same
bits.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import Final

from graphwright.cost.images import DIRECT, PLANAR, direct_work
from graphwright.cost.machine import FMA_SUMS
from graphwright.cost.predict import predict
from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum, mod
from graphwright.kernels.conv.arguments import Convolution2dArgs
from graphwright.kernels.conv.blocked_tile_tables import STEPS, families, widest
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.extent import (
    BITS,
    STEP,
    Extent,
    Reach,
    Tiles,
    dense,
    stride_bounds,
    window_bounds,
    within,
)
from graphwright.kernels.library.tile import CHAIN
from graphwright.kernels.library.transpose import transpose
from graphwright.kernels.movement import strided
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa

SYMBOL: Final = "gw_direct_f32"
"""Channel-blocked input."""
PLANAR_SYMBOL: Final = "gw_direct_planar_f32"
"""Planar input with any strides."""
NHWC_SYMBOL: Final = "gw_direct_nhwc_f32"
"""Channels-last x and y, in which the channels of a group fill whole blocks; with :data:`PLANAR_NHWC_SYMBOL`
only y is channels last.
"""
PLANAR_NHWC_SYMBOL: Final = "gw_direct_planar_nhwc_f32"


@dataclass(frozen=True)
class DirectArgs(Convolution2dArgs):
    """The arguments of the kernel. Strides are in elements."""

    x_n: Dim
    x_c: Dim
    """The stride of channel blocks, or of channels if x is planar."""
    x_h: Dim
    x_w: Dim
    """VL; any stride if x is planar."""
    r_n: Dim
    r_c: Dim
    r_h: Dim
    y_n: Dim
    y_c: Dim
    y_h: Dim
    y_w: Dim
    """The stride of pixels: VL (1 if y is planar), or more if other pixels are interleaved."""
    y_lanes: Dim
    """VL, or 1 if y is planar. Then y_c is the stride of channels, and there is no residual."""
    split_h: Dim
    """Rows of y per row of output, for a transposed convolution whose windows do not overlap. The output
    blocks (channels if y is planar) are those of the first row, for all its columns, then those of the next
    row. y_h is ``split_h`` rows of y, y_w is ``split_w`` pixels; there is no residual and no hook.
    """
    split_w: Dim
    act: Dim
    """0 none, 1 relu, 2 clip to lo and hi."""
    lo: Dim
    """The bits of an f32, like hi."""
    hi: Dim


ABI: Final = Abi("direct", ("x", "w", "bias", "residual", "y"), DirectArgs.names())
"""``w`` is in blocks of VL output channels; for :data:`SYMBOL` also in blocks of VL input channels, which are
the outer ones (OIHW16i16o). ``bias`` [channel blocks * VL] and ``residual`` (laid out as y) may be absent. If
there is a hook, ``y`` is absent, or is where blocked tiles are stored and where the hook stores its result.
The hook, or a null pointer, comes next. A tile is some pixels (rows) of one channel block (columns); its
batch is the image times the channel blocks of all groups, plus the block. If y is planar, a tile is some
channels (rows) and pixels (columns) of an image (batch); if y is channels last, some pixels (rows) and
channels (columns) of an image (batch).
"""


KEPT: Final = 512
"""The number of convolutions whose blocking is cached: models repeat layers."""

_MIN_COLUMNS: Final = 112
"""The fewest columns that a row is cut into."""

_MIN_PIXELS: Final = 56
"""The fewest pixels of a band that is divided for several threads."""

_HELD: Final = 128
"""The pixels of a row, times output blocks, that are collected in L1 for a call of a hook: each call has a
fixed cost.
"""

_UNITS: Final = 8
"""With fewer units than this, bands and units are divided, so that several threads have work."""

_PART: Final = 1024
"""Taps times input channels per channel block: the weights of four output blocks take 256 KB."""


def _band_bytes(isa: Isa) -> int:
    """The bytes of a band's input: the L2 cache also holds weights of two output blocks, and some output."""
    return isa.machine.l2.bytes // 2


def unit_blocks(isa: Isa) -> int:
    """Output blocks per unit, 48 channels, if there are enough units; the last unit takes the rest."""
    return 48 // isa.lanes


def _wide_units(isa: Isa, args: DirectArgs) -> Dim:
    """The number of units of :func:`unit_blocks` that share a band."""
    return maximum(1, floordiv(ceildiv(args.cout, isa.lanes), unit_blocks(isa)))


@lru_cache(maxsize=KEPT)
def _units(isa: Isa, args: DirectArgs) -> Dim:
    """The number of units that share a band. A unit has one output block if there would otherwise be fewer
    than :data:`_UNITS` units.

    A chunk of several such units computes their blocks in one tile. Its results are the same only if a tile
    of one block does not split its sums either.
    """
    wide, (rows, columns) = _wide_units(isa, args), _bands(isa, args)
    missing = _UNITS - args.images * args.groups * rows * columns * wide
    narrowest = floordiv(args.ow, maximum(1, columns))
    whole = floordiv(narrowest, maximum(1, ceildiv(narrowest, widest(isa)[0]))) - (FMA_SUMS - 1)
    split = minimum(1, maximum(0, missing)) * minimum(1, maximum(0, whole))
    return wide + split * maximum(0, ceildiv(args.cout, isa.lanes) - wide)


def _read(taps: Dim, stride: Dim) -> Dim:
    """The number of rows (or columns) that a window reads of each ``stride``: one if it has one tap."""
    return 1 + minimum(1, maximum(0, taps - 1)) * (stride - 1)


@lru_cache(maxsize=KEPT)
def _bands(isa: Isa, args: DirectArgs) -> tuple[Dim, Dim]:
    """The numbers of bands that rows and columns of an image are cut into."""
    tall = _read(args.kh, args.stride_h)
    # columns in between occupy the cache whether they are read or not
    row = maximum(1, 4 * args.cin * args.stride_w)
    columns = ceildiv(args.ow, maximum(_MIN_COLUMNS, floordiv(_band_bytes(isa), row * maximum(1, args.kh))))
    width = ceildiv(args.ow, maximum(1, columns))
    fitting = maximum(1, floordiv(_band_bytes(isa), maximum(1, row * tall * width)))
    others = args.images * args.groups * columns * _wide_units(isa, args)
    wished = minimum(ceildiv(_UNITS, maximum(1, others)), maximum(1, floordiv(args.oh * width, _MIN_PIXELS)))
    return minimum(args.oh, maximum(ceildiv(args.oh, fitting), wished)), columns


def grid(isa: Isa, args: DirectArgs) -> Dim:
    """The number of units of work: images, groups, bands of rows, bands of columns, output blocks
    (fastest).
    """
    rows, columns = _bands(isa, args)
    return args.images * args.groups * rows * columns * _units(isa, args)


def scratch_bytes(isa: Isa, args: DirectArgs) -> Dim:
    """The bytes of tap offsets, of the copied band, and of partial sums."""
    return _scratch_bytes(isa, args, isa.lanes, _copies(args, isa.lanes))


def planar_scratch_bytes(isa: Isa, args: DirectArgs) -> Dim:
    """:func:`scratch_bytes` of :data:`PLANAR_SYMBOL`."""
    return _scratch_bytes(isa, args, 1, _copies(args, 1))


def pairs_scratch_bytes(isa: Isa, args: DirectArgs) -> Dim:
    """:func:`scratch_bytes` where each band is copied, since its channels become pairs."""
    return _scratch_bytes(isa, args, isa.lanes, 1)


def most_scratch_bytes(isa: Isa, args: DirectArgs) -> Dim:
    """The scratch bytes that suffice for any number of images and of rows up to ``oh``."""
    return _scratch_of(isa, args, isa.lanes, _copies(args, isa.lanes), args.oh, args.ow)


def _copies(args: DirectArgs, lanes: int) -> Dim:
    """0 if windows have one column and read the image in place; 1 if bands may be copied."""
    before, behind = args.pad_left, (args.ow - 1) * args.stride_w - args.pad_left - args.w + 1
    padding = maximum(0, before) + maximum(0, behind)
    strides = maximum(args.x_w - lanes, lanes - args.x_w) + maximum(0, args.stride_w - STEPS[-1])
    return minimum(1, args.kw - 1 + padding + strides)


@lru_cache(maxsize=KEPT)
def _scratch_bytes(isa: Isa, args: DirectArgs, lanes: int, copies: Dim) -> Dim:
    row_bands, column_bands = _bands(isa, args)
    rows = ceildiv(args.oh, maximum(1, row_bands))
    columns = ceildiv(args.ow, maximum(1, column_bands))
    return _scratch_of(isa, args, lanes, copies, rows, columns)


def _scratch_of(isa: Isa, args: DirectArgs, lanes: int, copies: Dim, rows: Dim, columns: Dim) -> Dim:
    """The scratch bytes for bands of ``rows`` and ``columns``."""
    taps = args.kh * args.kw
    step = _read(args.kh, args.stride_h)
    band_rows = (rows - 1) * step + 1
    tap_rows = 1 if args.dilation_h == 1 else minimum(args.dilation_h, band_rows)
    copied_rows = band_rows + (args.kh - 1) * tap_rows
    plane = columns + floordiv((args.kw - 1) * args.dilation_w, args.stride_w)
    planes = _read(args.kw, args.stride_w)
    copied = copies * ceildiv(args.cin, lanes) * lanes * copied_rows * planes * plane
    part = lanes * maximum(1, floordiv(_PART, maximum(1, taps * lanes)))
    waits = minimum(1, floordiv(maximum(1, args.cin) - 1, part))  # 1 if there are several channel blocks
    return 64 * ceildiv(2 * taps, 8) + 4 * (copied + len(widest(isa)) * isa.lanes * waits * rows * columns)


def work_ns(isa: Isa, args: DirectArgs, planar: bool = False) -> Dim:
    """The predicted time on one core, in nanoseconds."""
    pixels, groups = args.images * args.oh * args.ow, args.groups
    taps = args.cin * args.kh * args.kw
    work = direct_work(isa.lanes, pixels, args.cout, taps, PLANAR if planar else DIRECT)
    return groups * predict(work, isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that both kernels access: taps outside the image are not read."""
    a = DirectArgs.symbols()
    copied, planar = scratch_bytes(isa, a), planar_scratch_bytes(isa, a)
    return (
        extent(isa, SYMBOL, isa.lanes, copied),
        extent(isa, PLANAR_SYMBOL, 1, planar),
        extent(isa, NHWC_SYMBOL, isa.lanes, copied, nhwc=True),
        extent(isa, PLANAR_NHWC_SYMBOL, 1, planar, nhwc=True),
    )


def extent(isa: Isa, name: str, lanes: int, scratch: Dim, *, nhwc: bool = False) -> Extent:
    """The memory that a kernel accesses. ``lanes``: channels per input block. The result is blocked or
    planar, and may be interleaved as rows and columns of a transposed convolution. ``nhwc``: it is channels
    last.
    """
    a = DirectArgs.symbols()
    inputs, outputs = ceildiv(a.cin, lanes), ceildiv(a.cout, isa.lanes)
    blocks, split = ceildiv(a.cout, a.y_lanes), a.split_h * a.split_w
    blocked = floordiv(a.y_lanes, isa.lanes)  # 1 if blocked, 0 if planar
    x = ((a.images, a.x_n), (a.groups * inputs, a.x_c), (a.h, a.x_h), (a.w, a.x_w), (lanes, 1))
    residual = ((a.images, a.r_n), (a.groups * outputs, a.r_c), (a.oh, a.r_h), (a.ow * isa.lanes, 1))
    rows = (a.oh, a.y_h), (a.split_h, floordiv(a.y_h, a.split_h))
    columns = (a.ow, a.y_w), (a.split_w, floordiv(a.y_w, a.split_w)), (a.y_lanes, 1)
    channels, pixels = a.groups * a.cout, a.oh * a.ow
    return Extent(
        name,
        ABI.args,
        ABI.ordered(
            x=Reach(4, x),
            w=dense(4, a.groups * outputs * isa.lanes, inputs * lanes, a.kh * a.kw),
            bias=dense(4, a.groups, outputs * isa.lanes, optional=True),
            residual=Reach(4, residual, optional=True),
            y=Reach(
                4,
                ((a.images, a.y_n), (a.groups * floordiv(blocks, split), a.y_c), *rows, *columns),
                in_place=True,
            ),
        ),
        grid=grid(isa, a),
        scratch=scratch,
        bounds=window_bounds(ABI.args)
        | stride_bounds(ABI.args, "x", "r", "y")
        | within(STEP, "split_h", "split_w", "kh", "kw")
        | within(BITS, "lo", "hi"),
        choices={"y_lanes": (isa.lanes,) if nhwc else (1, isa.lanes)},
        multiples=(mod(blocks, split), *((mod(a.cout, isa.lanes), mod(a.cin, lanes)) if nhwc else ())),
        at_least_0=(a.y_w - a.split_w * a.y_lanes,),
        tiles=Tiles(a.images, pixels, channels)
        if nhwc
        else Tiles(
            a.images * (1 + blocked * (a.groups * outputs - 1)),
            blocked * pixels + (1 - blocked) * channels,
            blocked * isa.lanes + (1 - blocked) * pixels,
        ),
    )


def _planar_width(isa: Isa, blocks: int, most: int) -> int:
    """The pixels of a tile of ``blocks``, at most ``most``, if y is planar: few tiles fill whole vectors, of
    which :data:`_HELD` has room for one. Tiles of one block keep their width, and others do not split their
    sums, as :func:`_units` assumes.
    """
    if blocks == 1:
        return most
    lanes = isa.lanes
    fitting = (
        width
        for width in range(1, most + 1)
        if lanes // gcd(lanes, width) * width * blocks <= _HELD and _narrowest(width) * blocks >= FMA_SUMS
    )
    return max(fitting, key=lambda width: (gcd(lanes, width), width))


def _narrowest(width: int) -> int:
    """The fewest pixels of a tile, if rows of :data:`FMA_SUMS` or more are cut into tiles of ``width``."""
    return min(columns // -(-columns // width) for columns in range(FMA_SUMS, FMA_SUMS * width + 1))


def constants(isa: Isa) -> str:
    """Sizes of bands, units and tiles, as C."""
    pixels, machine = widest(isa), isa.machine
    planar = [_planar_width(isa, blocks, width) for blocks, width in enumerate(pixels, 1)]
    return f"""
#define BAND_BYTES {_band_bytes(isa)}
#define MIN_COLUMNS {_MIN_COLUMNS}
#define MIN_PIXELS {_MIN_PIXELS}
#define UNITS {_UNITS}
#define UNIT_BLOCKS {unit_blocks(isa)}
#define PART {_PART}
#define CHAIN {CHAIN} /* about this many products form a partial sum */
#define CACHED {machine.l3.bytes // 16} /* elements of an image that stays in caches until it is written */
#define STREAMED {machine.l2.bytes // 16} /* weights of more elements are prefetched to L2 */
#define DEEP {2 * machine.l1.bytes} /* weights of a tile of more bytes are read from L2 for each tile */
#define FMA_SUMS {FMA_SUMS}
#define LINE 16 /* elements of a cache line */
#define TRANSPOSED_PLANES {isa.lanes // 2} /* with this many planes, transposing blocks copies faster */
#define STEPS {STEPS[-1]}
#define MAX_BLOCKS {len(pixels)}
#define TILE_PIXELS {", ".join(map(str, pixels))} /* of the widest tile of 1, 2, ... blocks */
#define PLANAR_PIXELS {", ".join(map(str, planar))} /* the same if y is planar */
#define WIDEST {max(pixels)}
#define HELD {_HELD} /* about this many pixels of all blocks are collected before they are stored */

#include "conv/blocked_tile.h"
"""


def header(isa: Isa) -> str:
    """The generated header of ``direct.c``."""
    elements = '#include "movement/elements.h"\n'
    parts = [constants(isa), families(isa), transpose(isa), strided.strided(4, isa)]
    return "\n".join([elements, ABI.c_text(), *parts])

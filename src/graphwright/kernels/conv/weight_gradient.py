"""Gradient of a convolution with respect to its weights, in f32: dw[M, C/group, KD, KH, KW] of x[N, C, D, H,
W] and dy[N, M, OD, OH, OW], row-major. A 1-D convolution has d = h = 1, a 2-D convolution d = 1.

dw[m, c, tap] is the sum over all output pixels of dy[m, pixel] * x[c, pixel * stride + tap]. The vectors of
the kernel are along pixels: the rows of a block of pixels are copied to scratch one after the other, with
the distance of rows of the padded x, so that each tap reads x at a constant offset. dy has zeros between its
rows. With strides, x is copied by phase, the remainder of rows and columns modulo the stride. A tile of
features times taps keeps its sums in registers for all pixels of a block; lanes are added at its end.

The order of each sum depends only on sizes, so every division into chunks gives the same bits.
"""

from __future__ import annotations

from typing import Final

from graphwright.cost.images import weight_gradient_work
from graphwright.cost.predict import predict
from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum, product
from graphwright.kernels.conv.arguments import ConvolutionArgs
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.extent import SIZE, STEP, Extent, dense, window_bounds, within
from graphwright.kernels.library.kernel_call import ArgumentsCall
from graphwright.records import dataclass, replace
from graphwright.targets.cpu.isa import Isa

SYMBOL: Final = "gw_weight_gradient_f32"

_PIXELS: Final = 2048
"""Output pixels of a block: its rows of dy and x stay in L2, and those of one channel in L1."""
_FEATURES: Final = 48
"""The most features of a unit, which share the copies of x."""
_COPIED: Final = 1 << 17
"""About the most elements of x in scratch."""
_CHANNELS: Final = 32
"""The most channels of a unit, which share the copies of dy."""
_UNITS: Final = 8
"""Units that are wanted for several threads."""
_COLUMNS: Final = 4
"""Taps of a tile: the lanes of four vectors are added together."""


@dataclass(frozen=True)
class WeightGradientCall(ConvolutionArgs, ArgumentsCall):
    """A call: the sizes, then how features, channels and output pixels are divided into blocks."""

    block_cout: Dim = 1
    block_cin: Dim = 1
    block_images: Dim = 1
    block_lines: Dim = 1
    block_columns: Dim = 1

    @property
    def pitch(self) -> Dim:
        """The elements of a row of a block."""
        return self.block_columns + floordiv((self.kw - 1) * self.dilation_w, self.stride_w)

    @property
    def copied(self) -> Dim:
        """The elements of the copy of one channel of x."""
        lines = self.block_lines + floordiv((self.kh - 1) * self.dilation_h, self.stride_h)
        return product([self.kd, self.stride_h, self.stride_w, self.block_images, lines, self.pitch])

    @property
    def grid(self) -> Dim:
        """The number of units of work: groups, blocks of features, blocks of channels."""
        blocks = ceildiv(self.cout, self.block_cout), ceildiv(self.cin, self.block_cin)
        return product([self.groups, *blocks])

    def scratch_bytes(self, isa: Isa) -> Dim:
        """The bytes of the copies of dy and x, and of what is read after the last row."""
        length = ceildiv(self.block_lines * self.pitch, isa.lanes) * isa.lanes
        features = product([self.block_cout, self.block_images, length])
        return 4 * (features + self.block_cin * self.copied + self.pitch + isa.lanes)

    def work_ns(self, isa: Isa) -> Dim:
        """The predicted time on one core, in nanoseconds."""
        columns = ceildiv(self.cin * self.taps, _COLUMNS) * _COLUMNS
        pixels = product([self.images, self.pixels])
        products = product([self.groups, self.cout, columns, pixels])
        copies = self.cin * ceildiv(self.cout, self.block_cout) + self.cout * ceildiv(
            self.cin, self.block_cin
        )
        copied = self.groups * pixels * copies
        return predict(weight_gradient_work(isa.lanes, products, copied), isa.machine)


ABI: Final = Abi("weight_gradient", ("x", "dy", "dw"), WeightGradientCall.names())


def tile_rows(isa: Isa) -> int:
    """The features of a tile: its sums fill 24 of 32 registers, or 12 of 16."""
    return 6 if isa.vector_bytes == 64 else 3


def blocked(isa: Isa, args: WeightGradientCall) -> WeightGradientCall:
    """``args`` with the sizes of blocks; ``groups``, ``cout`` and ``cin`` are ints."""
    args = replace(args, block_columns=_share(args.ow, _PIXELS))
    args = replace(args, block_lines=_share(args.oh, maximum(1, floordiv(_PIXELS, args.pitch))))
    pixels = args.block_lines * args.pitch
    args = replace(args, block_images=maximum(1, minimum(args.images, floordiv(_PIXELS, maximum(1, pixels)))))
    groups, cout, cin, rows = args.groups, args.cout, args.cin, tile_rows(isa)
    assert isinstance(groups, int) and isinstance(cout, int) and isinstance(cin, int)
    taken = args.copied if isinstance(args.copied, int) else _PIXELS
    channels = max(1, min(cin, _CHANNELS, _COPIED // max(1, taken)))
    features = max(1, min(cout, _FEATURES))
    while groups * -(-cout // features) * -(-cin // channels) < _UNITS and features > 2 * rows:
        features = -(-features // 2 // rows) * rows
    return replace(args, block_cout=features, block_cin=channels)


def _share(size: Dim, most: Dim) -> Dim:
    """The size of the parts of an axis if it is divided into the fewest equal parts of at most ``most``."""
    return maximum(1, ceildiv(size, maximum(1, ceildiv(size, most))))


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that :data:`SYMBOL` accesses."""
    a = WeightGradientCall.symbols()
    return (
        Extent(
            SYMBOL,
            ABI.args,
            ABI.ordered(
                x=dense(4, a.images, a.groups * a.cin, a.d, a.h, a.w),
                dy=dense(4, a.images, a.groups * a.cout, a.pixels),
                dw=dense(4, a.groups * a.cout, a.cin, a.taps),
            ),
            grid=a.grid,
            scratch=a.scratch_bytes(isa),
            bounds=window_bounds(ABI.args)
            | within(SIZE, "images", "groups", "cin", "cout", "d", "h", "w", "od", "oh", "ow")
            | within(SIZE, "pad_front", "pad_top", "pad_left")
            | within(STEP, "kd", "kh", "kw")
            | within(STEP, *(name for name in ABI.args if name.startswith("block"))),
        ),
    )


def header(isa: Isa) -> str:
    """The generated header of ``weight_gradient.c``."""
    constants = f"""
#define ROWS {tile_rows(isa)} /* features of a tile */
#define COLS {_COLUMNS} /* taps of a tile */
"""
    return "\n".join([ABI.c_text(), constants])

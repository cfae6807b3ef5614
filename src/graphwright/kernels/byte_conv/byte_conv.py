"""2-D convolution of bytes: y = conv(x - x_zero, w - w_zero) in s32, row-major images.

Implicit GEMM, as in ``conv.py``: a tile is some output channels times some output pixels. Four channels of a
pixel are a *quad* (module ``byte_interleave``), and quads are handled like f32 pixels. For a block of pixels,
the im2col panels of all taps are packed once (Chellapilla et al., "High Performance Convolutional Neural
Networks for Document Processing", 2006) and used for all output channels of the chunk; if windows are single
pixels, x is in panels already. Images are converted to u8 and weights to s8: if they have the other type,
they and their zero points are shifted by 128. Padding contains the zero point of x. The zero points are
subtracted afterwards: (W - wz) (X - xz) = W X - xz * sum(W) - wz * (sum(X) - K * xz) (Jacob et al., 2018,
section 2.3), where the sums of weights are computed when they are packed, and those of quads only if w has a
zero point. All arithmetic wraps like s32, so every variant and division into chunks gives the same bits. A
1-D convolution has h = 1.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum
from graphwright.kernels.byte_conv.byte_interleave import (
    InterleaveArgs,
    interleaving,
    most_single_pixels,
    panel_count,
    panel_sizes,
)
from graphwright.kernels.conv.arguments import ConvolutionArgs
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.byte_tile import (
    QUAD,
    RUN,
    TILE_ROWS,
    Array,
    as_signed,
    byte_tiles,
    panel_columns,
    tile_bytes,
)
from graphwright.kernels.library.extent import (
    FLAG,
    SIGNED,
    Extent,
    Reach,
    Tiles,
    dense,
    window_bounds,
    within,
)
from graphwright.records import dataclass, replace
from graphwright.targets.cpu.isa import Isa

SYMBOL: Final = "gw_conv_bytes"
VNNI: Final = "gw_conv_bytes_vnni"
"""The same kernel without AMX, even on CPUs that have it."""
WIDE: Final = "gw_conv_bytes_wide"
"""The same kernel without AMX and AVX512-VNNI, even on CPUs that have them."""

_MOST_PANELS: Final = 8
_UNIT_CHANNELS: Final = 64
"""Output channels per unit: few enough that small images still give work to several threads."""
_PACKED_UNIT_CHANNELS: Final = 32
"""The same if x is packed already, so that units need not pack it."""


@dataclass(frozen=True)
class ByteConvArgs(ConvolutionArgs):
    """The arguments of the kernel. The strides of y are in elements."""

    y_n: Dim
    y_c: Dim
    w_zero_step: Dim
    """0 if all output channels share one ``w_zero``, else 1."""
    x_signed: Dim
    w_signed: Dim
    x_packed: Dim
    """1 if x is in panels (:data:`.byte_interleave.INTERLEAVE_PANELS`), else 0."""


ABI: Final = Abi("byte_conv", ("x", "w", "x_zero", "w_zero", "y"), ByteConvArgs.names())
"""``x`` is interleaved (module ``byte_interleave``), ``w`` is packed (:func:`pack`); zero points may be
absent; ``y`` is ignored if there is a hook. The hook, or a null pointer, comes next; its tile is s32, its
rows are the output channels of all groups, its columns the output pixels row by row.
"""


def packed_bytes(groups: int, cout: int, cin: int, taps: int) -> int:
    """Bytes of the packed weights of ``groups`` groups of cout x cin x taps."""
    quads = -(-cin // QUAD) * taps
    return groups * -(-cout // TILE_ROWS) * (TILE_ROWS * 4 + tile_bytes(quads))


def pack(out: Array, w: Array, groups: int) -> None:
    """Packs weights [groups * cout, cin, taps...] of u8 or s8 into the bytes ``out``. For each tile of
    :data:`~graphwright.kernels.library.byte_tile.TILE_ROWS` output channels: the sum of each channel, then
    its quads in runs, ordered by quad of channels and then by tap.
    """
    cout, cin, taps = w.shape[0] // groups, w.shape[1], int(np.prod(w.shape[2:]))
    tiles, quads = -(-cout // TILE_ROWS), -(-cin // QUAD)
    padded = np.zeros((groups, tiles * TILE_ROWS, quads * QUAD, taps), np.int8)
    padded[:, :cout, :cin] = as_signed(w).reshape(groups, cout, cin, taps)
    ordered = padded.reshape(groups, tiles, TILE_ROWS, quads, QUAD, taps).transpose(0, 1, 2, 3, 5, 4)
    runs = -(-quads * QUAD * taps // RUN)
    rows = np.zeros((groups, tiles, TILE_ROWS, runs * RUN), np.int8)
    rows[..., : quads * QUAD * taps] = ordered.reshape(groups, tiles, TILE_ROWS, quads * QUAD * taps)
    sums = padded.sum(axis=(2, 3), dtype=np.int32).reshape(groups, tiles, TILE_ROWS)
    target = out.view(np.uint8).reshape(groups, tiles, TILE_ROWS * (4 + runs * RUN))
    target[..., : TILE_ROWS * 4] = sums.view(np.uint8).reshape(groups, tiles, TILE_ROWS * 4)
    by_run = rows.reshape(groups, tiles, TILE_ROWS, runs, RUN).swapaxes(2, 3)
    target[..., TILE_ROWS * 4 :] = by_run.reshape(groups, tiles, TILE_ROWS * runs * RUN).view(np.uint8)


def _quads(args: ByteConvArgs) -> Dim:
    return ceildiv(args.cin, QUAD) * args.taps


def _block_bytes(isa: Isa) -> int:
    """The bytes of a block of packed panels, which stays in the L2 cache."""
    return isa.machine.l2.bytes // 2


def _block_panels(isa: Isa, args: ByteConvArgs) -> Dim:
    """Panels of pixels per unit."""
    fitting = floordiv(_block_bytes(isa), maximum(_quads(args), 1) * (panel_columns(isa) * QUAD))
    return minimum(maximum(fitting, 1), _MOST_PANELS)


def grid(isa: Isa, args: ByteConvArgs) -> Dim:
    """The number of units of work: images, groups, blocks of pixels, blocks of output channels (fastest)."""
    channels = _PACKED_UNIT_CHANNELS * args.x_packed + _UNIT_CHANNELS * (1 - args.x_packed)
    blocks = ceildiv(panel_count(isa, args.pixels), _block_panels(isa, args)) * ceildiv(args.cout, channels)
    return args.images * args.groups * blocks


def scratch_bytes(isa: Isa, args: ByteConvArgs) -> Dim:
    """The bytes of column sums, of runs of the pixels that are in no vector, and of panels if x is not packed
    already.
    """
    panels = minimum(panel_count(isa, args.pixels), _block_panels(isa, args))
    rest = most_single_pixels(isa) * ceildiv(_quads(args) * QUAD, RUN) * RUN
    packed = _quads(args) * (1 - args.x_packed)
    return (panels + 1) * panel_columns(isa) * QUAD * (packed + 1) + rest


_EFFICIENCY: Final = {"v3": 50, "v4": 88}
"""Percent of the peak that the multiply-adds reach."""


def work_ns(isa: Isa, args: ByteConvArgs) -> Dim:
    """The predicted time on one core, in nanoseconds: multiply-adds, and packing quads into panels."""
    quads = args.images * args.groups * args.pixels * _quads(args)
    cycles = floordiv(quads * (1 - args.x_packed), 2)
    work = Work(byte_fmas=4 * quads * args.cout, efficiency=_EFFICIENCY[isa.name], cycles=cycles)
    return predict(work, isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that the three kernels access: taps outside the image are not read."""
    a = ByteConvArgs.symbols()
    tiles = ceildiv(a.cout, TILE_ROWS)
    channels, pixels = a.groups * a.cout, a.pixels
    images = InterleaveArgs(a.images, a.groups, a.cin, a.d * a.h * a.w, a.x_signed)
    plain, packed = (interleaving(isa, images, packed=x).result_bytes for x in (False, True))
    tile = TILE_ROWS * (4 + ceildiv(_quads(a) * QUAD, RUN) * RUN)
    extent = Extent(
        SYMBOL,
        ABI.args,
        ABI.ordered(
            x=dense(1, plain * (1 - a.x_packed) + packed * a.x_packed),
            w=dense(1, a.groups, tiles, tile),
            x_zero=dense(1, 1, optional=True),
            w_zero=Reach(1, ((channels, a.w_zero_step),), optional=True),
            y=Reach(4, ((a.images, a.y_n), (channels, a.y_c), (pixels, 1)), unhooked=True),
        ),
        grid=grid(isa, a),
        scratch=scratch_bytes(isa, a),
        bounds=window_bounds(ABI.args)
        | within(SIGNED, "y_n", "y_c")
        | within(FLAG, "w_zero_step", "x_signed", "w_signed", "x_packed"),
        tiles=Tiles(a.images, channels, pixels),
    )
    return extent, replace(extent, symbol=VNNI), replace(extent, symbol=WIDE)


def header(isa: Isa) -> str:
    """The generated header of ``byte_conv.c``."""
    constants = f"""
#define OUT_LD (NR + VL) /* pixels of a tile, and the rest */
#define BLOCK_BYTES {_block_bytes(isa)}
#define MOST_PANELS {_MOST_PANELS}
#define UNIT_TILES {_UNIT_CHANNELS // TILE_ROWS}
#define PACKED_UNIT_TILES {_PACKED_UNIT_CHANNELS // TILE_ROWS}
"""
    return "\n".join([ABI.c_text(), panel_sizes(isa), constants, byte_tiles(isa, a_signed=True)])

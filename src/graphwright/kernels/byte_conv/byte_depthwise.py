"""Depthwise 2-D convolution of bytes: y = conv(x - x_zero, w - w_zero) in s32, row-major images.

Each output channel reads one input channel. Each output column multiplies the taps of a row of its window in
words of 32 bits. Signed weights without a zero point are multiplied as *quads* of bytes if the CPU has VNNI,
others as *pairs* of 16-bit integers W = w - w_zero. With VBMI, an instruction permutes pixels to the quads of
16 outputs (``byte_depthwise_permute.h``). Otherwise, and if windows are far apart, each input row of a block
of output rows is expanded once to the words of all columns (``byte_depthwise_expand.h``).

Padding contains the zero point of x, and its products are subtracted from the start: (X - xz) W = X W - xz *
sum(W). All arithmetic wraps like s32, so every variant and division into chunks gives the same bits. A 1-D
convolution has h = 1.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum
from graphwright.kernels.byte_conv.byte_conv import ByteConvArgs
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.byte_tile import QUAD, Array
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
from graphwright.kernels.library.windows import window_span
from graphwright.records import replace
from graphwright.targets.cpu.isa import Isa

SYMBOL: Final = "gw_depthwise_bytes"
EXPANDED: Final = "gw_depthwise_bytes_expanded"
"""The same kernel without VBMI, even on CPUs that have it."""
WIDE: Final = "gw_depthwise_bytes_wide"
"""The same kernel without VNNI."""
_UNIT_PIXELS: Final = 4096
"""Output pixels per unit, if they are whole rows."""


ABI: Final = Abi("byte_depthwise", ("x", "w", "x_zero", "w_zero", "y"), ByteConvArgs.names())
"""The arguments are those of ``byte_conv.py``; ``cin`` and the sizes of the depth are 1, ``x_packed`` is 0.
``w`` is packed (:func:`pack`); zero points may be absent; ``y`` is ignored if there is a hook. The hook, or a
null pointer, comes next; its tile is s32, its rows are the output channels, its columns the output pixels row
by row.
"""


def packed_bytes(features: int, kh: int, kw: int) -> int:
    """Bytes of the packed weights of ``features`` output channels."""
    return features * QUAD * (1 + kh * -(-kw // QUAD))


def pack(out: Array, w: Array) -> None:
    """Packs weights [features, kh, kw] of u8 or s8 into the bytes ``out``. For each feature: the sum of its
    weights, then its rows in quads.
    """
    features, kh, kw = w.shape
    padded = np.zeros((features, kh, -(-kw // QUAD) * QUAD), np.uint8)
    padded[..., :kw] = w.view(np.uint8)
    target = out.view(np.uint8).reshape(features, -1)
    target[:, QUAD:] = padded.reshape(features, -1)
    target[:, :QUAD] = w.sum(axis=(1, 2), dtype=np.int32).reshape(features, 1).view(np.uint8)


def _quads(args: ByteConvArgs) -> Dim:
    """Quads per row of a window."""
    return ceildiv(args.kw, QUAD)


def _unit_rows(args: ByteConvArgs) -> Dim:
    """Output rows per unit."""
    return minimum(args.oh, maximum(floordiv(_UNIT_PIXELS, maximum(args.ow, 1)), 1))


def grid(args: ByteConvArgs) -> Dim:
    """The number of units of work: images, output channels, blocks of output rows (fastest)."""
    return args.images * args.groups * args.cout * ceildiv(args.oh, maximum(_unit_rows(args), 1))


def scratch_bytes(isa: Isa, args: ByteConvArgs) -> Dim:
    """The bytes of a channel's weights, of the tables of a permutation, and of input rows: expanded or
    copied.
    """
    columns, words = ceildiv(args.ow, isa.lanes) * isa.lanes, ceildiv(args.kw, 2)
    line = columns * args.stride_w + (args.kw + QUAD - 1) * args.dilation_w + isa.vector_bytes
    expanded = 4 * _rows(args, _unit_rows(args)) * (words * columns + ceildiv(line, 4))
    slack = 8 * ceildiv(line + isa.vector_bytes, 8)
    tables = 8 * _quads(args) * ceildiv(args.ow, isa.lanes) + 16 * _rows(args, args.oh) + slack
    copied = _rows(args, _unit_rows(args)) * args.w + 2 * slack
    return 8 * ceildiv(args.kh * words, 2) + tables + maximum(expanded, copied)


def _rows(args: ByteConvArgs, count: Dim) -> Dim:
    """The rows of padded images that ``count`` output rows read."""
    return maximum(window_span(count, args.stride_h, args.kh, args.dilation_h), 0)


def work_ns(isa: Isa, args: ByteConvArgs) -> Dim:
    """The predicted time on one core, in nanoseconds: expanding rows, and the products of quads."""
    vectors = args.images * args.groups * args.cout * args.oh * ceildiv(args.ow, isa.lanes)
    products = 2 if isa.vector_bytes == 64 else 8
    cycles = vectors * _quads(args) * (args.kh * products + 6 * args.stride_h)
    return predict(Work(cycles=floordiv(cycles, 2)), isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that the kernels access."""
    a = ByteConvArgs.symbols()
    features = a.groups * a.cout
    extent = Extent(
        SYMBOL,
        ABI.args,
        ABI.ordered(
            x=dense(1, a.images, a.groups, a.h, a.w),
            w=dense(QUAD, features, 1 + a.kh * _quads(a)),
            x_zero=dense(1, 1, optional=True),
            w_zero=Reach(1, ((features, a.w_zero_step),), optional=True),
            y=Reach(4, ((a.images, a.y_n), (features, a.y_c), (a.oh * a.ow, 1)), unhooked=True),
        ),
        grid=grid(a),
        scratch=scratch_bytes(isa, a),
        bounds=window_bounds(ABI.args)
        | within(SIGNED, "y_n", "y_c")
        | within(FLAG, "w_zero_step", "x_signed", "w_signed", "x_packed"),
        tiles=Tiles(a.images, features, a.oh * a.ow),
    )
    return extent, replace(extent, symbol=EXPANDED), replace(extent, symbol=WIDE)


def header(isa: Isa) -> str:
    """The generated header of ``byte_depthwise.c``."""
    return f"{ABI.c_text()}#define UNIT_PIXELS {_UNIT_PIXELS}\n"

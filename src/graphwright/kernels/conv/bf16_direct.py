"""Direct convolution in bf16: y = act(conv(x, w) + bias + residual) with f32 sums, in channel blocks.

Input, result, bias and residual are f32, as in :mod:`~graphwright.kernels.conv.direct`; the weights are bf16.
Each band of the input is copied to scratch; the copy rounds the elements and joins adjacent channels to pairs
(``library/pairs.h``). Tiles treat a pair as one channel, so a block of the copy is two blocks of the input.
With AVX512-BF16, a pair takes as long as one f32 channel.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from graphwright.cost.images import bf16_direct_work
from graphwright.cost.predict import predict
from graphwright.ir.symbols import Dim, ceildiv, mod
from graphwright.ir.types import Layout
from graphwright.kernels.conv import direct
from graphwright.kernels.conv.blocked_tile_tables import pair_families
from graphwright.kernels.conv.direct import ABI, DirectArgs
from graphwright.kernels.library.extent import Extent, dense
from graphwright.kernels.library.transpose import transpose
from graphwright.records import replace
from graphwright.targets.cpu.isa import Isa

Array = npt.NDArray[Any]

SYMBOL: Final = "gw_direct_bf16"
WIDE: Final = "gw_direct_bf16_wide"
"""The same kernel without AVX512-BF16, even on CPUs that have it."""


def in_pairs(args: DirectArgs) -> DirectArgs:
    """``args`` with input channels counted in pairs."""
    return replace(args, cin=ceildiv(args.cin, 2))


def grid(isa: Isa, args: DirectArgs) -> Dim:
    """The number of units of work."""
    return direct.grid(isa, in_pairs(args))


def scratch_bytes(isa: Isa, args: DirectArgs) -> Dim:
    """The bytes of tap offsets, of the copied band, and of partial sums."""
    return direct.pairs_scratch_bytes(isa, in_pairs(args))


def work_ns(isa: Isa, args: DirectArgs) -> Dim:
    """The predicted time on one core, in nanoseconds."""
    pixels, read = args.images * args.oh * args.ow, args.images * args.h * args.w
    work = bf16_direct_work(isa.lanes, pixels, args.cin, args.cout, args.kh * args.kw, read)
    if isa.vector_bytes < 64:
        work = replace(work, efficiency=work.efficiency // 4)
    return args.groups * predict(work, isa.machine)


def weights_layout(isa: Isa) -> Layout:
    """The layout of weights viewed as :func:`weights_view`: [output blocks, pair blocks, taps, pairs, output
    channels, 2].
    """
    return Layout((0, 1, 4, 5, 2, 3), ((0, isa.lanes), (3, 2)), zero_padded=True)


def weights_view(shape: tuple[int, ...], isa: Isa) -> tuple[int, ...]:
    """Weights [cout, cin, kh, kw] with channels split into blocks, pairs and the two halves of a pair;
    ``cin`` is a multiple of two vectors.
    """
    cout, cin, *kernel = shape
    return (cout, cin // (2 * isa.lanes), isa.lanes, 2, *kernel)


def packed_shape(shape: tuple[int, ...], isa: Isa) -> tuple[int, ...]:
    """The shape of packed weights."""
    cout, cin, kh, kw = shape
    return -(-cout // isa.lanes), -(-cin // (2 * isa.lanes)), kh, kw, isa.lanes, isa.lanes, 2


def pack_weights(out: Array, w: Array, isa: Isa) -> None:
    """Packs bf16 weights ``w[cout, cin, kh, kw]``; incomplete blocks are padded with zeros."""
    outputs, inputs, kh, kw, *_ = packed_shape(w.shape, isa)
    padded = np.zeros((outputs * isa.lanes, inputs * 2 * isa.lanes, kh, kw), w.dtype)
    padded[: w.shape[0], : w.shape[1]] = w
    parts = padded.reshape(outputs, isa.lanes, inputs, isa.lanes, 2, kh, kw)
    out.reshape(packed_shape(w.shape, isa))[...] = parts.transpose(0, 2, 5, 6, 3, 1, 4)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that both kernels access."""
    a = DirectArgs.symbols()
    extent = direct.extent(isa, SYMBOL, isa.lanes, scratch_bytes(isa, a))
    pairs, outputs = ceildiv(a.cin, 2 * isa.lanes) * isa.lanes, ceildiv(a.cout, isa.lanes)
    weights = dense(4, a.groups * outputs * isa.lanes, pairs, a.kh * a.kw)
    w = ABI.operands.index("w")
    operands = (*extent.operands[:w], weights, *extent.operands[w + 1 :])
    extent = replace(
        extent, operands=operands, grid=grid(isa, a), multiples=(*extent.multiples, mod(a.cin, 2))
    )
    return extent, replace(extent, symbol=WIDE)


def header(isa: Isa) -> str:
    """The generated header of ``bf16_direct.c``."""
    tile = '#include "conv/halves_tile.h"\n'
    return "\n".join([ABI.c_text(), direct.constants(isa), tile, transpose(isa), pair_families(isa)])

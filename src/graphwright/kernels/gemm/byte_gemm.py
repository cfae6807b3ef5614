"""GEMM of bytes: C[b0, b1, M, N] = (A - a_zero)[b0, b1, M, K] @ (B - b_zero)[b0, b1, K, N] in s32.

A and B are u8 or s8; B is packed in panels (by :func:`pack` or the kernel :data:`PACK`). The tile multiplies
unsigned by signed bytes, so an s8 A and a u8 B are shifted by 128 when they are packed, together with their
zero points. Zero points are subtracted afterwards: (A - za) @ (B - zb) = A @ B - za * colsum(B) - zb *
(rowsum(A) - K * za) (Jacob et al., 2018, section 2.3). Column sums are computed when B is packed, row sums
only if B has a zero point. All arithmetic wraps like s32, so every variant and division into chunks gives the
same bits. A unit of the grid is a part of the rows times two panels of columns. Units of a chunk with the
same rows share the packed A, which stays in the L2 cache while panels are streamed.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum
from graphwright.kernels.gemm import grid as grids
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.amx import AMX_TILE_ROWS
from graphwright.kernels.library.arguments import Arguments
from graphwright.kernels.library.byte_tile import (
    QUAD,
    RUN,
    TILE_ROWS,
    Array,
    as_signed,
    byte_tiles,
    panel_columns,
)
from graphwright.kernels.library.extent import FLAG, Extent, Reach, Tiles, dense, stride_bounds, within
from graphwright.records import dataclass, replace
from graphwright.targets.cpu.isa import Isa

SYMBOL: Final = "gw_gemm_bytes"
VNNI: Final = "gw_gemm_bytes_vnni"
"""The same kernel without AMX, even on CPUs that have it."""
WIDE: Final = "gw_gemm_bytes_wide"
"""The same kernel without AMX and AVX512-VNNI, even on CPUs that have them."""
PACK: Final = "gw_pack_bytes"


_LEAST_TILES: Final = 6
_MOST_TILES: Final = 48
"""The most row tiles of a block."""


@dataclass(frozen=True)
class ByteGemmArgs(Arguments):
    """The arguments of the kernel. Strides are in elements (of ``b`` in bytes); those of zero points are 0
    for a single one.
    """

    batch0: Dim
    batch1: Dim
    m: Dim
    n: Dim
    k: Dim
    a_batch0: Dim
    a_batch1: Dim
    a_m: Dim
    b_batch0: Dim
    b_batch1: Dim
    c_batch0: Dim
    c_batch1: Dim
    c_m: Dim
    za_batch0: Dim
    za_batch1: Dim
    za_m: Dim
    zb_batch0: Dim
    zb_batch1: Dim
    zb_n: Dim
    a_signed: Dim
    b_signed: Dim


ABI: Final = Abi("byte_gemm", ("a", "b", "a_zero", "b_zero", "c"), ByteGemmArgs.names())
"""Zero points may be absent; ``c`` is ignored if there is a hook. The hook, or a null pointer, comes next;
its tile is s32.
"""


@dataclass(frozen=True)
class BytePackArgs(Arguments):
    """The arguments of :data:`PACK`: contiguous matrices [k, n]."""

    batch: Dim
    k: Dim
    n: Dim
    b_signed: Dim


PACK_ABI: Final = Abi("byte_pack", ("b", "panels"), BytePackArgs.names())


def packed_bytes(isa: Isa, k: Dim, n: Dim) -> Dim:
    """The bytes of one packed matrix: for each panel the sums of its columns, then rows in quads."""
    width = panel_columns(isa)
    return ceildiv(n, width) * (width * QUAD) * (1 + ceildiv(k, QUAD))


def pack(out: Array, b: Array, isa: Isa) -> None:
    """Packs ``b[..., K, N]`` of u8 or s8 into the bytes ``out``."""
    width = panel_columns(isa)
    *batch, k, n = b.shape
    panels, quads, matrices = -(-n // width), -(-k // QUAD), math.prod(batch)
    padded = np.zeros((*batch, quads * QUAD, panels * width), np.int8)
    padded[..., :k, :n] = as_signed(b)
    parts = padded.reshape(matrices, quads, QUAD, panels, width).transpose(0, 3, 1, 4, 2)
    sums = padded.sum(axis=-2, dtype=np.int32).reshape(matrices, panels, width)
    target = out.view(np.uint8).reshape(matrices, panels, width * QUAD * (1 + quads))
    target[..., : width * QUAD] = np.ascontiguousarray(sums).view(np.uint8)
    target[..., width * QUAD :] = parts.reshape(matrices, panels, width * QUAD * quads).view(np.uint8)


def _block_bytes(isa: Isa) -> int:
    """The bytes of a block of packed A, which stays in the L2 cache."""
    return isa.machine.l2.bytes * 3 // 8


def _block_rows(isa: Isa, k: Dim) -> Dim:
    """The most rows of a block."""
    tiles = floordiv(_block_bytes(isa), TILE_ROWS * maximum(k, 1))
    return TILE_ROWS * maximum(minimum(tiles, _MOST_TILES), _LEAST_TILES)


def grid(isa: Isa, args: ByteGemmArgs) -> Dim:
    """The number of units of work."""
    tiles, blocks = ceildiv(args.m, TILE_ROWS), ceildiv(args.m, _block_rows(isa, args.k))
    return grids.units(args.batch0 * args.batch1, blocks, tiles, args.n, panel_columns(isa))


def scratch_bytes(isa: Isa, args: ByteGemmArgs) -> Dim:
    """The bytes of packed A and of its row sums."""
    most = minimum(args.m, _block_rows(isa, args.k))
    rows = maximum(*(ceildiv(most, height) * height for height in (TILE_ROWS, _most_tile_rows(isa))))
    return rows * (ceildiv(args.k, RUN) * RUN + 4) + 64


def _most_tile_rows(isa: Isa) -> int:
    """The most rows that are packed together: those of a tile with AMX, if the ISA can have it."""
    return AMX_TILE_ROWS if isa.vector_bytes == 64 else TILE_ROWS


_EFFICIENCY: Final = {"v3": 75, "v4": 85}
"""Percent of the peak that the multiply-adds reach."""


def work_ns(isa: Isa, args: ByteGemmArgs) -> Dim:
    """The predicted time on one core, in nanoseconds: multiply-adds, and reading B from memory."""
    elements = args.batch0 * args.batch1 * args.k * args.n
    work = Work(byte_fmas=args.m * elements, efficiency=_EFFICIENCY[isa.name], weights=elements)
    return predict(work, isa.machine)


def pack_grid(isa: Isa, args: BytePackArgs) -> Dim:
    """The number of units: panels."""
    return args.batch * ceildiv(args.n, panel_columns(isa))


def pack_work_ns(isa: Isa, args: BytePackArgs) -> Dim:
    """The predicted time on one core, in nanoseconds: two cycles per byte."""
    return predict(Work(cycles=2 * args.batch * args.k * args.n), isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that the three kernels access."""
    a = ByteGemmArgs.symbols()
    result = ((a.batch0, a.c_batch0), (a.batch1, a.c_batch1), (a.m, a.c_m), (a.n, 1))
    row_zeros = ((a.batch0, a.za_batch0), (a.batch1, a.za_batch1), (a.m, a.za_m))
    column_zeros = ((a.batch0, a.zb_batch0), (a.batch1, a.zb_batch1), (a.n, a.zb_n))
    bytes_of_b = packed_bytes(isa, a.k, a.n)
    made = Extent(
        SYMBOL,
        ABI.args,
        ABI.ordered(
            a=Reach(1, ((a.batch0, a.a_batch0), (a.batch1, a.a_batch1), (a.m, a.a_m), (a.k, 1))),
            b=Reach(1, ((a.batch0, a.b_batch0), (a.batch1, a.b_batch1), (bytes_of_b, 1))),
            a_zero=Reach(1, row_zeros, optional=True),
            b_zero=Reach(1, column_zeros, optional=True),
            c=Reach(4, result, unhooked=True),
        ),
        grid=grid(isa, a),
        scratch=scratch_bytes(isa, a),
        bounds=stride_bounds(ABI.args, "a", "b", "c", "za", "zb") | within(FLAG, "a_signed", "b_signed"),
        tiles=Tiles(a.batch0 * a.batch1, a.m, a.n),
    )
    return made, replace(made, symbol=VNNI), replace(made, symbol=WIDE), _pack_extent(isa)


def _pack_extent(isa: Isa) -> Extent:
    a = BytePackArgs.symbols()
    return Extent(
        PACK,
        PACK_ABI.args,
        PACK_ABI.ordered(
            b=dense(1, a.batch, a.k, a.n), panels=dense(1, a.batch, packed_bytes(isa, a.k, a.n))
        ),
        grid=pack_grid(isa, a),
    )


def header(isa: Isa) -> str:
    """The generated header of ``byte_gemm.c``."""
    constants = f"""
#define NR {panel_columns(isa)} /* columns of a panel of B */
#define MOST_TILE_ROWS {_most_tile_rows(isa)}
#define BLOCK_BYTES {_block_bytes(isa)}
#define LEAST_TILES {_LEAST_TILES}
#define MOST_TILES {_MOST_TILES}
"""
    return "\n".join(
        [ABI.c_text(), PACK_ABI.c_text(), constants, grids.c_text(), byte_tiles(isa, a_signed=False)]
    )

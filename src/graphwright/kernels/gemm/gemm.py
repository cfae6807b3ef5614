"""The GEMM kernels in f32 (:mod:`~graphwright.kernels.gemm.problem`), which differ in how they take B.

All operands may have any strides; a stride of 0 broadcasts. :data:`PACKED` takes B in
:func:`panels`. :data:`UNPACKED` takes strides, and packs one panel at a time. The file also has a kernel that
takes quantized codes (:mod:`~graphwright.kernels.gemm.nbits_gemm`), a dual GEMM
(:mod:`~graphwright.kernels.gemm.dual_gemm`) and grouped ones (:mod:`~graphwright.kernels.gemm.grouped_gemm`).
"""

from __future__ import annotations

from typing import Final

from graphwright.ir.symbols import ceildiv
from graphwright.ir.types import Layout
from graphwright.kernels.gemm import dual_gemm, gemv, grouped_gemm, nbits, nbits_gemm
from graphwright.kernels.gemm import grid as grids
from graphwright.kernels.gemm.dual_gemm import DualArgs
from graphwright.kernels.gemm.grouped_gemm import GroupedArgs
from graphwright.kernels.gemm.problem import (
    ABI,
    GemmArgs,
    extent,
    panel_columns,
    scratch_bytes,
    sizes_text,
    tile_shape,
)
from graphwright.kernels.gemm.streams import streams
from graphwright.kernels.library.extent import Extent, Reach, dense
from graphwright.kernels.library.tile_tables import tiles, tiles_in_place
from graphwright.kernels.library.transpose import transpose
from graphwright.targets.cpu.isa import Isa

PACKED: Final = "gw_gemm_f32_packed"
UNPACKED: Final = "gw_gemm_f32"
DUAL: Final = "gw_gemm_f32_dual"
GROUPED: Final = "gw_gemm_f32_grouped"
GROUPED_PACKED: Final = "gw_gemm_f32_grouped_packed"


def panels(rank: int, isa: Isa) -> Layout:
    """The layout of a packed B of ``rank`` axes: [..., panels of columns, K, columns], padded with zeros."""
    k, n = rank - 2, rank - 1
    return Layout((*range(k), n, k), ((n, panel_columns(isa)),), zero_padded=True)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that the kernels access."""
    a = GemmArgs.symbols()
    batch, width = ((a.batch0, a.b_batch0), (a.batch1, a.b_batch1)), panel_columns(isa)
    packed = Reach(4, (*batch, (ceildiv(a.n, width) * width * a.k, 1)))
    plain = Reach(4, (*batch, (a.k, a.b_k), (a.n, a.b_n)))
    return (
        extent(isa, PACKED, ABI, {"b": packed}, scratch_bytes(isa, a, packed=True)),
        extent(isa, UNPACKED, ABI, {"b": plain}, scratch_bytes(isa, a, packed=False)),
        _dual_extent(isa),
        *_grouped_extents(isa),
        *nbits_gemm.extents(isa),
    )


def _dual_extent(isa: Isa) -> Extent:
    a = DualArgs.symbols()
    scratch = scratch_bytes(isa, dual_gemm.panels(isa, a), packed=True)
    return dual_gemm.extent(isa, DUAL, dense(4, a.m, a.k), a.k, scratch)


def _grouped_extents(isa: Isa) -> tuple[Extent, ...]:
    a = GroupedArgs.symbols()
    left, product = dense(4, a.m, a.k), grouped_gemm.product(a)
    plain, panels = dense(4, a.groups, a.k, a.n), grouped_gemm.panels_of(isa, a.k)
    return (
        grouped_gemm.extent(isa, GROUPED, left, plain, scratch_bytes(isa, product, packed=False)),
        grouped_gemm.extent(isa, GROUPED_PACKED, left, panels, scratch_bytes(isa, product, packed=True)),
    )


def header(isa: Isa) -> str:
    """The generated header of ``gemm.c``."""
    shape = tile_shape(isa)
    unrolled = [
        tiles(shape, isa),
        tiles_in_place(shape, isa),
        streams(shape, isa),
        transpose(isa),
        nbits.c_text(isa, shape),
        gemv.c_text(),
    ]
    constants = ABI.c_text() + dual_gemm.ABI.c_text() + grouped_gemm.c_text() + sizes_text(isa)
    codes = nbits_gemm.ABI.c_text() + nbits_gemm.GROUPED_ABI.c_text()
    return "\n".join([constants, codes, grids.c_text(), *unrolled])

"""bf16 GEMM: C[b0, b1, M, N] = act(scale * A[b0, b1, M, K] @ B[b0, b1, K, N] + bias + residual).

A and B are bf16, or f32 that is rounded to bf16 when it is packed; sums are f32. Tiles multiply *pairs* of
adjacent elements along K (``library/pairs.h``). So they are the tiles of an f32 product with half the K: with
AVX512-BF16, one instruction does both multiply-adds of a lane. :data:`PACKED` takes B in panels of pairs
(:func:`panels`); :data:`UNPACKED` takes B with strides; :data:`DUAL` multiplies A by two packed factors, and
:data:`GROUPED` and :data:`GROUPED_PACKED` multiply groups of rows by one matrix each.
Loops, blocks and chunks are those of :mod:`~graphwright.kernels.gemm.problem`, with K counted in pairs. Rows
of A are read in place if they are dense bf16 of an even length.
"""

from __future__ import annotations

from typing import Final

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, ceildiv, maximum, symbol
from graphwright.ir.types import Layout
from graphwright.kernels.gemm import dual_gemm, grouped_gemm, problem
from graphwright.kernels.gemm import grid as grids
from graphwright.kernels.gemm.dual_gemm import DualArgs
from graphwright.kernels.gemm.grouped_gemm import GroupedArgs
from graphwright.kernels.gemm.problem import ABI, GemmArgs
from graphwright.kernels.gemm.streams import streams
from graphwright.kernels.library.amx import AMX_TILE_ROWS
from graphwright.kernels.library.arguments import Arguments
from graphwright.kernels.library.extent import FLAG, Extent, Reach, dense, within
from graphwright.kernels.library.tile import K_RUN
from graphwright.kernels.library.tile_tables import pair_tiles
from graphwright.records import dataclass, replace
from graphwright.targets.cpu.isa import Isa

PACKED: Final = "gw_gemm_bf16_packed"
UNPACKED: Final = "gw_gemm_bf16"
DUAL: Final = "gw_gemm_bf16_dual"
GROUPED: Final = "gw_gemm_bf16_grouped"
GROUPED_PACKED: Final = "gw_gemm_bf16_grouped_packed"
VECTORS: Final = "gw_gemm_bf16_vectors"
""":data:`PACKED` without AMX, even on CPUs that have it."""
WIDE: Final = "gw_gemm_bf16_wide"
""":data:`PACKED` without AMX and AVX512-BF16, even on CPUs that have them."""


@dataclass(frozen=True)
class Bf16Args(Arguments):
    """The arguments after those of a GEMM. Strides are in elements, those of a packed B in pairs."""

    a_single: Dim
    """Whether A is f32."""
    b_single: Dim
    """Whether B is f32, unless it is packed."""


def panels(rank: int, isa: Isa) -> Layout:
    """The layout of a packed B of ``rank`` axes: [panels of columns, pairs along K, columns, 2]."""
    k, n = rank - 2, rank - 1
    return Layout((*range(k), n, k), ((n, problem.panel_columns(isa)), (k, 2)), zero_padded=True)


def _pairs(args: GemmArgs) -> GemmArgs:
    """``args`` with K counted in pairs."""
    return replace(args, k=ceildiv(args.k, 2))


def scratch_bytes(isa: Isa, args: GemmArgs, *, packed: bool) -> Dim:
    """The bytes of a GEMM with K in pairs; if A has few rows, its packed rows are next to their sums."""
    pairs = _pairs(args)
    most = maximum(*(problem.scratch_bytes(isa, pairs, packed=packed, tile_rows=n) for n in _tile_rows(isa)))
    few = 4 * problem.FEW_ROWS * (ceildiv(pairs.k, K_RUN) * K_RUN + 4 * problem.panel_columns(isa))
    return maximum(most, few if packed else 0)


def _tile_rows(isa: Isa) -> tuple[int, ...]:
    """The rows of the tiles of all units that the ISA can have."""
    own = problem.tile_shape(isa).rows
    return (own, AMX_TILE_ROWS) if isa.vector_bytes == 64 else (own,)


_EFFICIENCY: Final = {"v3": 40, "v4": 94}
"""Percent of the peak that the products reach, by instruction set."""
_PACK_CYCLES: Final = 3
"""The cycles for rounding and packing a vector of A."""


def work_ns(isa: Isa, args: GemmArgs) -> Dim:
    """The predicted time on one core, in nanoseconds: that of a GEMM with faster products and half the bytes
    of B.
    """
    batch, b = args.batch0 * args.batch1, args.k * args.n
    vectors = batch * args.m * ceildiv(args.n, isa.lanes)
    packed = args.b_k == 0 and args.b_n == 0
    work = Work(
        pair_fmas=vectors * isa.lanes * args.k,
        efficiency=_EFFICIENCY[isa.name],
        cycles=problem.BATCH_CYCLES * batch
        + problem.STORE_CYCLES * vectors
        + _PACK_CYCLES * batch * args.m * ceildiv(args.k, isa.lanes),
        moved=2 * batch * (args.m * (args.k + 2 * args.n) + (0 if packed else b)),
        weights=2 * batch * b if packed else 0,
    )
    return predict(work, isa.machine)


def extents(isa: Isa) -> tuple[Extent, ...]:
    """The memory that the kernels access."""
    a = GemmArgs.symbols()
    own = Bf16Args.symbols()
    batch, width = ((a.batch0, a.b_batch0), (a.batch1, a.b_batch1)), problem.panel_columns(isa)
    in_panels = Reach(4, (*batch, (ceildiv(a.n, width) * width * ceildiv(a.k, 2), 1)))
    plain = Reach(2 + 2 * own.b_single, (*batch, (a.k, a.b_k), (a.n, a.b_n)))
    packed = _extent(isa, PACKED, in_panels, scratch_bytes(isa, a, packed=True))
    return (
        packed,
        replace(packed, symbol=VECTORS),
        replace(packed, symbol=WIDE),
        _extent(isa, UNPACKED, plain, scratch_bytes(isa, a, packed=False)),
        _dual_extent(isa),
        *_grouped_extents(isa),
    )


def _extent(isa: Isa, name: str, b: Reach, scratch: Dim) -> Extent:
    made = problem.extent(isa, name, ABI, {"b": b}, scratch)
    a_item = 2 + 2 * symbol("a_single")
    operands = (replace(made.operands[0], item=a_item), *made.operands[1:])
    bounds = {**(made.bounds or {}), "a_single": FLAG, "b_single": FLAG}
    return replace(made, args=(*made.args, *Bf16Args.names()), operands=operands, bounds=bounds)


def _dual_extent(isa: Isa) -> Extent:
    a = DualArgs.symbols()
    left = dense(2 + 2 * symbol("a_single"), a.m, a.k)
    scratch = scratch_bytes(isa, dual_gemm.panels(isa, a), packed=True)
    made = dual_gemm.extent(isa, DUAL, left, ceildiv(a.k, 2), scratch)
    return replace(made, args=(*made.args, "a_single"), bounds={"a_single": FLAG})


def _grouped_extents(isa: Isa) -> tuple[Extent, ...]:
    a, own = GroupedArgs.symbols(), Bf16Args.symbols()
    left, product = dense(2 + 2 * own.a_single, a.m, a.k), grouped_gemm.product(a)
    plain = dense(2 + 2 * own.b_single, a.groups, a.k, a.n)
    panels = grouped_gemm.panels_of(isa, ceildiv(a.k, 2))
    made = (
        grouped_gemm.extent(isa, GROUPED, left, plain, scratch_bytes(isa, product, packed=False)),
        grouped_gemm.extent(isa, GROUPED_PACKED, left, panels, scratch_bytes(isa, product, packed=True)),
    )
    flags = within(FLAG, *Bf16Args.names())
    return tuple(replace(each, args=(*each.args, *Bf16Args.names()), bounds=flags) for each in made)


def header(isa: Isa) -> str:
    """The generated header of ``bf16_gemm.c``."""
    shape = problem.tile_shape(isa)
    own = f"enum {{ BF16_ARGS = GEMM_ARGS + {len(Bf16Args.names())}, BF16_DUAL_ARGS = DUAL_ARGS + 1 }};\n"
    sizes = problem.sizes_text(isa, max(_tile_rows(isa)))
    constants = ABI.c_text() + dual_gemm.ABI.c_text() + grouped_gemm.c_text() + sizes
    return "\n".join([constants, own, grids.c_text(), pair_tiles(shape, isa), _streams(isa)])


def _streams(isa: Isa) -> str:
    """The streaming kernels, which exist only for ISAs that can have instructions for pairs."""
    return streams(problem.tile_shape(isa), isa, pairs=True) if isa.vector_bytes == 64 else ""

"""The product of all GEMM kernels: C[b0, b1, M, N] = act(scale * A[b0, b1, M, K] @ B[b0, b1, K, N] + bias +
residual), f32. Its arguments, tiles and blocks, predicted time, and the memory that it accesses.

There are two batch axes because attention heads ([batch, sequence, head, feature] viewed as [batch, head,
...]) cannot be flattened to one stride.

A unit of the grid is a part of the rows times one or two panels of columns. Consecutive units of a chunk are
computed together, so that they share a block of A in the L2 cache. A is read in place if its rows are dense
and vectors are long, else it is packed. If A has at most as many rows as a tile and B is packed, the product
is bound by reading B: several panels are read in parallel, to reach the memory bandwidth. Blocks of K, row
tiles and column panels depend only on sizes, so every division into chunks gives the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from graphwright.cost.predict import Work, predict
from graphwright.ir.symbols import Dim, ceildiv, maximum, minimum
from graphwright.kernels.gemm import gemv, nbits, nbits_dynamic
from graphwright.kernels.gemm import grid as grids
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.arguments import Arguments
from graphwright.kernels.library.extent import BITS, Extent, Reach, Tiles, stride_bounds, within
from graphwright.kernels.library.tile import K_RUN, TileShape
from graphwright.records import dataclass, replace
from graphwright.targets.cpu.isa import Isa

K_BLOCK: Final = 768
"""The longest block of K; a longer K is cut into blocks of nearly equal length."""
_A_PITCH: Final = K_BLOCK + 16
"""Columns allocated for a packed row of A; the last vector store may write beyond the row."""
FEW_ROWS: Final = 16
"""With at most this many rows, reading a packed B takes longer than the arithmetic."""
_STREAM_K_BLOCK: Final = 512
"""The longest block of K if B is streamed: twice :data:`CHAIN`, as with few rows more blocks take longer."""
_STREAM_AHEAD: Final = 768
"""The prefetch distance of each stream of B, in elements."""
BLOCK_ROWS: Final = 144
"""Rows of A that are computed together: B is read (and, if necessary, packed) once for them."""
_HELD: Final = 16
"""Tiles of the same columns that are collected for one call of a hook: each call disturbs the products."""
DOT_LENGTH: Final = 32
"""The shortest K for which dot products are faster than tiles: two vectors of the widest ISA."""
_RUN_PANELS: Final = 16
"""The most panels that are computed together; the partial sums between blocks of K have room for these."""
_GROUP_PANELS: Final = 64
"""The most panels that are computed together if there is a single block of K: all row blocks use them before
the next panels are read from memory.
"""


@dataclass(frozen=True)
class GemmArgs(Arguments):
    """The arguments of the kernel. Strides are in elements. A packed B only has strides of the batch axes."""

    batch0: Dim
    batch1: Dim
    m: Dim
    n: Dim
    k: Dim
    a_batch0: Dim
    a_batch1: Dim
    a_m: Dim
    a_k: Dim
    b_batch0: Dim
    b_batch1: Dim
    b_k: Dim
    b_n: Dim
    bias_m: Dim
    bias_n: Dim
    c_batch0: Dim
    c_batch1: Dim
    c_m: Dim
    c_n: Dim
    r_batch0: Dim
    """Strides of the residual."""
    r_batch1: Dim
    r_m: Dim
    r_n: Dim
    act: Dim
    """0 none, 1 relu, 2 clip; all keep NaN."""
    lo: Dim
    """The f32 bits of the bounds of a clip (``bits.single_bits``)."""
    hi: Dim
    scale: Dim
    """The f32 bits of a factor of A @ B."""


ABI: Final = Abi("gemm", ("a", "b", "bias", "residual", "c"), GemmArgs.names())
"""``bias`` and ``residual`` may be absent; ``c`` is ignored if there is a hook."""


def tile_shape(isa: Isa) -> TileShape:
    """The largest tile: 9 x 3 accumulators fill 27 of 32 registers, 6 x 2 fill 12 of 16."""
    if isa.vector_bytes == 64:
        return TileShape(rows=9, vectors=3, a_row=K_RUN, a_k=1, a_skip=8 * K_RUN)
    return TileShape(rows=6, vectors=2, a_row=K_RUN, a_k=1, a_skip=5 * K_RUN, unroll=4)


def panel_columns(isa: Isa) -> int:
    """Columns per panel of packed B (``nr``)."""
    return tile_shape(isa).columns(isa)


def is_narrow(n: Dim, k: Dim) -> bool:
    """Whether a constant B should be transposed instead of packed, so that elements of the result are dot
    products.
    """
    return isinstance(n, int) and n <= gemv.NARROW and isinstance(k, int) and k >= DOT_LENGTH


def grid(isa: Isa, args: GemmArgs) -> Dim:
    """The number of units of work."""
    tiles = ceildiv(args.m, tile_shape(isa).rows)
    blocks = ceildiv(args.m, BLOCK_ROWS)
    return grids.units(args.batch0 * args.batch1, blocks, tiles, args.n, panel_columns(isa))


def scratch_bytes(isa: Isa, args: GemmArgs, *, packed: bool, tile_rows: int | None = None) -> Dim:
    """The bytes of packed A, of one panel of B, and of partial sums between blocks of K. ``tile_rows``: by
    default those of :func:`tile_shape`.
    """
    width, height = panel_columns(isa), tile_rows or tile_shape(isa).rows
    rows = ceildiv(minimum(args.m, BLOCK_ROWS), height) * height
    panels = minimum(ceildiv(args.n, width), _RUN_PANELS)
    panel = 0 if packed else minimum(args.k, K_BLOCK) * width
    sums = minimum(maximum(args.k - K_BLOCK, 0), 1) * rows * panels * width
    return 4 * (rows * _A_PITCH + panel + sums)


def dense_product(m: Dim, n: Dim, k: Dim) -> GemmArgs:
    """The arguments of a dense A[M, K] times a packed B, without bias or residual."""
    zeros = GemmArgs(*[0] * len(GemmArgs.names()))
    return replace(zeros, batch0=1, batch1=1, m=m, n=n, k=k, a_m=k, a_k=1)


EFFICIENCY: Final = {"v3": 90, "v4": 96}
"""The percentage of the peak that the products reach, by ISA."""
BATCH_CYCLES: Final = 150
STORE_CYCLES: Final = 5
"""The cycles for storing a vector of C, with bias and activation."""
_NARROW: Final = 5
"""With fewer columns, elements of the result are dot products along K."""


def work_ns(isa: Isa, args: GemmArgs) -> Dim:
    """The predicted time on one core, in nanoseconds: products of whole vectors of columns, storing C by
    tiles, reading A and B. A packed B is assumed to be weights.
    """
    batch, b = args.batch0 * args.batch1, args.k * args.n
    vectors = batch * args.m * ceildiv(args.n, isa.lanes)
    packed = args.b_k == 0 and args.b_n == 0
    narrow = isinstance(args.n, int) and args.n < _NARROW
    work = Work(
        fmas=batch * args.m * b if narrow else vectors * isa.lanes * args.k,
        efficiency=EFFICIENCY[isa.name],
        cycles=batch * BATCH_CYCLES + STORE_CYCLES * vectors,
        moved=4 * batch * (args.m * (args.k + args.n) + (0 if packed else b)),
        weights=4 * batch * b if packed else 0,
    )
    return predict(work, isa.machine)


def extent(isa: Isa, name: str, abi: Abi, b: Mapping[str, Reach], scratch: Dim) -> Extent:
    """The memory that a kernel accesses which takes B as ``b``."""
    a = GemmArgs.symbols()
    matrix = ((a.batch0, a.a_batch0), (a.batch1, a.a_batch1), (a.m, a.a_m), (a.k, a.a_k))
    residual = ((a.batch0, a.r_batch0), (a.batch1, a.r_batch1), (a.m, a.r_m), (a.n, a.r_n))
    result = ((a.batch0, a.c_batch0), (a.batch1, a.c_batch1), (a.m, a.c_m), (a.n, a.c_n))
    return Extent(
        name,
        GemmArgs.names(),
        abi.ordered(
            a=Reach(4, matrix),
            bias=Reach(4, ((a.m, a.bias_m), (a.n, a.bias_n)), optional=True),
            residual=Reach(4, residual, optional=True),
            c=Reach(4, result, unhooked=True),
            **b,
        ),
        grid=grid(isa, a),
        scratch=scratch,
        bounds=stride_bounds(GemmArgs.names(), "a", "b", "bias", "c", "r")
        | within(BITS, "lo", "hi", "scale"),
        tiles=Tiles(a.batch0 * a.batch1, a.m, a.n),
    )


def sizes_text(isa: Isa, most_tile_rows: int | None = None) -> str:
    """Sizes of tiles and blocks, as C. ``most_tile_rows``: by default those of
    :func:`tile_shape`.
    """
    shape = tile_shape(isa)
    return f"""
#define MR {shape.rows} /* rows of a tile */
#define MOST_TILE_ROWS {most_tile_rows or shape.rows}
#define NR {shape.columns(isa)} /* columns of a tile, and of a panel of B */
#define HELD {_HELD} /* tiles that wait for a hook */
#define K_BLOCK {K_BLOCK}
#define UNROLL {shape.unroll}
#define STREAM_AHEAD {_STREAM_AHEAD}
#define FEW_ROWS {FEW_ROWS}
#define GROUP_ROWS {shape.rows} /* rows that are computed together if A has few */
#define STREAM_K_BLOCK {_STREAM_K_BLOCK}
#define SHARED_K_BLOCK {isa.machine.l1.bytes // 16 // shape.columns(isa)} /* read again from L1 */
#define A_PITCH {_A_PITCH}
#define BLOCK_TILES {BLOCK_ROWS // shape.rows} /* tiles of rows of a unit */
#define RUN_PANELS {_RUN_PANELS}
#define GROUP_PANELS {_GROUP_PANELS}
#define K_RUN {K_RUN}
#define SET_PERIOD {isa.machine.l1_period} /* elements between addresses that map to one set of L1 */
#define SET_APART 4 /* rows of A map to several sets at this distance from a multiple of it */
#define CODES_ROWS {nbits.STREAM_ROWS} /* for up to this many rows of A, codes are decoded in registers */
#define CODES_GROUP {nbits.group_rows(isa)} /* the number of these rows that share decoded weights */
#define BYTE_MOST {nbits_dynamic.MOST} /* the largest magnitude of a quantized number of A */
"""

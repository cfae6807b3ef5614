"""A dual GEMM multiplies A by two packed matrices of the same size. It requires a hook, which receives tiles
of both products: each row has that of the first product, then that of the second.
"""

from __future__ import annotations

from typing import Final

from graphwright.ir.symbols import Dim, ceildiv
from graphwright.kernels.gemm import problem
from graphwright.kernels.gemm.problem import GemmArgs
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.arguments import Arguments
from graphwright.kernels.library.extent import Extent, Reach, Tiles, dense
from graphwright.records import dataclass
from graphwright.targets.cpu.isa import Isa


@dataclass(frozen=True)
class DualArgs(Arguments):
    """The arguments of the kernel. A[M, K] is dense."""

    m: Dim
    n: Dim
    """The columns of each product."""
    k: Dim


ABI: Final = Abi("dual", ("a", "b", "second"), DualArgs.names())


def product(args: DualArgs) -> GemmArgs:
    """The arguments of one product with the columns of both."""
    return problem.dense_product(args.m, 2 * args.n, args.k)


def panels(isa: Isa, args: DualArgs) -> GemmArgs:
    """The arguments of one product with the panels of both."""
    width = problem.panel_columns(isa)
    return problem.dense_product(args.m, 2 * ceildiv(args.n, width) * width, args.k)


def grid(isa: Isa, args: DualArgs) -> Dim:
    """The number of units of work, each with panels of both products."""
    return problem.grid(isa, problem.dense_product(args.m, args.n, args.k))


def extent(isa: Isa, name: str, left: Reach, depth: Dim, scratch: Dim) -> Extent:
    """The memory that a dual kernel accesses. ``depth``: rows of a panel, with elements of 4 bytes."""
    a = DualArgs.symbols()
    width = problem.panel_columns(isa)
    panels = dense(4, ceildiv(a.n, width) * width, depth)
    return Extent(
        name,
        DualArgs.names(),
        ABI.ordered(a=left, b=panels, second=panels),
        grid=grid(isa, a),
        scratch=scratch,
        tiles=Tiles(1, a.m, a.n),
        needs_hook=True,
    )

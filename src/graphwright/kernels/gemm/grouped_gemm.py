"""A grouped GEMM multiplies consecutive groups of rows of A by one matrix each, as mixtures of experts do
(Shazeer et al. 2017): C[m] = A[m, K] @ B[g, K, N] for the rows m of group g.

Where groups end is only known at run time. A unit of the grid is a group times a part of the columns, and all
groups of one part are consecutive, so that threads have equal shares of the columns however many rows a group
has. Each unit is a GEMM (:mod:`~graphwright.kernels.gemm.problem`) of its own; the last unit of a part sets
the rows after the last group to 0.
"""

from __future__ import annotations

from typing import Final

from graphwright.ir.symbols import Dim, ceildiv, maximum, minimum
from graphwright.kernels.gemm import problem
from graphwright.kernels.gemm.problem import GemmArgs
from graphwright.kernels.library.abi import Abi
from graphwright.kernels.library.arguments import Arguments
from graphwright.kernels.library.extent import Extent, Reach, dense
from graphwright.records import dataclass, replace
from graphwright.targets.cpu.isa import Isa

_MOST_PARTS: Final = 16
_PART_PANELS: Final = 4
"""The fewest panels of a part: rows of A are packed, or read into the L1 cache, once for each part."""


@dataclass(frozen=True)
class GroupedArgs(Arguments):
    """The arguments of the kernel. A[M, K] is dense; B is packed in panels, or dense in row-major order.
    ``end_size``: the bytes of an end.
    """

    groups: Dim
    m: Dim
    n: Dim
    k: Dim
    end_size: Dim


ABI: Final = Abi("grouped", ("a", "b", "ends", "c"), GroupedArgs.names())


def product(args: GroupedArgs) -> GemmArgs:
    """The arguments of one product with all rows and columns."""
    return problem.dense_product(args.m, args.n, args.k)


def grid(isa: Isa, args: GroupedArgs) -> Dim:
    """The number of units of work."""
    panels = ceildiv(args.n, problem.panel_columns(isa))
    return (args.groups + 1) * minimum(ceildiv(panels, _PART_PANELS), _MOST_PARTS)


def similar_product(args: GroupedArgs, *, packed: bool) -> GemmArgs:
    """The arguments of a batch of products that takes about as long, with equally many rows in each group."""
    groups = maximum(minimum(args.groups, args.m), 1)
    batch = problem.dense_product(ceildiv(args.m, groups), args.n, args.k)
    return replace(batch, batch0=groups, b_k=0 if packed else args.n, b_n=int(not packed))


def extent(isa: Isa, name: str, left: Reach, right: Reach, scratch: Dim) -> Extent:
    """The memory that a grouped kernel accesses."""
    a = GroupedArgs.symbols()
    ends = Reach(a.end_size, ((a.groups, 1),))
    return Extent(
        name,
        GroupedArgs.names(),
        ABI.ordered(a=left, b=right, ends=ends, c=dense(4, a.m, a.n)),
        grid=grid(isa, a),
        scratch=scratch,
        choices={"end_size": (4, 8)},
    )


def panels_of(isa: Isa, depth: Dim) -> Reach:
    """The packed matrices of all groups; ``depth``: rows of a panel, with elements of 4 bytes."""
    a = GroupedArgs.symbols()
    width = problem.panel_columns(isa)
    return dense(4, a.groups, ceildiv(a.n, width) * width, depth)


def c_text() -> str:
    """The C code that ``grouped.h`` includes."""
    return f"""
#define MOST_PARTS {_MOST_PARTS} /* of the columns of a grouped product */
#define PART_PANELS {_PART_PANELS} /* the fewest panels of a part */
{ABI.c_text()}"""

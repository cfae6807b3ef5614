"""The Fused op, a region that one kernel computes, and the schedule of the loops of the kernel."""

from __future__ import annotations

import enum
from typing import Final

from graphwright.ir.graph import Graph, Node, Value
from graphwright.ir.op import op
from graphwright.ir.op.region_op import CallOp
from graphwright.ir.symbols import Dim
from graphwright.records import dataclass

UNNAMED: Final = "region"
"""The name of a region before :mod:`graphwright.fusion.region_names` gives it one."""


class Strategy(enum.Enum):
    """How the loops of a region are arranged. The value of a member describes it."""

    ROWS = "vectorized along the innermost axis, with a grid over the axes that are not reduced"
    SHORT_ROWS = "vectorized along a short innermost axis, with a loop over rows inside the vector loop"
    COLUMNS = (
        "vectorized along the innermost axis, with reductions over outer axes that accumulate in the cache"
    )
    LANES = "each vector lane reduces a row of its own and accumulates in a register"
    EPILOGUE = "called by the kernel of a contraction on each finished tile"


@dataclass(frozen=True)
class Term:
    """One term of an address in elements: ``stride * (start + step * position)``.

    ``position`` is the index along ``axes`` of the schedule, which are treated as one axis. If ``modulus`` is
    not 0, the expression in parentheses is taken modulo ``modulus``.
    """

    axes: tuple[int, ...]
    stride: Dim
    start: int = 0
    step: int = 1
    modulus: Dim = 0


@dataclass(frozen=True)
class Access:
    """The address of a value whose elements are not contiguous along the axes of the loops: a slice of an
    operand, or a rolled value.

    The kernel loads ``value`` from, or stores it to, the memory of the value ``memory``. Both are positions
    in :func:`region_values`.
    """

    value: int
    memory: int
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class Schedule:
    """The loops of a region: their axes, and how a kernel executes them."""

    strategy: Strategy
    axes: tuple[Dim, ...]
    """The extents of the loops, outermost first."""
    reduced: tuple[int, ...] = ()
    """The positions of the axes that reductions reduce."""
    walks: tuple[tuple[int, ...], ...] = ()
    """The indexing map of each value in :func:`region_values`: the positions of the axes along which the
    value varies, in memory order. The operands of a contraction vary along none.
    """
    block: int = 0
    """Iterations per unit of work of the axis that is split into blocks (columns, short rows or lanes); 0 if
    no axis is.
    """
    unroll: int = 1
    """Rows per iteration."""
    sums: int = 1
    """Independent partial sums per lane."""
    keeps_rows: bool = False
    """Whether costly values are kept in memory for a later pass over their row."""
    dims: tuple[int, ...] = ()
    """In an epilogue: the number of axes of each dim of the contraction's result."""
    accesses: tuple[Access, ...] = ()
    """The addresses of slices of operands and of rolled values."""


@op("Fused")
class Fused(CallOp):
    """Computes its region in one kernel. Inlining the region undoes the fusion.

    ``schedule`` is None until the scheduling pass has run.
    """

    results: int = 1
    schedule: Schedule | None = None


def region_of(node: Node) -> Graph:
    """The only region of a Fused node."""
    (region,) = node.regions
    return region


def region_values(region: Graph) -> list[Value]:
    """The values of a region: its inputs, then the outputs of its nodes."""
    return [*region.inputs, *(value for node in region for value in node.outputs)]


def op_names(node: Node) -> list[str]:
    """The names of the ops that ``node`` computes; for a fused region, those of its nodes except
    constants.
    """
    if not isinstance(node.op, Fused):
        return [node.op.name]
    return [inner.op.name for inner in region_of(node) if not inner.is_constant]

"""A closed region that becomes one kernel, and the schedule of its loops."""

from __future__ import annotations

import enum
from typing import Final

from graphwright.ir.constant import Constant
from graphwright.ir.graph import Graph, Node, Value
from graphwright.ir.op import op
from graphwright.ir.region_op import CallOp
from graphwright.ir.symbols import Dim
from graphwright.records import dataclass

UNNAMED: Final = "region"
"""What a region is called until :mod:`graphwright.fusion.region_names` names it."""


class Strategy(enum.Enum):
    """How the loops of a region are arranged."""

    ROWS = "lanes along the innermost axis, the grid over the axes that are not reduced"
    SHORT_ROWS = "lanes along a short innermost axis, a loop over rows inside them"
    COLUMNS = "lanes along the innermost axis, and reductions over the axes around it in the cache"
    LANES = "each lane folds a row of its own, whose sums stay in a register"
    EPILOGUE = "on each finished tile of a contraction, by the kernel that computes it"


@dataclass(frozen=True)
class Term:
    """What the position along ``axes`` of a schedule, taken as one, adds to an address in elements:
    ``stride * (start + step * position)``, where that in parentheses is modulo ``modulus`` unless it is 0.
    """

    axes: tuple[int, ...]
    stride: Dim
    start: int = 0
    step: int = 1
    modulus: Dim = 0


@dataclass(frozen=True)
class Access:
    """Where elements of a value of a region lie if not one after the other along the axes that it walks.

    ``value`` is loaded from, or stored to, the memory of ``memory``; both are numbered as in
    :attr:`Schedule.walks`.
    """

    value: int
    memory: int
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class Schedule:
    """The loops of a region: their axes, and how a kernel walks them.

    ``axes``: extents, outermost first. ``reduced``: positions of those that reductions fold. ``walks``: for
    each value of the region, inputs first, then those of its nodes, the positions of the axes that it varies
    along, in the order in which it lies in memory; the operands of a contraction vary along none. ``block``:
    iterations of the blocked axis (the columns, the rows of short ones, the lanes) per unit of work, 0 where
    none is blocked. ``jam``: rows that
    are computed side by side. ``sums``: partial sums of a lane that are folded side by side.
    ``keeps_rows``: whether costly values wait in memory for a later pass over their row. ``dims``: of an
    epilogue, how many axes each dim of the contraction's result has. ``accesses``: of values that are cut out
    of an operand, or rolled along an axis.
    """

    strategy: Strategy
    axes: tuple[Dim, ...]
    reduced: tuple[int, ...] = ()
    walks: tuple[tuple[int, ...], ...] = ()
    block: int = 0
    jam: int = 1
    sums: int = 1
    keeps_rows: bool = False
    dims: tuple[int, ...] = ()
    accesses: tuple[Access, ...] = ()


@op("Fused")
class Fused(CallOp):
    """Computes its region in one kernel. Inlining it unfuses. Without a ``schedule`` until one is chosen."""

    results: int = 1
    schedule: Schedule | None = None


def region_of(node: Node) -> Graph:
    """The only region of a Fused node."""
    (region,) = node.regions
    return region


def region_values(region: Graph) -> list[Value]:
    """The values of a region in the order of :attr:`Schedule.walks`."""
    return [*region.inputs, *(value for node in region for value in node.outputs)]


def op_names(node: Node) -> list[str]:
    """The ops that ``node`` computes: its own, of a fused region those of its nodes but constants."""
    if not isinstance(node.op, Fused):
        return [node.op.name]
    return [inner.op.name for inner in region_of(node) if not isinstance(inner.op, Constant)]

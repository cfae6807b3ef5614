"""Which legal fusions pay. First form: a fused intermediate saves one write and one read; capacity sets the
limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphwright.cost.machine import Machine
from graphwright.ir.graph import Node
from graphwright.ir.symbols import product
from graphwright.loop_nests.axes import Nest

Benefit = Callable[[Sequence[Node], Nest, Machine], str | None]
"""Of nodes that one kernel could compute, and their analysis: None to merge them, else why not."""
ROW_SHARE = 80
"""Percent of the second-level cache that one row's operands may take if they are walked several times."""


def worth_fusing(nodes: Sequence[Node], nest: Nest, machine: Machine) -> str | None:
    """None if the fused kernel is expected to be faster than its parts, else the reason."""
    if not nest.reduced:
        return None
    row = product([nest.axes.extents[a] for a in nest.reduced])
    inner_is_reduced = nest.domain[-1] in nest.reduced
    room = machine.l2.bytes * ROW_SHARE // 100
    if isinstance(row, int) and inner_is_reduced and 4 * row * (1 + len(nest.reads)) > room:
        return f"rows of {row} elements do not stay in the cache between passes"
    return None

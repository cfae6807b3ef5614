"""Which legal fusions pay. First form: a fused intermediate saves one write and one read; capacity sets the
limit."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.graph import Node
from graphwright.ir.symbols import product
from graphwright.loop_nests.axes import Nest

ROW_CAPACITY = int(0.8 * 1024 * 1024)
"""Bytes of one row's operands that may be walked several times: 0.8 of a second-level cache of 1 MiB."""


def worth_fusing(nodes: Sequence[Node], nest: Nest) -> str | None:
    """None if the fused kernel is expected to be faster than its parts, else the reason."""
    if not nest.reduced:
        return None
    row = product([nest.axes.extents[a] for a in nest.reduced])
    inner_is_reduced = nest.domain[-1] in nest.reduced
    if isinstance(row, int) and inner_is_reduced and 4 * row * (1 + len(nest.reads)) > ROW_CAPACITY:
        return f"rows of {row} elements do not stay in the cache between passes"
    return None

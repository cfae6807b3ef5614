"""Remarks of the layout passes: which nodes requested a layout, and which conversions remain."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from graphwright.ir.graph import Node, Value
from graphwright.ir.symbols import Dim
from graphwright.layout.choose import LayoutChoice
from graphwright.records import dataclass

ROWS: Final = "rows"
"""The name of the row-major layout in reports."""


@dataclass(frozen=True)
class LayoutRequest:
    """A node whose kernel saves ``saves`` nanoseconds in ``layout``; None if it has no kernel for any other
    layout.
    """

    location: str
    layout: str
    saves: int | None


@dataclass(frozen=True)
class LayoutCopy:
    """A conversion of ``value`` to ``layout`` for its first ``reader``, and the reason for it.

    ``value`` is the name of the producer, or of the input. ``moved``: bytes that a run reads and writes for
    it; 0 if both layouts are the same bytes.
    """

    value: str
    layout: str
    reader: str
    why: str
    moved: Dim


@dataclass(frozen=True)
class CopyReasons:
    """Says why layout conversions remain, from the decisions about the nodes of a graph."""

    forms: Mapping[Node, LayoutChoice]
    """The nodes that could use the other layout."""
    chosen: Mapping[Node, LayoutChoice]
    """The nodes that use it."""
    refused: Mapping[Node, str]
    """The nodes that cannot use it, and why."""

    def into_rows(self, reader: Node | None) -> str:
        """Why ``reader`` needs a value row-major. None stands for an output of the graph."""
        if reader is None:
            return "outputs of graphs are row-major"
        return self._why(reader, "reads this operand row-major")

    def into_other(self, value: Value) -> str:
        """Why the producer of ``value`` does not write the other layout, which a reader needs."""
        if value.producer is None:
            return "inputs of graphs are row-major"
        return self._why(value.producer, "writes this result row-major")

    def _why(self, node: Node, does: str) -> str:
        if node in self.refused:
            return self.refused[node]
        if node in self.chosen or node not in self.forms:
            return f"{node.op.name} {does}"
        return f"{node.op.name} would save less than additional conversions cost"


def requests(chosen: Mapping[Node, LayoutChoice], layout: str) -> Iterator[LayoutRequest]:
    """The chosen nodes that save time themselves. Other nodes use the layout of their neighbors."""
    for node, form in chosen.items():
        if form.saves > 0:
            yield LayoutRequest(node.location, layout, None if math.isinf(form.saves) else round(form.saves))


def value_name(value: Value) -> str:
    """The name of ``value`` in reports."""
    return f"input {value.name}" if value.producer is None else value.producer.location

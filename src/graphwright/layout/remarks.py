"""What the passes about layouts tell those who ask why: who wanted a layout, and which copies are left."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from graphwright.ir.graph import Node, Value
from graphwright.ir.symbols import Dim
from graphwright.layout.choose import LayoutChoice
from graphwright.records import dataclass

ROWS: Final = "rows"
"""The plain layout: row-major."""


@dataclass(frozen=True)
class LayoutRequest:
    """A node whose kernel is faster in ``layout``: by ``saves`` nanoseconds; None where it has no other."""

    place: str
    layout: str
    saves: int | None


@dataclass(frozen=True)
class LayoutCopy:
    """A copy of ``value`` into ``layout`` for ``reader``, its first one, and why the two differ.

    ``value`` is called as the node that makes it, or as the input. ``moved``: bytes that are read and written
    in one run; 0 where both layouts are the same bytes.
    """

    value: str
    layout: str
    reader: str
    why: str
    moved: Dim


@dataclass(frozen=True)
class CopyReasons:
    """What was decided about each node of a graph: ``forms`` could work in the other layout, ``chosen`` do,
    ``refused`` cannot.
    """

    forms: Mapping[Node, LayoutChoice]
    chosen: Mapping[Node, LayoutChoice]
    refused: Mapping[Node, str]

    def into_rows(self, reader: Node | None) -> str:
        """Why a reader of a value in the other layout wants rows; None is an output of the graph."""
        return (
            "outputs of graphs are rows"
            if reader is None
            else self._why(reader, "reads this operand in rows")
        )

    def into_other(self, value: Value) -> str:
        """Why a value that a reader wants in the other layout is made in rows."""
        maker = value.producer
        return (
            "inputs of graphs are rows" if maker is None else self._why(maker, "writes this result in rows")
        )

    def _why(self, node: Node, does: str) -> str:
        if node in self.refused:
            return self.refused[node]
        if node in self.chosen or node not in self.forms:
            return f"{node.op.name} {does}"
        return f"{node.op.name} would gain less than other copies cost"


def requests(chosen: Mapping[Node, LayoutChoice], layout: str) -> Iterator[LayoutRequest]:
    """The nodes that the choice was made for; others follow their neighbours."""
    for node, form in chosen.items():
        if form.saves > 0:
            yield LayoutRequest(node.place, layout, None if math.isinf(form.saves) else round(form.saves))


def value_name(value: Value) -> str:
    """What reports call ``value``."""
    return f"input {value.name}" if value.producer is None else value.producer.place

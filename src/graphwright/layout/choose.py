"""Chooses the nodes of a graph that use another layout than row-major, so that the total time is least.

This is a binary labeling problem, solved by a minimum cut (Greig, Porteous and Seheult, 1989). A label is a
layout. The cost of a node is the time that it loses with its label. The cost of a value is one conversion if
its producer and any of its readers have different labels. Graph inputs and outputs are row-major.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from graphwright.ir.graph import Graph, Node, Value
from graphwright.layout.min_cut import INFINITE, SINK, SOURCE, Network
from graphwright.records import dataclass

_ROWS: Final = "row-major"
_OTHER: Final = "other"


@dataclass(frozen=True)
class LayoutChoice:
    """The positions of ``operands`` and ``results`` in the other layout, and the nanoseconds that this
    ``saves`` against row-major.
    """

    operands: frozenset[int]
    results: frozenset[int]
    saves: float = 0.0


def choose_nodes(
    graph: Graph, forms: Mapping[Node, LayoutChoice], transfer_ns: Callable[[Value], float]
) -> set[Node]:
    """The nodes of ``forms`` that use the other layout. ``transfer_ns`` gives the cost of converting a
    value.
    """
    if all(form.saves <= 0 for form in forms.values()):
        return set()
    network = Network()
    for node, form in forms.items():
        network.edge(SOURCE, node, max(form.saves, 0))
        network.edge(node, SINK, max(-form.saves, 0))
    for value in _images(forms):
        producer = value.producer
        produced = None if producer is None else forms.get(producer)
        source = producer if produced is not None and value.index in produced.results else SINK
        network.edge((_ROWS, value), SINK, 0)
        network.edge(SOURCE, (_OTHER, value), 0)
        transfer = transfer_ns(value)
        network.edge(source, (_ROWS, value), transfer)
        network.edge((_OTHER, value), source, transfer)
        for node, position in value.uses:
            can_read = node in forms and position in forms[node].operands
            network.edge((_ROWS, value), node if can_read else SINK, INFINITE)
            if can_read:
                network.edge(node, (_OTHER, value), INFINITE)
        if value in graph.outputs:
            network.edge((_ROWS, value), SINK, INFINITE)
    side = network.source_side()
    return {node for node in forms if node in side}


def _images(forms: Mapping[Node, LayoutChoice]) -> Iterable[Value]:
    """Values that a node could read or write in the other layout."""
    written = (node.outputs[k] for node, form in forms.items() for k in sorted(form.results))
    read = (node.operand(k) for node, form in forms.items() for k in sorted(form.operands))
    return dict.fromkeys((*written, *read))

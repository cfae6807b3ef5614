"""Chooses which nodes of a graph use another layout than row-major, at least total cost: a
minimum cut.

A node costs the time that its slower form loses; a value costs a conversion if its producer and a reader
differ (binary labelling of Greig, Porteous and Seheult, 1989). A value is converted once, however many nodes
read it in the other layout. Graph inputs and outputs are row-major.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from graphwright.ir.graph import Graph, Node, Value
from graphwright.layout.cut import INFINITE, SINK, SOURCE, Network
from graphwright.records import dataclass

_PLAIN: Final = "plain"
_OTHER: Final = "other"


@dataclass(frozen=True)
class LayoutChoice:
    """The ``operands`` and ``results`` in the other layout, by position; ``saves``: nanoseconds saved against
    row-major.
    """

    operands: frozenset[int]
    results: frozenset[int]
    saves: float = 0.0


def choose_nodes(
    graph: Graph, forms: Mapping[Node, LayoutChoice], transfer_ns: Callable[[Value], float]
) -> set[Node]:
    """The nodes of ``forms`` that use the other layout. ``transfer_ns``: the cost of converting a value."""
    if all(form.saves <= 0 for form in forms.values()):
        return set()
    network = Network()
    for node, form in forms.items():
        network.edge(SOURCE, node, max(form.saves, 0))
        network.edge(node, SINK, max(-form.saves, 0))
    for value in _images(forms):
        producer = value.producer
        maker = None if producer is None else forms.get(producer)
        made = producer if maker is not None and value.index in maker.results else SINK
        network.edge((_PLAIN, value), SINK, 0)
        network.edge(SOURCE, (_OTHER, value), 0)
        transfer = transfer_ns(value)
        network.edge(made, (_PLAIN, value), transfer)
        network.edge((_OTHER, value), made, transfer)
        for node, position in value.uses:
            takes = node in forms and position in forms[node].operands
            network.edge((_PLAIN, value), node if takes else SINK, INFINITE)
            if takes:
                network.edge(node, (_OTHER, value), INFINITE)
        if value in graph.outputs:
            network.edge((_PLAIN, value), SINK, INFINITE)
    side = network.source_side()
    return {node for node in forms if node in side}


def _images(forms: Mapping[Node, LayoutChoice]) -> Iterable[Value]:
    """Values that a node could read or write in the other layout."""
    written = (node.outputs[k] for node, form in forms.items() for k in sorted(form.results))
    read = (node.operand(k) for node, form in forms.items() for k in sorted(form.operands))
    return dict.fromkeys((*written, *read))

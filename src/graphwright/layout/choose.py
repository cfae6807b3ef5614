"""Which nodes of a graph work in another layout than the plain one: the cheapest choice, a minimum cut.

A node costs what its slower form loses, a value costs a transfer where its producer and some consumer differ
(the method of Greig, Porteous and Seheult, 1989, for two labels). A value is brought into the other layout
once, however many read it there. Inputs and outputs of graphs are plain.
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
    """``operands`` and ``results`` in the other layout, by position; ``saves`` in nanoseconds against plain
    ones.
    """

    operands: frozenset[int]
    results: frozenset[int]
    saves: float = 0.0


def choose_nodes(
    graph: Graph, forms: Mapping[Node, LayoutChoice], transfer_ns: Callable[[Value], float]
) -> set[Node]:
    """The nodes of ``forms`` that work in the other layout. ``transfer_ns`` of a value: from one layout to
    the other.
    """
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
    """Values that some node may read or write in the other layout."""
    written = (node.outputs[k] for node, form in forms.items() for k in sorted(form.results))
    read = (node.operand(k) for node, form in forms.items() for k in sorted(form.operands))
    return dict.fromkeys((*written, *read))

"""Converts images to channels-last, [N, D..., C], where that saves transposes.

Models that mix convolutions with layers over channels (Linear, LayerNorm) transpose between them. A minimum
cut (:mod:`graphwright.layout.choose`) weighs the transposes saved against the time lost in convolutions. The
pass runs before fusion, so that elementwise ops after a Linear can become its epilogue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from graphwright.cost.machine import Machine
from graphwright.ir.build import Builder
from graphwright.ir.channels_last import to_first, to_last
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.layout.channels_last_forms import ChannelsLast, channels_last_form
from graphwright.layout.choose import choose_nodes
from graphwright.layout.costs import LayoutCosts
from graphwright.layout.remarks import ROWS, CopyReasons, LayoutCopy, requests, value_name
from graphwright.ops.core.transpose import Transpose
from graphwright.passes.base import Pass, Record
from graphwright.passes.traversal import graphs
from graphwright.records import dataclass, field

CHANNELS_LAST: Final = "channels last"
"""The name of the layout in reports."""


@dataclass(frozen=True)
class AssignChannelsLast(Pass):
    """Switches nodes on images to channels-last where that is faster on ``machine``.

    ``lanes``: channels per vector.
    """

    lanes: int
    machine: Machine
    name: str = "assign_channels_last"

    def run(self, module: Module, record: Record) -> bool:
        costs = LayoutCosts(self.lanes, self.machine, module.symbols)
        for graph in list(graphs(module)):
            forms, refused = _forms(graph, costs)
            choices = {node: form.choice for node, form in forms.items()}
            chosen = choose_nodes(graph, choices, costs.transfer_ns)
            if chosen:
                taken = {node: choices[node] for node in graph if node in chosen}
                record.notes += requests(taken, CHANNELS_LAST)
                reasons = CopyReasons(choices, taken, refused)
                _Rewrite(module, graph, record, reasons).run({node: forms[node] for node in taken})
        return bool(record.counts)


def _forms(graph: Graph, costs: LayoutCosts) -> tuple[dict[Node, ChannelsLast], dict[Node, str]]:
    """The nodes of ``graph`` that can use channels-last, and the reasons why others cannot."""
    forms: dict[Node, ChannelsLast] = {}
    refused: dict[Node, str] = {}
    for node in graph:
        form = channels_last_form(node, costs)
        if isinstance(form, ChannelsLast):
            forms[node] = form
        else:
            refused[node] = form
    return forms, refused


@dataclass
class _Rewrite:
    """Rewrites one graph, node by node."""

    module: Module
    graph: Graph
    record: Record
    reasons: CopyReasons
    last: dict[Value, Value] = field(default_factory=dict)
    """The channels-last form of each image."""
    converted: set[Value] = field(default_factory=set)
    """Images that are computed in channels-last."""
    planes: dict[Value, Value] = field(default_factory=dict)
    """The channels-first copies of images that are computed in channels-last."""

    def run(self, forms: Mapping[Node, ChannelsLast]) -> None:
        for node in list(self.graph):
            form = forms.get(node)
            if form is None:
                self._read_planes(node)
            else:
                self._replace(node, form)
        outputs = [self._planes(value, None) for value in self.graph.outputs]
        self.graph.set_outputs(outputs, self.graph.output_names)
        for node in reversed(list(forms)):
            self.graph.erase(node)
        self.record.did("nodes with channels last", len(forms))

    def _read_planes(self, node: Node) -> None:
        for position, value in enumerate(node.inputs):
            if value in self.converted:
                self.graph.replace_input(node, position, self._planes(value, node))

    def _replace(self, node: Node, form: ChannelsLast) -> None:
        operands = [
            (self._channels_last if k in form.choice.operands else self._planes)(value, node)
            for k, value in enumerate(node.inputs)
            if value is not None
        ]
        builder = Builder(self.module, self.graph, node, node.sources, node.origin)
        rewritten = form.rewrite(builder, node, operands)
        if form.choice.results:
            self.last[node.output] = rewritten
            self.converted.add(node.output)
        else:
            self.graph.replace_all_uses(node.output, rewritten)

    def _channels_last(self, value: Value, before: Node) -> Value:
        if value not in self.last:
            self.last[value] = self._transposed(value, to_last(len(value.type.dims)), before)
            self._note(value, CHANNELS_LAST, before, self.reasons.into_other(value))
        return self.last[value]

    def _planes(self, value: Value, before: Node | None) -> Value:
        """``value`` in channels-first order, which all other nodes read."""
        if value not in self.converted:
            return value
        if value not in self.planes:
            perm = to_first(len(value.type.dims))
            self.planes[value] = self._transposed(self.last[value], perm, before)
            self._note(value, ROWS, before, self.reasons.into_rows(before))
        return self.planes[value]

    def _note(self, value: Value, layout: str, before: Node | None, why: str) -> None:
        reader = "an output" if before is None else before.location
        self.record.notes.append(LayoutCopy(value_name(value), layout, reader, why, 2 * value.bytes))

    def _transposed(self, value: Value, perm: tuple[int, ...], before: Node | None) -> Value:
        sources = value.producer.sources if value.producer is not None else ()
        self.record.did(Transpose.name)
        transposed: Value = Builder(self.module, self.graph, before, sources)(Transpose(perm), value)
        return transposed

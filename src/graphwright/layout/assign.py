"""The layout pass: assigns blocked layouts to nodes on images, and inserts TransData between blocked and
row-major values.

A minimum cut chooses the nodes (:mod:`graphwright.layout.choose`). Graph inputs and outputs are row-major.
"""

from __future__ import annotations

from collections.abc import Iterator

from graphwright.cost.machine import Machine
from graphwright.ir.builtin.fused import Fused, region_of
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.types import Layout
from graphwright.layout.blocks import blocks_name, channel_blocks, is_blocked, is_same_memory
from graphwright.layout.choose import LayoutChoice, choose_nodes
from graphwright.layout.costs import LayoutCosts
from graphwright.layout.forms import channel_axis, form_of, has_channels, loop_values
from graphwright.layout.remarks import ROWS, CopyReasons, LayoutCopy, requests, value_name
from graphwright.layout.row_stores import storing_rows
from graphwright.layout.trans_data import TransData
from graphwright.passes.base import Known, Pass, Record
from graphwright.records import dataclass


@dataclass(frozen=True)
class AssignLayouts(Pass):
    """Assigns blocked layouts to images where that is faster on ``machine``.

    ``lanes``: channels per block.
    """

    lanes: int
    machine: Machine
    name: str = "assign_layouts"
    requires: Known = Known.TYPES

    def run(self, module: Module, record: Record) -> bool:
        before = record.counts["nodes on channel blocks"]
        for graph in [g for entry in module.graphs.values() for g in _graphs_of_kernels(entry)]:
            if any(is_blocked(value) for node in graph for value in node.outputs):
                continue  # already assigned
            costs = LayoutCosts(self.lanes, self.machine, module.symbols)
            forms, refused = _forms(graph, costs, record)
            nodes = choose_nodes(graph, forms, costs.transfer_ns)
            chosen = storing_rows({node: form for node, form in forms.items() if node in nodes}, costs)
            reasons = CopyReasons(forms, chosen, refused)
            _Rewrite(graph, self.lanes, record, reasons).run(chosen)
            record.notes += requests(chosen, blocks_name(self.lanes))
        return record.counts["nodes on channel blocks"] > before


def forget_layouts(module: Module) -> None:
    """Makes every value row-major. TransData nodes that remain become identities."""
    for node in list(module.walk()):
        if isinstance(node.op, TransData):
            node.op = TransData()
        for value in (*node.outputs, *(v for region in node.regions for v in region.inputs)):
            value.layout = None


def _graphs_of_kernels(graph: Graph) -> Iterator[Graph]:
    """``graph`` and the graphs of its control flow, but not the regions of fused nodes."""
    yield graph
    for node in graph:
        if not isinstance(node.op, Fused):
            for region in node.regions:
                yield from _graphs_of_kernels(region)


def _forms(
    graph: Graph, costs: LayoutCosts, record: Record
) -> tuple[dict[Node, LayoutChoice], dict[Node, str]]:
    """The nodes of ``graph`` that can be blocked, and the reasons why others cannot."""
    forms: dict[Node, LayoutChoice] = {}
    refused: dict[Node, str] = {}
    for node in graph:
        form = form_of(node, costs)
        if isinstance(form, LayoutChoice):
            forms[node] = form
        elif node.inputs:
            refused[node] = form
            record.refused(node, "channel blocks", form)
    return forms, refused


class _Rewrite:
    """Sets the layouts of one graph, node by node."""

    def __init__(self, graph: Graph, lanes: int, record: Record, reasons: CopyReasons) -> None:
        self.graph, self.lanes, self.record, self.reasons = graph, lanes, record, reasons
        self.others: dict[Value, Value] = {}
        """The copy of each value in the other layout."""

    def run(self, forms: dict[Node, LayoutChoice]) -> None:
        for node in list(self.graph):
            form = forms.get(node, LayoutChoice(frozenset(), frozenset()))
            for position, value in enumerate(node.inputs):
                if value is not None and is_blocked(value) != (position in form.operands):
                    self.graph.replace_input(node, position, self._converted(value, node))
            if node not in forms:
                continue
            self.record.did("nodes on channel blocks")
            for position in form.results:
                node.outputs[position].layout = self._blocks(node.outputs[position])
            if isinstance(node.op, Fused):
                _lay_out_region(node, form, self.lanes)
        outputs = [self._converted(v, None) if is_blocked(v) else v for v in self.graph.outputs]
        self.graph.set_outputs(outputs, self.graph.output_names)

    def _blocks(self, value: Value) -> Layout:
        return channel_blocks(len(value.type.dims), self.lanes)

    def _converted(self, value: Value, before: Node | None) -> Value:
        """``value`` in the other layout. The conversion is inserted before the first node that reads it."""
        if value not in self.others:
            layout = None if is_blocked(value) else self._blocks(value)
            sources = value.producer.sources if value.producer is not None else ()
            node = Node(TransData(layout), (value,), [value.type], sources=sources)
            node.output.layout = layout
            self.others[value] = self.graph.insert(node, before).output
            self.record.did(TransData.name)
            moved = 0 if is_same_memory(value, self.lanes) else value.bytes + node.output.bytes
            self.record.notes.append(
                LayoutCopy(
                    value_name(value),
                    ROWS if layout is None else blocks_name(self.lanes),
                    "an output" if before is None else before.location,
                    self.reasons.into_rows(before) if layout is None else self.reasons.into_other(value),
                    moved,
                )
            )
        return self.others[value]


def _lay_out_region(node: Node, form: LayoutChoice, lanes: int) -> None:
    """Sets the layouts of all values with channels inside a region, and of its blocked operands."""
    body = region_of(node)
    values = loop_values(body)
    rank = max(len(v.type.dims) for v in values)
    for value in values if form.results else ():
        if has_channels(value, rank):
            axis, dims = channel_axis(value, rank), value.type.dims
            value.layout = Layout(tuple(range(len(dims))), ((axis, lanes),))
    for position in form.operands:
        body.inputs[position].layout = channel_blocks(rank, lanes)

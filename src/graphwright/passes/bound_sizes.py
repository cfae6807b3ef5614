"""Rewrites nodes with data-dependent sizes to run within static upper bounds, so that only one node defines
the size.
"""

from __future__ import annotations

from collections.abc import Collection, Set

from graphwright.ir.build import Builder
from graphwright.ir.free_symbols import symbols_in
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.interfaces.bounded_form import BoundedForm
from graphwright.passes.base import Pass, Record, replace
from graphwright.records import dataclass


@dataclass(frozen=True)
class BoundSizes(Pass):
    """Applies :meth:`BoundedForm.bounded_form` to every node that defines data-dependent sizes."""

    name: str = "bound_sizes"

    def run(self, module: Module, record: Record) -> bool:
        for graph in module.graphs.values():
            self._bound(graph, module, record, set())
        return bool(record.counts)

    def _bound(self, graph: Graph, module: Module, record: Record, outer: Collection[str]) -> None:
        """``outer``: symbols that are known from enclosing graphs."""
        known = symbols_in(value.type for value in graph.inputs).union(outer)
        for node in graph:
            for region in node.regions:
                self._bound(region, module, record, known)
            defined = symbols_in(value.type for value in node.outputs) - known
            if defined and isinstance(node.op, BoundedForm):
                _replace(node, node.op, defined, graph, module, record)
            known |= defined


def _replace(
    node: Node, op: BoundedForm, defined: Set[str], graph: Graph, module: Module, record: Record
) -> None:
    if any(value is not None and value.type.shape is None for value in node.inputs):
        record.refused(node, "bound_sizes", "the rank of an operand is not known yet")
        return
    builder = Builder(module, graph, node, node.sources)
    found = op.bounded_form(builder, [value.type for value in node.outputs], defined, *node.inputs)
    if found is None:
        record.refused(node, "bound_sizes", "its result has no small enough upper bound")
        return
    record.did(f"{node.op.name} bounded")
    replace(node, [found] if isinstance(found, Value) else found)

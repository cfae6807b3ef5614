"""Rewrites nodes with data-dependent sizes to run within static upper bounds, so that only one node defines
the size.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set

from graphwright.ir.build import Builder
from graphwright.ir.free_symbols import symbols_in
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.interfaces.bounded_form import BoundedForm
from graphwright.ir.op import Fact
from graphwright.passes.base import Pass, Record
from graphwright.passes.infer_shapes import known_facts
from graphwright.passes.node_removal import replace_and_prune
from graphwright.records import dataclass


@dataclass(frozen=True)
class BoundSizes(Pass):
    """Applies :meth:`BoundedForm.bounded_form` to every node that defines data-dependent sizes."""

    name: str = "bound_sizes"

    def run(self, module: Module, record: Record) -> bool:
        known = symbols_in(value.type for graph in module.graphs.values() for value in graph.inputs)
        nodes = (node for graph in module.graphs.values() for node in graph.walk())
        if not any(isinstance(node.op, BoundedForm) and _sizes(node) - known for node in nodes):
            return False
        rewriting = _Rewriting(module, known_facts(module), record)
        for graph in module.graphs.values():
            rewriting.graph(graph, set())
        return bool(record.counts)


@dataclass
class _Rewriting:
    """The rewriting of a module; ``facts`` are those of its values before."""

    module: Module
    facts: Mapping[Value, Fact]
    record: Record

    def graph(self, graph: Graph, outer: Collection[str]) -> None:
        """``outer``: symbols that are known from enclosing graphs."""
        known = symbols_in(value.type for value in graph.inputs).union(outer)
        for node in graph:
            for region in node.regions:
                self.graph(region, known)
            defined = _sizes(node) - known
            if defined and isinstance(node.op, BoundedForm):
                self.replace(node, node.op, defined, graph)
            known |= defined

    def replace(self, node: Node, op: BoundedForm, defined: Set[str], graph: Graph) -> None:
        """Replaces ``node`` by its bounded form, if it has one."""
        if any(value is not None and value.type.shape is None for value in node.inputs):
            self.record.refused(node, "bound_sizes", "the rank of an operand is not known yet")
            return
        builder = Builder(self.module, graph, node, node.sources)
        given = filter(None, node.inputs)
        builder.facts.update({value: self.facts[value] for value in given if value in self.facts})
        found = op.bounded_form(builder, [value.type for value in node.outputs], defined, *node.inputs)
        if found is None:
            self.record.refused(node, "bound_sizes", "its result has no small enough upper bound")
            return
        self.record.did(f"{node.op.name} bounded")
        replace_and_prune(node, [found] if isinstance(found, Value) else found)


def _sizes(node: Node) -> set[str]:
    """The symbols in the types of the results."""
    return symbols_in(value.type for value in node.outputs)

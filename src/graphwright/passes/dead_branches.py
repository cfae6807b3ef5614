"""Inlines the branch of a conditional whose condition is known."""

from __future__ import annotations

from graphwright.ir.build import Builder
from graphwright.ir.clone import copy_nodes
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.op.region_op import region_op
from graphwright.passes.base import Pass, Record
from graphwright.passes.fixed_sizes import refined_sizes, replace_and_refine
from graphwright.passes.traversal import graphs
from graphwright.records import dataclass


@dataclass(frozen=True)
class DeadBranches(Pass):
    """Replaces a node by the one region that it runs (:meth:`RegionOp.selected_region`)."""

    name: str = "dead_branches"

    def run(self, module: Module, record: Record) -> bool:
        modified = False
        for graph in graphs(module):
            while _sweep(graph, module, record):  # an inlined branch may contain conditionals
                modified = True
        return modified


def _sweep(graph: Graph, module: Module, record: Record) -> bool:
    return any([_inline_selected(node, module, record) for node in graph if node.regions])


def _inline_selected(node: Node, module: Module, record: Record) -> bool:
    assert node.graph is not None
    builder = Builder(module, node.graph)
    op = region_op(node.op)
    selected = op.selected_region(*map(builder.fact, node.inputs))
    if selected is None:
        return False
    captured = op.captured_operands(len(node.inputs))
    operands = node.inputs[len(node.inputs) - captured :]
    present = [value for value in operands if isinstance(value, Value)]
    if len(present) != len(operands):
        record.refused(node, "inline", "an operand of the region is absent")
        return False
    region = node.regions[selected]
    results = copy_nodes(region, present, node.graph, node, node.sources)
    replace_and_refine(module, node, results, refined_sizes(region.inputs, present))
    record.did("branches inlined")
    return True

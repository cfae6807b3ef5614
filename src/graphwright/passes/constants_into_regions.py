"""Moves constants into the regions that read them, where they can be folded, packed, and used for kernel
selection.
"""

from __future__ import annotations

from graphwright.ir.builtin.constant import Constant, constant_of
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.op.region_op import region_op
from graphwright.passes.base import Pass, Record
from graphwright.passes.traversal import graphs
from graphwright.records import dataclass


@dataclass(frozen=True)
class ConstantsIntoRegions(Pass):
    """Replaces constant operands that all regions receive (:meth:`RegionOp.captured_operands`) by constants
    inside each region.
    """

    name: str = "constants_into_regions"

    def run(self, module: Module, record: Record) -> bool:
        return any([_move(node, graph, record) for graph in graphs(module) for node in graph if node.regions])


def _move(node: Node, graph: Graph, record: Record) -> bool:
    modified = False
    for back in range(region_op(node.op).captured_operands(len(node.inputs)), 0, -1):
        value = node.inputs[-back]
        constant = constant_of(value)
        if value is None or constant is None:
            continue
        for region in node.regions:
            _copy_into(value, constant, region, region.inputs[-back])
        graph.remove_operand(node, len(node.inputs) - back)
        record.did("constants moved into regions")
        modified = True
    return modified


def _copy_into(outer: Value, op: Constant, region: Graph, received: Value) -> None:
    """Replaces the region input ``received`` by a constant inside the region."""
    if received.uses or received in region.outputs:
        constant = region.insert(Node(op, (), (op.type,)), next(iter(region), None)).output
        constant.name, constant.layout, constant.device = received.name, outer.layout, outer.device
        region.replace_all_uses(received, constant)
    region.remove_input(received.index)

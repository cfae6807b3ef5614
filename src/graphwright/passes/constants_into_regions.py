"""Constants go into the regions that read them: what is known inside can be folded, packed and chosen by."""

from __future__ import annotations

from graphwright.ir.constant import Constant, constant_of
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.region_op import region_op
from graphwright.passes.base import Pass, Record, graphs
from graphwright.records import dataclass


@dataclass(frozen=True)
class ConstantsIntoRegions(Pass):
    """An operand that all regions receive (:meth:`RegionOp.captured_operands`) and that is a constant becomes
    one inside.
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
            _repeat(value, constant, region, region.inputs[-back])
        graph.remove_operand(node, len(node.inputs) - back)
        record.did("constants moved into regions")
        modified = True
    return modified


def _repeat(outer: Value, op: Constant, region: Graph, received: Value) -> None:
    """Let the region read a constant of its own instead of what it ``received``."""
    if received.uses or received in region.outputs:
        made = region.insert(Node(op, (), (op.type,)), next(iter(region), None)).output
        made.name, made.layout, made.device = received.name, outer.layout, outer.device
        region.replace_all_uses(received, made)
    region.remove_input(received.index)

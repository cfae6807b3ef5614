"""Removes what nothing reads: nodes, results of branches, operands of regions, tensors of the pool."""

from __future__ import annotations

from collections.abc import Iterator

from graphwright.ir.constant import Constant
from graphwright.ir.free_symbols import symbols_of_graph
from graphwright.ir.graph import Graph, Module, Node
from graphwright.ir.op import ConstRef
from graphwright.ir.region_op import region_op
from graphwright.passes.base import Pass, Record, is_dead
from graphwright.records import dataclass


@dataclass(frozen=True)
class DeadCode(Pass):
    """Erases unused nodes without effects, results of branches and operands of regions that nothing reads,
    and unused constants.
    """

    name: str = "dead_code"

    def run(self, module: Module, record: Record) -> bool:
        modified = False
        for graph in module.graphs.values():
            modified |= _clean(graph, record)
        _drop_constraints(module, record)
        _drop_constants(module, record)  # the pool is no part of any graph: no pass has more to do after it
        return modified


def _clean(graph: Graph, record: Record) -> bool:
    """From the last node to the first, so that one sweep sees every node after its consumers."""
    modified = False
    for node in reversed(graph):
        if is_dead(node):
            graph.erase(node)
            record.did("nodes erased")
            modified = True
            continue
        if node.regions:
            lean = _drop_results(graph, node, record)
            modified |= lean is not node
            node = lean
        for region in node.regions:
            modified |= _clean(region, record)
        modified |= _drop_operands(graph, node, record)
    return modified


def _drop_results(graph: Graph, node: Node, record: Record) -> Node:
    """``node``, or the one in its place without the results that nothing reads."""
    used = [value.index for value in node.outputs if value.uses or value in graph.outputs]
    some = 0 < len(used) < len(node.outputs)
    lean = region_op(node.op).with_results(used) if some else None
    if lean is None:
        return node
    types = [node.outputs[index].type for index in used]
    for region in node.regions:
        names = region.output_names
        region.set_outputs([region.outputs[k] for k in used], [names[k] for k in used])
    made = graph.insert(Node(lean, node.inputs, types, node.regions, node.name, node.sources), node)
    for index, value in zip(used, made.outputs, strict=True):
        old = node.outputs[index]
        value.layout, value.device = old.layout, old.device
        graph.replace_all_uses(old, value)
    graph.erase(node)
    record.did("results of branches dropped", len(node.outputs) - len(used))
    return made


def _drop_operands(graph: Graph, node: Node, record: Record) -> bool:
    """Remove trailing operands that all regions take and none reads (:meth:`RegionOp.captured_operands`)."""
    if not node.regions:
        return False
    modified = False
    captured = region_op(node.op).captured_operands(len(node.inputs))
    for back in range(captured, 0, -1):
        regions_inputs = [(region, region.inputs[-back]) for region in node.regions]
        if any(value.uses or value in region.outputs for region, value in regions_inputs):
            continue
        for region, value in regions_inputs:
            region.remove_input(value.index)
        graph.remove_operand(node, len(node.inputs) - back)
        record.did("operands dropped")
        modified = True
    return modified


def _drop_constraints(module: Module, record: Record) -> None:
    """Drop constraints and guards on sizes that nothing has any more: better ones have taken their place."""
    table = module.symbols
    if not table.constraints and not table.guards:
        return
    alive = set[str]().union(*map(symbols_of_graph, module.graphs.values()))
    for known, what in ((table.constraints, "constraints"), (table.guards, "guards")):
        for constraint in [each for each in known if not each.names <= alive]:
            del known[constraint]
            record.did(f"{what} dropped")


def _drop_constants(module: Module, record: Record) -> None:
    before = len(module.constants)
    module.constants.keep(referenced(module))
    dropped = before - len(module.constants)
    if dropped:
        record.did("constants dropped", dropped)


def referenced(module: Module) -> set[ConstRef]:
    """Every tensor of the pool that an attribute of some node names, those inside tuples too, and what states
    start as.
    """
    found = {ref for signature in module.signatures.values() for _, ref in signature.starts}
    for node in module.walk():
        if isinstance(node.op, Constant):
            found.add(node.op.value)
            continue
        for attribute in vars(node.op).values():
            if isinstance(attribute, ConstRef | tuple):
                found.update(_refs(attribute))
    return found


def _refs(attribute: object) -> Iterator[ConstRef]:
    if isinstance(attribute, ConstRef):
        yield attribute
    elif isinstance(attribute, tuple):
        for part in attribute:
            yield from _refs(part)

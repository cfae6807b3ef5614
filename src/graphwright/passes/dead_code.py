"""Removes what nothing reads: nodes, results of branches, operands of regions, and constants."""

from __future__ import annotations

from collections.abc import Iterator

from graphwright.ir.builtin.constant import Constant
from graphwright.ir.free_symbols import symbols_of_graph
from graphwright.ir.graph import Graph, Module, Node
from graphwright.ir.op import ConstRef
from graphwright.ir.op.region_op import region_op
from graphwright.passes.base import Pass, Record
from graphwright.passes.node_removal import is_dead, needed_results
from graphwright.records import dataclass


@dataclass(frozen=True)
class DeadCode(Pass):
    """Erases unused nodes without side effects, unused results of branches, unused operands of regions,
    constraints on sizes that no longer occur, and unused constants.
    """

    name: str = "dead_code"

    def run(self, module: Module, record: Record) -> bool:
        modified = False
        for graph in module.graphs.values():
            modified |= _sweep(graph, record)
        _drop_constraints(module, record)
        _drop_constants(module, record)  # does not count as modified: no pass depends on the pool
        return modified


def _sweep(graph: Graph, record: Record) -> bool:
    """Sweeps from the last node to the first, so that one sweep sees every node after its readers."""
    modified = False
    for node in reversed(graph):
        if is_dead(node):
            graph.erase(node)
            record.did("nodes erased")
            modified = True
            continue
        if node.regions:
            smaller = _drop_results(graph, node, record)
            modified |= smaller is not node
            node = smaller
        for region in node.regions:
            modified |= _sweep(region, record)
        modified |= _drop_operands(graph, node, record)
    return modified


def _drop_results(graph: Graph, node: Node, record: Record) -> Node:
    """``node``, or its replacement without the results that nothing reads."""
    used = needed_results(node)
    some = 0 < len(used) < len(node.outputs)
    smaller = region_op(node.op).with_results(used) if some else None
    if smaller is None:
        return node
    types = [node.outputs[index].type for index in used]
    for region in node.regions:
        names = region.output_names
        region.set_outputs([region.outputs[k] for k in used], [names[k] for k in used])
    replacement = graph.insert(Node(smaller, node.inputs, types, node.regions, node.name, node.sources), node)
    for index, value in zip(used, replacement.outputs, strict=True):
        old = node.outputs[index]
        value.layout, value.device = old.layout, old.device
        graph.replace_all_uses(old, value)
    graph.erase(node)
    record.did("results of branches dropped", len(node.outputs) - len(used))
    return replacement


def _drop_operands(graph: Graph, node: Node, record: Record) -> bool:
    """Removes operands that all regions receive but none reads (:meth:`RegionOp.captured_operands`)."""
    if not node.regions:
        return False
    modified = False
    captured = region_op(node.op).captured_operands(len(node.inputs))
    for back in range(captured, 0, -1):
        regions_inputs = [(region, region.inputs[-back]) for region in node.regions]
        if any(value.is_used for _, value in regions_inputs):
            continue
        for region, value in regions_inputs:
            region.remove_input(value.index)
        graph.remove_operand(node, len(node.inputs) - back)
        record.did("operands dropped")
        modified = True
    return modified


def _drop_constraints(module: Module, record: Record) -> None:
    """Drops constraints and guards on symbols that no longer occur."""
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
    """Every constant that an attribute of a node refers to, also inside tuples, and the initial values of
    states.
    """
    found = {ref for signature in module.signatures.values() for _, ref in signature.initial_values}
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

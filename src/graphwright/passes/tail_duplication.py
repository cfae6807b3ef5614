"""Gives values whose rank depends on a branch the rank that they have in it.

What follows such a branch is computed in each of its regions instead (tail duplication: Mueller and Whalley,
1995). A region in which it cannot be computed then fails when it is taken, as inference finds.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.clone import copy_node
from graphwright.ir.constant import is_constant
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ops.control.if_ import If
from graphwright.passes.base import Pass, Record, has_effect
from graphwright.passes.dead_branches import DeadBranches
from graphwright.passes.fold_constants import FoldConstants
from graphwright.records import dataclass

DECIDE: tuple[Pass, ...] = (FoldConstants(), DeadBranches())
"""What the types of a tail in its branch settle, before the branches in it are looked at."""


@dataclass(frozen=True)
class TailDuplication(Pass):
    """Moves what follows an If whose regions give different ranks into both, unless the module would grow
    beyond ``most_nodes``, as every such If may double what follows it, or regions nest beyond ``most_depth``.
    """

    most_nodes: int = 20_000
    most_depth: int = 32
    name: str = "tail_duplication"

    def run(self, module: Module, record: Record) -> bool:
        modified = False
        while self._sweep(module, record):
            for each in DECIDE:
                each.run(module, record)
            modified = True
        return modified

    def _sweep(self, module: Module, record: Record) -> bool:
        """Sink the tail of every node that is open by now; whether there was one."""
        sunk = 0
        pending = [(graph, 1) for graph in module.graphs.values()]
        while pending:
            graph, depth = pending.pop()
            for node in graph:
                if _is_open(node):
                    sunk += self._sink(module, node, depth, record)
            pending += [(region, depth + 1) for node in graph for region in node.regions]
        return sunk > 0

    def _sink(self, module: Module, node: Node, depth: int, record: Record) -> bool:
        """Sink what follows ``node``, in a graph at ``depth``, unless that goes too far."""
        tail = _tail(node)
        count = sum(1 for _ in module.walk()) + sum(map(_size, tail))
        if count > self.most_nodes:
            record.refused(node, "sink", f"the module would have {count} nodes")
            return False
        if depth >= self.most_depth:
            record.refused(node, "sink", f"regions would nest to more than {self.most_depth}")
            return False
        _sink(node, tail)
        record.did("tails sunk into branches")
        return True


def _is_open(node: Node) -> bool:
    """Whether something follows ``node`` that reads a value whose rank depends on the branch taken, alone."""
    if not isinstance(node.op, If):
        return False
    return any(value.type.shape is None and value.uses and _decided(value) for value in node.outputs)


def _decided(value: Value) -> bool:
    """Whether the rank of ``value`` is known in every branch that gives it."""
    if value.type.shape is not None:
        return True
    made = value.producer
    if made is None or not isinstance(made.op, If):
        return False
    return all(_decided(region.outputs[value.index]) for region in made.regions)


def _tail(node: Node) -> list[Node]:
    """The nodes after ``node`` that depend on it, or have an effect: those keep their order."""
    made, tail, following = set(node.outputs), [], node.next
    while following is not None:
        if has_effect(following) or any(value in made for value in following.inputs):
            tail.append(following)
            made.update(following.outputs)
        following = following.next
    return tail


def _sink(node: Node, tail: Sequence[Node]) -> None:
    """Replace ``node`` and ``tail`` by one node whose regions compute what both did."""
    graph = node.graph
    assert graph is not None
    inside = [value for each in (node, *tail) for value in each.outputs]
    results = [value for value in inside if value in graph.outputs]
    condition, *captured = node.inputs
    wanted = dict.fromkeys(value for each in tail for value in each.inputs if value is not None)
    outer = [v for v in wanted if not is_constant(v) and v not in {*inside, *captured}]
    for region in node.regions:
        _append_tail(region, node, tail, outer, results)
    made = Node(
        If(len(results)),
        (condition, *captured, *outer),
        [value.type for value in results],
        node.regions,
        node.name,
        node.sources,
    )
    graph.insert(made, tail[-1].next)
    for old, new in zip(results, made.outputs, strict=True):
        graph.replace_all_uses(old, new)
    for each in (*reversed(tail), node):
        graph.erase(each)


def _append_tail(
    region: Graph, node: Node, tail: Sequence[Node], outer: Sequence[Value], results: Sequence[Value]
) -> None:
    """Compute ``tail`` and give ``results`` at the end of ``region`` of ``node``; it takes ``outer`` also."""
    inputs = {v: own for v, own in zip(node.inputs[1:], region.inputs, strict=True) if v is not None}
    copies = inputs | dict(zip(node.outputs, region.outputs, strict=True))
    copies |= {value: region.add_input(value.type, value.name) for value in outer}
    for each in tail:
        for value in each.inputs:
            if value is not None and value not in copies and value.producer is not None:
                region.append(copy_node(value.producer, copies))
        region.append(copy_node(each, copies))
    region.set_outputs([copies[value] for value in results])


def _size(node: Node) -> int:
    return 1 + sum(1 for region in node.regions for _ in region.walk())

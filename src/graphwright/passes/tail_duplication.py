"""Duplicates nodes after a branch whose results differ in rank into its regions, where the
rank is known.

Tail duplication (Mueller and Whalley, 1995). If the nodes are invalid in one region, inference makes that
region fail when it is taken.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.clone import copy_node
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ops.control.if_ import If
from graphwright.passes.base import Pass, Record
from graphwright.passes.dead_branches import DeadBranches
from graphwright.passes.fold_constants import FoldConstants
from graphwright.passes.node_removal import has_effect
from graphwright.records import dataclass

DECIDE: tuple[Pass, ...] = (FoldConstants(), DeadBranches())
"""Passes that run after each sweep: types of a duplicated tail may decide branches in it."""


@dataclass(frozen=True)
class TailDuplication(Pass):
    """Moves the nodes after an If whose regions have results of different rank into both regions. Each such
    If can double the nodes after it, so the module may grow to at most ``most_nodes`` nodes and
    ``most_depth`` nested regions.
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
        """Sinks the tail of every If that is ready now. Returns whether there was one."""
        sunk = 0
        pending = [(graph, 1) for graph in module.graphs.values()]
        while pending:
            graph, depth = pending.pop()
            for node in graph:
                if _has_ready_tail(node):
                    sunk += self._sink(module, node, depth, record)
            pending += [(region, depth + 1) for node in graph for region in node.regions]
        return sunk > 0

    def _sink(self, module: Module, node: Node, depth: int, record: Record) -> bool:
        """Sinks the nodes after ``node``, which is ``depth`` regions deep, unless a limit forbids it."""
        tail = _tail(node)
        count = sum(1 for _ in module.walk()) + sum(map(_size, tail))
        if count > self.most_nodes:
            record.refused(node, "sink", f"the module would have {count} nodes")
            return False
        if depth >= self.most_depth:
            record.refused(node, "sink", f"regions would nest deeper than {self.most_depth} levels")
            return False
        _sink(node, tail)
        record.did("tails sunk into branches")
        return True


def _has_ready_tail(node: Node) -> bool:
    """Whether nodes read a result of ``node`` whose rank is unknown only because it differs
    between branches.
    """
    if not isinstance(node.op, If):
        return False
    return any(value.type.shape is None and value.uses and _has_known_ranks(value) for value in node.outputs)


def _has_known_ranks(value: Value) -> bool:
    """Whether the rank of ``value`` is known in every branch that computes it."""
    if value.type.shape is not None:
        return True
    producer = value.producer
    if producer is None or not isinstance(producer.op, If):
        return False
    return all(_has_known_ranks(region.outputs[value.index]) for region in producer.regions)


def _tail(node: Node) -> list[Node]:
    """The nodes after ``node`` that depend on it, and those with side effects, as these must keep their
    order.
    """
    results, tail, following = set(node.outputs), [], node.next
    while following is not None:
        if has_effect(following) or any(value in results for value in following.inputs):
            tail.append(following)
            results.update(following.outputs)
        following = following.next
    return tail


def _sink(node: Node, tail: Sequence[Node]) -> None:
    """Replaces ``node`` and ``tail`` by one If whose regions compute both."""
    graph = node.graph
    assert graph is not None
    inside = [value for each in (node, *tail) for value in each.outputs]
    results = [value for value in inside if value.is_output]
    condition, *captured = node.inputs
    wanted = dict.fromkeys(value for each in tail for value in each.inputs if value is not None)
    outer = [v for v in wanted if not is_constant(v) and v not in {*inside, *captured}]
    for region in node.regions:
        _append_tail(region, node, tail, outer, results)
    sunk = Node(
        If(len(results)),
        (condition, *captured, *outer),
        [value.type for value in results],
        node.regions,
        node.name,
        node.sources,
    )
    graph.insert(sunk, tail[-1].next)
    for old, new in zip(results, sunk.outputs, strict=True):
        graph.replace_all_uses(old, new)
    for each in (*reversed(tail), node):
        graph.erase(each)


def _append_tail(
    region: Graph, node: Node, tail: Sequence[Node], outer: Sequence[Value], results: Sequence[Value]
) -> None:
    """Appends ``tail`` to ``region`` of ``node``, with ``outer`` as additional inputs and ``results`` as
    outputs.
    """
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

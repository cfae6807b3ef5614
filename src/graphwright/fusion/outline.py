"""Outlines nodes into the region of a new node, such as a Fused node."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.builtin.fused import UNNAMED, Fused
from graphwright.ir.clone import clone_graph
from graphwright.ir.graph import Graph, Node, Value
from graphwright.ir.op import Trait
from graphwright.ir.op.region_op import CallOp


def operands_of(nodes: Sequence[Node]) -> list[Value]:
    """The values that ``nodes`` read and do not compute, each once, without constants of one element, which
    are copied into the region.
    """
    inside = {v for n in nodes for v in n.outputs}
    values = ((n, v) for n in nodes for v in n.inputs if v is not None and v not in inside)
    return list(dict.fromkeys(v for n, v in values if not _is_literal(n, v)))


def _is_literal(reader: Node, value: Value) -> bool:
    if Trait.CONTRACTION in reader.op.traits:
        return False
    return is_constant(value) and value.type.elements == 1


def outline(graph: Graph, nodes: Sequence[Node], call: Callable[[int], CallOp] = Fused) -> Node:
    """Moves ``nodes``, given in graph order, into the region of a new node and returns that node. ``call``
    maps the number of results to the op of the new node.

    The graph may no longer be in topological order afterwards.
    """
    operands, members = operands_of(nodes), set(nodes)
    results = [
        v for n in nodes for v in n.outputs
        if v in graph.outputs or not members.issuperset(v.users)
    ]  # fmt: skip
    region = _region_with(nodes, operands, results)
    sources = [s for n in nodes for s in n.sources]
    fused = Node(call(len(results)), operands, [v.type for v in results], [region], sources=sources)
    graph.insert(fused, nodes[-1])
    for old, new in zip(results, fused.outputs, strict=True):
        graph.replace_all_uses(old, new)
    for node in reversed(nodes):
        graph.erase(node)
    return fused


def _region_with(nodes: Sequence[Node], operands: Sequence[Value], results: Sequence[Value]) -> Graph:
    """Copies of ``nodes``, and of the literals that they read, as a region from ``operands`` to
    ``results``.
    """
    region = Graph(UNNAMED)
    inner: dict[Value, Value] = {v: region.add_input(v.type, v.name) for v in operands}
    for node in nodes:
        for value in node.inputs:
            if value is not None and value not in inner:
                source = value.producer
                assert source is not None  # a literal
                inner[value] = region.append(Node(source.op, (), [value.type], sources=source.sources)).output
        inputs = [None if v is None else inner[v] for v in node.inputs]
        types = [v.type for v in node.outputs]
        regions = list(map(clone_graph, node.regions))
        copy = Node(node.op, inputs, types, regions, node.name, node.sources, node.origin)
        region.append(copy)
        for old, new in zip(node.outputs, copy.outputs, strict=True):
            new.name, new.layout = old.name, old.layout
            inner[old] = new
    region.set_outputs([inner[v] for v in results])
    return region

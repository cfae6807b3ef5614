"""Common subexpression elimination: merges nodes that compute the same values."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from graphwright.ir.builtin.constant import Constant, is_constant
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.op import Trait
from graphwright.ir.text.printer import attributes_text
from graphwright.passes.base import Pass, Record
from graphwright.passes.node_removal import has_effect
from graphwright.passes.traversal import graphs
from graphwright.records import dataclass


@dataclass(frozen=True)
class CommonSubexpressions(Pass):
    """Value numbering per graph. Regions are equal if they contain equal nodes."""

    name: str = "cse"

    def run(self, module: Module, record: Record) -> bool:
        return any([_merge(graph, record) for graph in graphs(module)])


def _merge(graph: Graph, record: Record) -> bool:
    numbers = {value: number for number, value in enumerate(graph.inputs)}
    first: dict[Hashable, list[Node]] = {}
    merged = 0
    for node in graph:
        for value in node.outputs:
            numbers[value] = len(numbers)
        if has_effect(node):
            continue
        alike = first.setdefault(_head(node, numbers), [])
        kept = next((other for other in alike if _have_same_regions(other, node)), None)
        if kept is None:
            alike.append(node)
        else:
            graph.replace_node(node, kept.outputs)
            merged += 1
    if merged:
        record.did("nodes merged", merged)
    return merged > 0


def _have_same_regions(a: Node, b: Node) -> bool:
    """Whether the regions of two nodes are equal. Compared only for nodes that are equal otherwise."""
    return len(a.regions) == len(b.regions) and all(
        region_key(x) == region_key(y) for x, y in zip(a.regions, b.regions, strict=True)
    )


def _key(node: Node, numbers: Mapping[Value, int]) -> Hashable:
    """A key that is equal for nodes with equal outputs."""
    return _head(node, numbers), tuple(region_key(region) for region in node.regions)


def _head(node: Node, numbers: Mapping[Value, int]) -> Hashable:
    """A key that is equal for nodes with equal outputs, if their regions are equal.

    Attributes are compared as text, which distinguishes 0.0 from -0.0.
    """
    operands = [-1 if value is None else numbers[value] for value in node.inputs]
    if Trait.COMMUTATIVE in node.op.traits:
        operands[:2] = sorted(operands[:2])
    results = tuple((value.type, value.layout, value.device) for value in node.outputs)
    op = node.op
    content = (op.value.digest, op.type) if isinstance(op, Constant) else attributes_text(op)
    return type(op), content, tuple(operands), results


def nodes_key(nodes: Sequence[Node]) -> Hashable:
    """A key that is equal for the same nodes in the same order on operands of the same types, regardless of
    names.
    """
    numbers: dict[Value, int] = {}
    operands, keys = [], []
    for node in nodes:
        for value in node.inputs:
            if value is not None and value not in numbers:
                numbers[value] = len(numbers)
                operands.append((value.type, value.layout, is_constant(value)))
        keys.append(_key(node, numbers))
        for value in node.outputs:
            numbers[value] = len(numbers)
    return tuple(operands), tuple(keys)


def region_key(region: Graph) -> Hashable:
    """A key that is equal for regions of the same nodes in the same order, regardless of names."""
    numbers = {value: number for number, value in enumerate(region.inputs)}
    keys = []
    for node in region:
        keys.append(_key(node, numbers))
        for value in node.outputs:
            numbers[value] = len(numbers)
    types = tuple((value.type, value.layout) for value in region.inputs)
    return types, tuple(keys), tuple(numbers[value] for value in region.outputs)

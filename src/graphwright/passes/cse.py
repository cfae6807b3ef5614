"""Common subexpressions: nodes that compute the same from the same become one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from graphwright.ir.constant import Constant, is_constant
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.op import Trait
from graphwright.ir.printer import attributes_text
from graphwright.passes.base import Pass, Record, graphs, has_effect
from graphwright.records import dataclass


@dataclass(frozen=True)
class CommonSubexpressions(Pass):
    """Value numbering over each graph (regions of two nodes count as equal when they compute the same)."""

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
    """Whether the regions of two nodes compute the same: looked at where the nodes agree otherwise alone."""
    return len(a.regions) == len(b.regions) and all(
        region_key(x) == region_key(y) for x, y in zip(a.regions, b.regions, strict=True)
    )


def _key(node: Node, numbers: Mapping[Value, int]) -> Hashable:
    """Equal for nodes that give the same outputs."""
    return _head(node, numbers), tuple(region_key(region) for region in node.regions)


def _head(node: Node, numbers: Mapping[Value, int]) -> Hashable:
    """Equal for nodes that give the same outputs if their regions do.

    Attributes count as text, which tells 0.0 from -0.0.
    """
    operands = [-1 if value is None else numbers[value] for value in node.inputs]
    if Trait.COMMUTATIVE in node.op.traits:
        operands[:2] = sorted(operands[:2])
    lies = tuple((value.type, value.layout, value.device) for value in node.outputs)
    op = node.op
    what = (op.value.digest, op.type) if isinstance(op, Constant) else attributes_text(op)
    return type(op), what, tuple(operands), lies


def nodes_key(nodes: Sequence[Node]) -> Hashable:
    """Equal for the same nodes in the same order on operands of the same types, whatever these are called."""
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
    """Equal for regions of the same nodes in the same order, whatever they are called."""
    numbers = {value: number for number, value in enumerate(region.inputs)}
    keys = []
    for node in region:
        keys.append(_key(node, numbers))
        for value in node.outputs:
            numbers[value] = len(numbers)
    types = tuple((value.type, value.layout) for value in region.inputs)
    return types, tuple(keys), tuple(numbers[value] for value in region.outputs)

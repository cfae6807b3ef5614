"""Counts the launches and bytes of a graph for an engine that runs node by node."""

from __future__ import annotations

from graphwright.cost.nominal import nominal
from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.builtin.fused import Fused
from graphwright.ir.graph import Module, Node
from graphwright.ir.op import Trait
from graphwright.records import dataclass


@dataclass(frozen=True)
class GraphCounts:
    """What an engine runs node by node. ``launches`` is the number of nodes that launch a kernel: all but
    views. ``activation_bytes`` is the number of bytes that these nodes read and write, without weights;
    dynamic sizes have their nominal values (:func:`graphwright.cost.nominal.nominal`).
    """

    nodes: int
    launches: int
    activation_bytes: int


def count_graph(module: Module) -> GraphCounts:
    """The counts of all graphs of ``module``; regions of control flow count once."""
    nodes = [node for node in _outer_nodes(module) if not node.is_constant]
    launches = [node for node in nodes if Trait.VIEW not in node.op.traits]
    return GraphCounts(len(nodes), len(launches), sum(_bytes(node, module) for node in launches))


def _outer_nodes(module: Module) -> list[Node]:
    """All nodes, without those inside of Fused nodes."""
    found, pending = list[Node](), list(module.graphs.values())
    while pending:
        for node in pending.pop():
            found.append(node)
            if not isinstance(node.op, Fused):
                pending += node.regions
    return found


def _bytes(node: Node, module: Module) -> int:
    values = [
        value for value in (*node.inputs, *node.outputs) if value is not None and not is_constant(value)
    ]
    known = [value.type.bytes for value in dict.fromkeys(values) if value.type.shape is not None]
    return sum(nominal(each, module.symbols) for each in known)

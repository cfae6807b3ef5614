"""Removes nodes that return an operand unchanged."""

from __future__ import annotations

from graphwright.ir.build import Builder
from graphwright.ir.graph import Module, Node, Value
from graphwright.ir.op import Op, Trait, UnknownRank
from graphwright.passes.base import Pass, Record
from graphwright.passes.node_removal import replace_and_prune
from graphwright.passes.traversal import graphs
from graphwright.records import dataclass


@dataclass(frozen=True)
class RemoveNoops(Pass):
    """Removes views that keep the shape, casts to the same dtype, and other ops that return an operand
    unchanged (:meth:`Op.forwarded_operand`).
    """

    name: str = "remove_noops"

    def run(self, module: Module, record: Record) -> bool:
        modified = False
        for graph in graphs(module):
            for node in graph:
                same = _forwarded(node, module)
                if same is not None:
                    record.did(f"{node.op.name} removed")
                    replace_and_prune(node, [same])
                    modified = True
        return modified


def _position(node: Node, builder: Builder) -> int | None:
    """The operand that the output equals according to the op; None if that depends on an unknown rank."""
    try:
        return node.op.forwarded_operand(node.output.type, *map(builder.fact, node.inputs))
    except UnknownRank:
        return None


def _forwarded(node: Node, module: Module) -> Value | None:
    """The operand that the output of ``node`` equals, if type, layout and device are the same too."""
    if len(node.outputs) != 1 or Trait.EFFECT in node.op.traits or node.graph is None:
        return None
    if Trait.VIEW in node.op.traits:
        position: int | None = 0
    elif type(node.op).forwarded_operand is Op.forwarded_operand:
        return None
    else:
        position = _position(node, Builder(module, node.graph))
    same = None if position is None else node.inputs[position]
    if same is None or same.type.shape is None:
        return None
    result = node.output
    is_same = (same.type, same.layout, same.device) == (result.type, result.layout, result.device)
    return same if is_same else None

"""Removes nodes that hand an input on as it is."""

from __future__ import annotations

from graphwright.ir.build import Builder
from graphwright.ir.graph import Module, Node, Value
from graphwright.ir.op import Op, Trait, UnknownRank
from graphwright.passes.base import Pass, Record, graphs, replace
from graphwright.records import dataclass


@dataclass(frozen=True)
class RemoveNoops(Pass):
    """Views that keep the shape, casts to the same dtype, and all that says so
    (:meth:`Op.forwarded_operand`).
    """

    name: str = "remove_noops"

    def run(self, module: Module, record: Record) -> bool:
        modified = False
        for graph in graphs(module):
            for node in graph:
                same = _forwarded(node, module)
                if same is not None:
                    record.did(f"{node.op.name} removed")
                    replace(node, [same])
                    modified = True
        return modified


def _position(node: Node, builder: Builder) -> int | None:
    """The operand that the op says its output equals; None where that depends on a rank that is unknown."""
    try:
        return node.op.forwarded_operand(node.output.type, *map(builder.fact, node.inputs))
    except UnknownRank:
        return None


def _forwarded(node: Node, module: Module) -> Value | None:
    """The operand that the output of ``node`` equals, if there is one of the same type, layout and device."""
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
    alike = (same.type, same.layout, same.device) == (
        node.output.type,
        node.output.layout,
        node.output.device,
    )
    return same if alike else None

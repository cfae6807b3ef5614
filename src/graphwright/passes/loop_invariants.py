"""Hoists computations that are the same in all iterations out of loops.

Loop-invariant code motion (Aho, Lam, Sethi and Ullman, 2006, section 9.5).
"""

from __future__ import annotations

from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.clone import copy_node
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.op import Fact, Trait
from graphwright.ops.control.loop import Loop
from graphwright.passes.base import Pass, Record
from graphwright.passes.node_removal import has_effect
from graphwright.passes.traversal import nodes_of
from graphwright.records import dataclass

HARMLESS = Trait.ELEMENTWISE | Trait.VIEW | Trait.REDUCTION | Trait.CONTRACTION | Trait.SHAPE_ONLY
"""Ops that cannot fail: they may be computed even if the loop never runs."""


@dataclass(frozen=True)
class LoopInvariants(Pass):
    """Computes before a loop what does not change in it, if the loop certainly runs or the op cannot fail."""

    name: str = "loop_invariants"

    def run(self, module: Module, record: Record) -> bool:
        inner_first = reversed(list(nodes_of(module, Loop)))
        return any([_hoist(*loop, record) for loop in inner_first])


def _hoist(graph: Graph, loop: Node, op: Loop, record: Record) -> bool:
    region = loop.regions[0]
    own = len(region.inputs) - op.captured_operands(len(loop.inputs))
    shared = zip(reversed(loop.inputs), reversed(region.inputs[own:]), strict=False)
    outer = {inner: value for value, inner in shared if value is not None}
    runs = _certainly_runs(op, loop)
    modified = False
    for node in region:
        if not _is_invariant(node, outer, runs):
            continue
        copies = dict(outer)
        for value in node.inputs:
            if value is not None and value not in copies and value.producer is not None:
                graph.insert(copy_node(value.producer, copies), loop)  # a constant
        hoisted = graph.insert(copy_node(node, copies, loop.sources), loop)
        for value, result in zip(node.outputs, hoisted.outputs, strict=True):
            graph.add_operand(loop, result)
            inner = region.add_input(value.type, value.name)
            inner.layout, inner.device = value.layout, value.device
            region.replace_all_uses(value, inner)
            outer[inner] = result
        region.erase(node)
        record.did("values computed before the loop")
        modified = True
    return modified


def _certainly_runs(op: Loop, loop: Node) -> bool:
    known = [None if value is None else Fact(value.type) for value in loop.inputs]
    trips = op.trips_of(known)
    return not op.conditional and isinstance(trips, int) and trips > 0


def _is_invariant(node: Node, outer: dict[Value, Value], runs: bool) -> bool:
    """Whether ``node`` reads only values from outside the loop, at least one of which is not a constant."""
    if node.is_constant or node.regions or has_effect(node):
        return False
    if not runs and not HARMLESS & node.op.traits:
        return False
    read = [value for value in node.inputs if value is not None]
    return any(v in outer for v in read) and all(v in outer or is_constant(v) for v in read)

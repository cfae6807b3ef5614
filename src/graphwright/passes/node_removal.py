"""Replaces and erases nodes, together with producers that nothing else uses."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.free_symbols import symbols_in, symbols_named, symbols_of
from graphwright.ir.graph import Node, Value
from graphwright.ir.op import Trait


def replace_and_prune(node: Node, values: Sequence[Value]) -> None:
    """Replaces the outputs of ``node`` by ``values``, and erases it with the producers that only it used."""
    graph = node.graph
    assert graph is not None
    operands = node.inputs
    graph.replace_node(node, values)
    for value in operands:
        if value is not None and value.producer is not None:
            prune(value.producer)


def prune(node: Node) -> int:
    """Erases ``node`` if it is dead, then its producers likewise. Returns the number of nodes erased."""
    pending, erased = [node], 0
    while pending:
        candidate = pending.pop()
        if candidate.graph is None or not is_dead(candidate):
            continue
        operands = candidate.inputs
        candidate.graph.erase(candidate)
        erased += 1
        pending += [v.producer for v in operands if v is not None and v.producer is not None]
    return erased


def drop_unused(before: Node | None, node: Node) -> None:
    """Erases the nodes between ``before`` and ``node`` that an abandoned rewrite or decomposition built."""
    while node.previous is not before and node.previous is not None and prune(node.previous):
        pass


def is_dead(node: Node) -> bool:
    """Whether ``node`` has no effect, and other nodes need none of its results."""
    if node.graph is None or any(value.is_used for value in node.outputs) or has_effect(node):
        return False
    return not needed_results(node)


def needed_results(node: Node) -> list[int]:
    """The indices of the results that are read, or that define data-dependent sizes that other nodes refer
    to.
    """
    open_ended = any(not value.is_used and not value.type.is_static for value in node.outputs)
    sizes = _used_sizes(node) if open_ended else set[str]()
    return [v.index for v in node.outputs if v.is_used or not sizes.isdisjoint(symbols_in((v.type,)))]


def _used_sizes(node: Node) -> set[str]:
    """The data-dependent sizes that ``node`` defines and that other nodes refer to."""
    graph = node.graph
    assert graph is not None
    defined = symbols_in(value.type for value in node.outputs)
    defined -= symbols_in(value.type for value in (*node.inputs, *graph.inputs) if value is not None)
    defined -= symbols_named(node.op)
    if not defined:
        return defined
    return defined & set[str]().union(*(symbols_of(other) for other in graph if other is not node))


def has_effect(node: Node) -> bool:
    """Whether ``node``, or a node in its regions, has a side effect."""
    if Trait.EFFECT in node.op.traits:
        return True
    if not node.regions:
        return False
    return any(Trait.EFFECT in inner.op.traits for region in node.regions for inner in region.walk())

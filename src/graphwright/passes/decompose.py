"""Breaks ops into simpler ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from graphwright.ir.build import Builder
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.op import UnknownRank
from graphwright.passes.base import Pass, Record, graphs, prune, replace


@dataclass(frozen=True)
class Decompose(Pass):
    """Applies :meth:`Op.decompose` to every node that ``keep`` does not want, and to what that gives.

    What ops give must come to an end: ``depth`` bounds how often it is taken apart again.
    """

    keep: Callable[[Node], bool]
    depth: int = 8
    name: str = "decompose"

    def run(self, module: Module, record: Record) -> bool:
        modified = False
        for graph in list(graphs(module)):
            for _ in range(self.depth):
                if not self._sweep(graph, module, record):
                    break
                modified = True
        return modified

    def _sweep(self, graph: Graph, module: Module, record: Record) -> bool:
        modified = False
        for node in graph:
            if not self.keep(node) and _decompose(node, graph, module, record):
                modified = True
        return modified


def decompose(module: Module, keep: Callable[[Node], bool]) -> Record:
    """Run :class:`Decompose` on ``module``; what it did."""
    record = Record("decompose")
    record.modified = Decompose(keep).run(module, record)
    return record


def _decompose(node: Node, graph: Graph, module: Module, record: Record) -> bool:
    before = node.previous
    try:
        made = node.op.decompose(Builder(module, graph, node, node.sources), *node.inputs)
    except UnknownRank:
        made = None
        record.refused(node, "decompose", "a rank is not known yet")
    if made is None:
        _drop_unused(graph, before, node)
        return False
    record.did(f"{node.op.name} decomposed")
    replace(node, [made] if isinstance(made, Value) else made)
    return True


def _drop_unused(graph: Graph, before: Node | None, node: Node) -> None:
    """Erase what a decomposition built before it gave up."""
    while node.previous is not before and node.previous is not None and prune(node.previous):
        pass

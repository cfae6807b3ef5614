"""Traverses all graphs of a module, including regions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from graphwright.ir.graph import Graph, Module, Node
from graphwright.ir.op import Op

SomeOp = TypeVar("SomeOp", bound=Op)


def graphs(module: Module) -> Iterator[Graph]:
    """All graphs of ``module``; the regions of a graph follow it."""
    for graph in module.graphs.values():
        yield from _with_regions(graph)


def nodes_of(module: Module, kind: type[SomeOp]) -> Iterator[tuple[Graph, Node, SomeOp]]:
    """Every node of ``module`` whose op is a ``kind``, with its graph and op."""
    for graph in graphs(module):
        for node in graph:
            if isinstance(node.op, kind):
                yield graph, node, node.op


def _with_regions(graph: Graph) -> Iterator[Graph]:
    yield graph
    for node in graph:
        for region in node.regions:
            yield from _with_regions(region)

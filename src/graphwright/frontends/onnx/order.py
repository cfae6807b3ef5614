"""Sorts nodes topologically. ONNX requires this order, but not every exporter complies."""

from __future__ import annotations

from collections.abc import Container, Sequence
from heapq import heapify, heappop, heappush

import onnx


def in_order(
    nodes: Sequence[onnx.NodeProto], known: Container[str]
) -> tuple[list[onnx.NodeProto], list[onnx.NodeProto], list[onnx.NodeProto]]:
    """Sorts ``nodes`` topologically (Kahn, 1962), without other changes of their order. Returns the sorted
    nodes, the nodes on cycles, and the nodes that depend on a cycle.

    ``known``: names that no node has to produce.
    """
    producer = {n: index for index, node in enumerate(nodes) for n in node.output if n and n not in known}
    needs = [{producer[n] for n in reads(node) if n in producer} for node in nodes]
    if all(max(found, default=-1) < index for index, found in enumerate(needs)):
        return list(nodes), [], []
    readers: list[set[int]] = [set() for _ in nodes]
    for index, found in enumerate(needs):
        for source in found:
            readers[source].add(index)
    ordered = _topological(needs, readers, set(range(len(nodes))))
    stuck = set(range(len(nodes))) - set(ordered)
    dependents = set(_topological(readers, needs, stuck))
    cycle = [node for i, node in enumerate(nodes) if i in stuck and i not in dependents]
    return [nodes[i] for i in ordered], cycle, [nodes[i] for i in sorted(dependents)]


def _topological(needs: Sequence[set[int]], readers: Sequence[set[int]], among: set[int]) -> list[int]:
    """The nodes ``among`` in topological order, smallest index first, except nodes on or after a cycle."""
    waiting = {index: len(needs[index] & among) for index in among}
    ready = [index for index, count in waiting.items() if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        index = heappop(ready)
        order.append(index)
        for reader in readers[index] & among:
            waiting[reader] -= 1
            if not waiting[reader]:
                heappush(ready, reader)
    return order


def reads(node: onnx.NodeProto) -> set[str]:
    """The names that ``node`` reads, including the captures of its subgraphs."""
    names = set(node.input)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            names |= _free_names(attribute.g)
    return names


def _free_names(graph: onnx.GraphProto) -> set[str]:
    """The names that a subgraph reads but does not define."""
    names = {output.name for output in graph.output}
    defined = {info.name for info in graph.input} | {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        names |= reads(node)
        defined.update(node.output)
    return names - defined

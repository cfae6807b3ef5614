"""Nodes in an order where producers come first: ONNX demands it, and not every writer keeps it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

import onnx


def in_order(nodes: Sequence[onnx.NodeProto]) -> tuple[list[onnx.NodeProto], list[onnx.NodeProto]]:
    """``nodes`` with producers first, else in their order (Kahn, 1962), and those on or behind a cycle."""
    producer = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    needs = [{producer[n] for n in reads(node) if n in producer} for node in nodes]
    if all(max(found, default=-1) < index for index, found in enumerate(needs)):
        return list(nodes), []
    waiting = [len(found) for found in needs]
    readers: list[list[int]] = [[] for _ in nodes]
    for index, found in enumerate(needs):
        for source in found:
            readers[source].append(index)
    ready = [index for index, count in enumerate(waiting) if not count]
    heapify(ready)
    ordered: list[int] = []
    while ready:
        index = heappop(ready)
        ordered.append(index)
        for reader in readers[index]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heappush(ready, reader)
    done = set(ordered)
    return [nodes[i] for i in ordered], [node for i, node in enumerate(nodes) if i not in done]


def reads(node: onnx.NodeProto) -> Iterator[str]:
    """Names that ``node`` reads, those that its subgraphs may take from outside included."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield from current.input
        for attribute in current.attribute:
            if attribute.HasField("g"):
                yield from (output.name for output in attribute.g.output)
                pending.extend(attribute.g.node)

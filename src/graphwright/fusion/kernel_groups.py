"""The groups of nodes that fusion grows in a graph; each becomes one kernel."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from graphwright.ir.graph import Graph, Node
from graphwright.ir.op import Trait
from graphwright.ir.symbols import Dim
from graphwright.ir.types import TensorType
from graphwright.loop_nests.moves import is_move
from graphwright.loop_nests.nest import Nest
from graphwright.records import dataclass


@dataclass(eq=False)
class KernelGroup:
    """The nodes of one kernel, in graph order. ``nest`` is the loop analysis of all nodes except the anchors,
    if it has been run.
    """

    nodes: list[Node]
    anchors: tuple[Node, ...] = ()
    """The contraction whose epilogue the other nodes form, or the two products of a dual GEMM."""
    nest: Nest | None = None

    @property
    def rest(self) -> list[Node]:
        """All nodes except the anchors."""
        return [n for n in self.nodes if n not in self.anchors] if self.anchors else self.nodes

    @property
    def is_only_views(self) -> bool:
        """Whether all nodes are views or moves, so that the kernel would compute nothing."""
        return not self.anchors and all(Trait.VIEW in n.op.traits or is_move(n) for n in self.nodes)

    @property
    def has_reduction(self) -> bool:
        """Whether a node reduces axes."""
        return any(Trait.REDUCTION in n.op.traits for n in self.nodes)

    def drop_last_views(self) -> list[Node]:
        """Removes views at the end of the kernel and returns them: outside the kernel they cost nothing, and
        the kernel keeps its axes. A group of only views and moves is emptied, as a plain copy has a library
        kernel.
        """
        dropped = self.nodes[:] if self.is_only_views else []
        self.nodes = [] if dropped else self.nodes
        for node in reversed(self.nodes):
            if Trait.VIEW in node.op.traits and not any(user in self.nodes for user in node.output.users):
                self.nodes.remove(node)
                dropped.append(node)
        return dropped


def connected_parts(nodes: Sequence[Node]) -> list[list[Node]]:
    """``nodes``, in graph order, as connected components: values connect the nodes of a component."""
    number: dict[Node, int] = {node: k for k, node in enumerate(nodes)}
    for node in nodes:
        for value in node.inputs:
            other = None if value is None else value.producer
            if other in number and number[other] != number[node]:
                old, new = number[node], number[other]
                number.update({each: new for each, k in number.items() if k == old})
    parts: dict[int, list[Node]] = {}
    for node in nodes:
        parts.setdefault(number[node], []).append(node)
    return list(parts.values())


class KernelPartition:
    """Groups of the nodes of ``graph``; a node belongs to at most one group."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.group_of: dict[Node, KernelGroup] = {}
        self.position = {node: i for i, node in enumerate(graph)}
        self._bytes: dict[tuple[TensorType, ...], Dim] = {}

    def add(self, group: KernelGroup) -> None:
        """Assigns the nodes of ``group`` to it, including nodes that were in another group."""
        for node in group.nodes:
            self.group_of[node] = group

    def groups(self) -> list[KernelGroup]:
        """All groups, ordered by their first node."""
        return list(dict.fromkeys(self.group_of.values()))

    def ordered(self, nodes: Iterable[Node]) -> list[Node]:
        """``nodes`` in graph order."""
        return sorted(nodes, key=self.position.__getitem__)

    def producers(self, node: Node) -> dict[KernelGroup, list[Node]]:
        """The groups that compute the operands of ``node``, with the producers in each, latest first: a
        residual addition fuses with the branch that ends later. Groups that only move elements come last: a
        merge with such a group saves a copy, a merge with another group an epilogue.
        """
        found = {v.producer for v in node.inputs if v is not None and v.producer in self.group_of}
        producers: dict[KernelGroup, list[Node]] = {}
        for producer in sorted((p for p in found if p is not None), key=lambda p: -self.position[p]):
            producers.setdefault(self.group_of[producer], []).append(producer)
        return dict(sorted(producers.items(), key=lambda item: item[0].is_only_views))

    def bytes_of(self, types: Iterable[TensorType]) -> Dim:
        """Total bytes of tensors of ``types``. Memoized, as the layers of a model repeat."""
        key = tuple(types)
        if key not in self._bytes:
            self._bytes[key] = sum((each.bytes for each in key), 0)
        return self._bytes[key]

    def bytes_between(self, producer: Node, node: Node) -> Dim:
        """Bytes of the results of ``producer`` that ``node`` reads, plus the bytes written where ``node`` is
        the only reader.
        """
        if Trait.VIEW in node.op.traits:
            return 0
        passed: list[TensorType] = []
        for value in producer.outputs:
            if value in node.inputs and value.type.shape is not None:
                kept = len(value.uses) > 1 or value in self.graph.outputs
                passed += [value.type] if kept else [value.type, value.type]
        return self.bytes_of(passed)

    def makes_cycle(self, members: Collection[Node]) -> bool:
        """Whether a path leaves ``members`` and returns to them: a depth-first search from the outside
        readers, which stops at the position of the last member.
        """
        last = max(self.position[n] for n in members)
        stack = [u for n in members for v in n.outputs for u in v.users if u not in members]
        seen: set[Node] = set()
        while stack:
            node = stack.pop()
            if node in members:
                return True
            if node in seen or self.position.get(node, last) >= last:
                continue
            seen.add(node)
            group = self.group_of.get(node)
            reached = group.nodes if group is not None else [node]
            seen.update(reached)
            stack += [u for n in reached for v in n.outputs for u in v.users]
        return False

"""A partition of a graph: which nodes one kernel computes."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from graphwright.ir.graph import Graph, Node
from graphwright.ir.op import Trait
from graphwright.ir.symbols import Dim
from graphwright.ir.types import TensorType
from graphwright.loop_nests.moves import is_move
from graphwright.loop_nests.nest import Nest
from graphwright.records import dataclass


@dataclass(eq=False)
class Group:
    """Nodes of one kernel in their order; ``nest``: the analysis of all but anchors, where it is known."""

    nodes: list[Node]
    anchors: tuple[Node, ...] = ()
    """The contraction, or the two products of one left factor, whose epilogue the others are."""
    nest: Nest | None = None

    @property
    def rest(self) -> list[Node]:
        """All but anchors."""
        return [n for n in self.nodes if n not in self.anchors] if self.anchors else self.nodes

    @property
    def is_only_views(self) -> bool:
        """Whether it computes nothing."""
        return not self.anchors and all(Trait.VIEW in n.op.traits or is_move(n) for n in self.nodes)

    @property
    def has_reduction(self) -> bool:
        """Whether a node folds axes."""
        return any(Trait.REDUCTION in n.op.traits for n in self.nodes)

    def drop_last_views(self) -> list[Node]:
        """Leave views at the end of a kernel outside: they cost nothing there, and the kernel keeps its axes.
        So are moves that nothing computes with: a copy is a kernel of its own. What was left."""
        dropped = self.nodes[:] if self.is_only_views else []
        self.nodes = [] if dropped else self.nodes
        for node in reversed(self.nodes):
            if Trait.VIEW in node.op.traits and not any(user in self.nodes for user in node.output.users):
                self.nodes.remove(node)
                dropped.append(node)
        return dropped


class Partition:
    """Groups of the nodes of ``graph``: of each node at most one."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.group_of: dict[Node, Group] = {}
        self.position = {node: i for i, node in enumerate(graph)}
        self._bytes: dict[tuple[TensorType, ...], Dim] = {}

    def add(self, group: Group) -> None:
        """Let ``group`` be the one of its nodes."""
        for node in group.nodes:
            self.group_of[node] = group

    def groups(self) -> list[Group]:
        """Each group once, in the order of the nodes that joined first."""
        return list(dict.fromkeys(self.group_of.values()))

    def ordered(self, nodes: Iterable[Node]) -> list[Node]:
        """``nodes`` in the order of the graph."""
        return sorted(nodes, key=self.position.__getitem__)

    def producers(self, node: Node) -> dict[Group, list[Node]]:
        """Groups of the operands of ``node``, latest first, with the nodes that compute these: the residual
        of an addition is fused behind the later branch. What only moves elements is last: it gives up a copy,
        others an epilogue."""
        found = {v.producer for v in node.inputs if v is not None and v.producer in self.group_of}
        made: dict[Group, list[Node]] = {}
        for producer in sorted((p for p in found if p is not None), key=lambda p: -self.position[p]):
            made.setdefault(self.group_of[producer], []).append(producer)
        return dict(sorted(made.items(), key=lambda item: item[0].is_only_views))

    def bytes_of(self, types: Iterable[TensorType]) -> Dim:
        """Bytes of tensors of ``types``: worked out once, as layers of a model repeat."""
        key = tuple(types)
        if key not in self._bytes:
            self._bytes[key] = sum((each.bytes for each in key), 0)
        return self._bytes[key]

    def bytes_between(self, producer: Node, node: Node) -> Dim:
        """Bytes that ``node`` reads of what ``producer`` makes, and of writes that serve it alone."""
        if Trait.VIEW in node.op.traits:
            return 0
        passed: list[TensorType] = []
        for value in producer.outputs:
            if value in node.inputs and value.type.shape is not None:
                kept = len(value.uses) > 1 or value in self.graph.outputs
                passed += [value.type] if kept else [value.type, value.type]
        return self.bytes_of(passed)

    def makes_cycle(self, members: Collection[Node]) -> bool:
        """Whether a path leaves ``members`` and returns: found from the consumers outside, up to the last
        member."""
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

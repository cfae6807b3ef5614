"""The fusion pass: grows groups of nodes that one kernel can compute, and makes Fused nodes of them.

Nodes are visited in order; each joins the groups of its operands where the loop analysis allows it, no cycle
would arise, and the benefit model agrees. What does not join is recorded with its reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.fusion.benefit import Benefit, worth_fusing
from graphwright.fusion.epilogue import epilogue_groups
from graphwright.ir.constant import Constant, is_constant
from graphwright.ir.fused import Fused
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.op import Trait
from graphwright.loop_nests.axes import Nest, NotOneNest, analyse
from graphwright.passes.base import Known, Pass, Record, graphs
from graphwright.records import dataclass
from graphwright.targets.base import Target


@dataclass(eq=False)
class _Group:
    """Nodes in their order; ``nest``: the analysis of all but the anchor, where it is known."""

    nodes: list[Node]
    anchor: Node | None = None
    nest: Nest | None = None

    @property
    def rest(self) -> list[Node]:
        return self.nodes if self.anchor is None else [n for n in self.nodes if n is not self.anchor]


@dataclass(frozen=True)
class Fuse(Pass):
    """Groups the nodes of every graph, regions of control flow included, into Fused nodes.

    What ``target`` has no code for is left alone. ``benefit`` says which of the legal merges to make.
    """

    target: Target
    benefit: Benefit = worth_fusing
    name: str = "fuse"
    requires: Known = Known.TYPES

    def run(self, module: Module, record: Record) -> bool:
        before = record.counts["regions"]
        for graph in list(graphs(module)):
            for group in _Grouping(graph, record, self.target, self.benefit).run():
                if len(group.nodes) > 1 or group.anchor is None:
                    outline(graph, group.nodes)
                    record.did("regions")
            graph.sort()
        return record.counts["regions"] > before


class _Grouping:
    def __init__(self, graph: Graph, record: Record, target: Target, benefit: Benefit) -> None:
        self.graph, self.record, self.target, self.benefit = graph, record, target, benefit
        self.group_of: dict[Node, _Group] = {}
        self.position = {node: i for i, node in enumerate(graph)}

    def run(self) -> list[_Group]:
        for node in self.graph:
            if not _can_start(node) or not self._has_code(node):
                continue
            group = _Group([node], node if Trait.CONTRACTION in node.op.traits else None)
            self.group_of[node] = group
            if group.anchor is not None:
                continue
            for producer in self._producer_groups(node):
                if producer is not self.group_of[node]:
                    self._try_merge(node, producer)
        groups = [g for g in dict.fromkeys(self.group_of.values()) if not _is_only_views(g)]
        for group in groups:
            _drop_last_views(group)
        return groups

    def _has_code(self, node: Node) -> bool:
        dtypes = {value.type.dtype for value in (*node.inputs, *node.outputs) if value is not None}
        missing = sorted(str(dtype) for dtype in dtypes if not self.target.has_code(dtype))
        refusal = f"no code generator for {', '.join(missing)}" if missing else self._refusal(node)
        if refusal is not None:
            self.record.refused(node, "fuse", refusal)
        return refusal is None

    def _refusal(self, node: Node) -> str | None:
        if Trait.CONTRACTION in node.op.traits and not self.target.library:
            return f"no kernel of {self.target.name} computes an epilogue on its tiles"
        return self.target.node_refusal(node)

    def _producer_groups(self, node: Node) -> list[_Group]:
        """Groups of the operands, latest first: the residual of an addition is fused behind the later
        branch."""
        producers = {v.producer for v in node.inputs if v is not None and v.producer in self.group_of}
        ordered = sorted((p for p in producers if p is not None), key=lambda p: -self.position[p])
        return list(dict.fromkeys(self.group_of[p] for p in ordered))

    def _try_merge(self, node: Node, producer: _Group) -> None:
        merged = self._merged(self.group_of[node], producer)
        if isinstance(merged, str):
            self.record.refused(node, f"fuse with {producer.nodes[-1].place}", merged)
            return
        self.record.did("joined nodes")
        for member in merged.nodes:
            self.group_of[member] = merged

    def _merged(self, own: _Group, producer: _Group) -> _Group | str:
        """Both as one group, or the reason why not."""
        if own.anchor is not None and producer.anchor is not None:
            return "two contractions"
        if len(own.nodes) == 1 and _widens(own.nodes[0]) and self._is_stored(own.nodes[0], producer):
            return "its operand is narrower, and each reader can widen it itself"
        nodes = sorted((*producer.nodes, *own.nodes), key=self.position.__getitem__)
        limits = self.target.limits
        if len(nodes) > limits.nodes:
            return f"more than {limits.nodes} nodes"
        anchor = own.anchor or producer.anchor
        if anchor is not None and any(v is not None and v.producer in nodes for v in anchor.inputs):
            return "the contraction reads what its epilogue would compute"
        merged = _Group(nodes, anchor)
        try:
            merged.nest = nest = _nest(merged, own, producer)
        except NotOneNest as reason:
            return str(reason)
        if anchor is not None and (refusal := epilogue_groups(anchor, merged.rest, nest)):
            return refusal
        if len(_operands(nodes)) > limits.operands:
            return f"more than {limits.operands} operands"
        if self._makes_cycle(set(nodes)):
            return "a value would leave the kernel and be read by it again"
        return (
            self.target.region_refusal(nodes, nest)
            or self.benefit(nodes, nest, self.target.machine)
            or merged
        )

    def _is_stored(self, node: Node, producer: _Group) -> bool:
        """Whether the operand of ``node`` is stored anyway: a contraction reads it; or the reader at the end
        of the chain that ``node`` begins waits for something later, whose kernel it will join."""
        if any(Trait.CONTRACTION in user.op.traits for user in node.operand(0).users):
            return True
        if producer.anchor is None:
            return False
        value = node.output
        while len(value.users) == 1:
            reader = value.users[0]
            others = [v for v in reader.inputs if v is not None and v is not value]
            if any(v.producer and self.position.get(v.producer, -1) > self.position[node] for v in others):
                return True
            if not reader.op.has_expression() or not all(map(is_constant, others)):
                return False
            value = reader.output
        return False

    def _makes_cycle(self, members: set[Node]) -> bool:
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


def _nest(merged: _Group, own: _Group, producer: _Group) -> Nest:
    """The analysis of a group: that of the producer's goes on with a single node. Raises NotOneNest."""
    if len(own.nodes) > 1 or producer.nest is None:
        return analyse(merged.rest)
    return producer.nest.extended(own.nodes[0])


def _can_start(node: Node) -> bool:
    """Whether a region may hold ``node``: it has loops of its own kind and every operand is there."""
    traits = node.op.traits
    if isinstance(node.op, Constant) or node.regions or any(v is None for v in node.inputs):
        return Trait.CONTRACTION in traits
    if any(v.type.shape is None for v in (*node.inputs, *node.outputs) if v is not None):
        return False
    fusable = Trait.VIEW in traits or Trait.REDUCTION in traits or node.op.has_expression()
    return Trait.CONTRACTION in traits or (fusable and len(node.outputs) == 1)


def _is_only_views(group: _Group) -> bool:
    return group.anchor is None and all(Trait.VIEW in n.op.traits for n in group.nodes)


def _drop_last_views(group: _Group) -> None:
    """Leave views at the end of a region outside: they cost nothing there, and the region keeps its axes."""
    for node in reversed(group.nodes):
        if Trait.VIEW in node.op.traits and not any(user in group.nodes for user in node.output.users):
            group.nodes.remove(node)


def _widens(node: Node) -> bool:
    """Whether ``node`` gives more bytes than it reads, of one operand."""
    if len(node.inputs) != 1 or not node.op.has_expression():
        return False
    return node.operand(0).type.dtype.bytes < node.output.type.dtype.bytes


def _operands(nodes: Sequence[Node]) -> list[Value]:
    """Values from outside, each once; one-element constants of expressions move into the region and do not
    count."""
    inside = {v for n in nodes for v in n.outputs}
    values = ((n, v) for n in nodes for v in n.inputs if v is not None and v not in inside)
    return list(dict.fromkeys(v for n, v in values if not _is_literal(n, v)))


def _is_literal(reader: Node, value: Value) -> bool:
    if Trait.CONTRACTION in reader.op.traits:
        return False
    return is_constant(value) and value.type.elements == 1


def outline(graph: Graph, nodes: Sequence[Node]) -> Node:
    """Move ``nodes`` (in order) into the region of a new Fused node. The graph may need to be sorted
    afterwards."""
    inside = {v for n in nodes for v in n.outputs}
    operands = _operands(nodes)
    results = [
        v for n in nodes for v in n.outputs
        if v in graph.outputs or any(u not in nodes for u in v.users)
    ]  # fmt: skip
    region = Graph("region")
    inner: dict[Value, Value] = {v: region.add_input(v.type, v.name) for v in operands}
    for node in nodes:
        for value in node.inputs:
            if value is not None and value not in inner and value not in inside:
                source = value.producer
                assert source is not None  # a literal
                inner[value] = region.append(Node(source.op, (), [value.type], sources=source.sources)).output
        inputs = [None if v is None else inner[v] for v in node.inputs]
        types = [v.type for v in node.outputs]
        copy = Node(node.op, inputs, types, name=node.name, sources=node.sources)
        region.append(copy)
        for old, new in zip(node.outputs, copy.outputs, strict=True):
            new.name, new.layout = old.name, old.layout
            inner[old] = new
    region.set_outputs([inner[v] for v in results])
    sources = [s for n in nodes for s in n.sources]
    fused = Node(Fused(len(results)), operands, [v.type for v in results], [region], sources=sources)
    graph.insert(fused, nodes[-1])
    for old, new in zip(results, fused.outputs, strict=True):
        graph.replace_all_uses(old, new)
    for node in reversed(nodes):
        graph.erase(node)
    return fused

"""Applies the fusion hints of a module: the nodes of a hinted group form one kernel, which contains no other
nodes except views.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from graphwright.errors import Collector, ModelError
from graphwright.fusion.candidate import Candidate
from graphwright.fusion.decisions import Decision
from graphwright.fusion.kernel_groups import KernelGroup, KernelPartition
from graphwright.ir.graph import Module, Node
from graphwright.ir.hints import NEVER, hints_of
from graphwright.ir.op import Trait
from graphwright.ir.refusal import Code, Refusal
from graphwright.records import dataclass

_REMEDY: Final = "change or remove the hint graphwright.fuse of one of the nodes"


@dataclass(frozen=True)
class HintedGroup:
    """The group that a node is hinted to join. ``alone``: the node may only merge with nodes of the same
    source node.
    """

    name: str
    alone: bool = False


class Hints:
    """The hints of one module, and those that cannot be satisfied."""

    def __init__(self, module: Module) -> None:
        self._hints = module.hints
        self._faults = Collector(ModelError)
        self._sources: dict[str, list[frozenset[str]]] = {}
        """For each group, its source nodes in each graph that contains some."""

    def __bool__(self) -> bool:
        return bool(self._hints)

    def group_of(self, node: Node) -> HintedGroup | None:
        """The hinted group of ``node``, or None. If its source nodes have contradicting hints, the first one
        counts.
        """
        hint = next(iter(hints_of(node.sources, self._hints)), None)
        if hint is None:
            return None
        return HintedGroup(node.location, alone=True) if hint == NEVER else HintedGroup(hint)

    def merges(self, candidate: Candidate) -> str | None:
        """The name of the group that requires this merge, whatever fusion rules decide; None if no group
        does. Callers check :meth:`refusal` first.
        """
        hinted = self._of(candidate.producer) or self._of(candidate.consumer)
        return None if hinted is None or hinted.alone else hinted.name

    def refusal(self, candidate: Candidate) -> Refusal | None:
        """Why hints forbid this merge; None if they allow it."""
        producer, consumer = candidate.producer, candidate.consumer
        ours, theirs = self._of(producer), self._of(consumer)
        if ours == theirs or (ours is None and producer.is_only_views):
            return None
        if theirs is None and consumer.is_only_views:
            return None
        return Refusal(Code.HINT, self._why_apart(producer.nodes, consumer.nodes))

    def _why_apart(self, ours: Sequence[Node], theirs: Sequence[Node]) -> str:
        """The reason, with the first hinted node and a node of the other side."""
        for nodes, others in ((ours, theirs), (theirs, ours)):
            for node in nodes:
                hinted = self.group_of(node)
                if hinted is not None and hinted.alone:
                    return f"{node.location} has the hint {NEVER}"
                if hinted is not None:
                    apart = f"{others[0].location} is not"
                    return f"{node.location} is in the hinted group {hinted.name!r}, and {apart}"
        raise ValueError("neither side has a hint")

    def _of(self, group: KernelGroup) -> HintedGroup | None:
        return next((found for found in map(self.group_of, group.nodes) if found is not None), None)

    # -- hints that cannot be satisfied

    def check(self, partition: KernelPartition, decisions: Mapping[tuple[Node, Node], Decision]) -> None:
        """Collects the hints that the final partition of one graph does not satisfy."""
        members: dict[str, list[Node]] = {}
        for node in partition.graph:
            if node.is_constant:
                continue
            self._check_contradiction(node)
            hinted = self.group_of(node)
            if hinted is not None and not hinted.alone:
                members.setdefault(hinted.name, []).append(node)
        for group, nodes in members.items():
            self._sources.setdefault(group, []).append(
                frozenset(s for node in nodes for s in node.sources if self._hints.get(s) == group)
            )
            computing = [node for node in nodes if Trait.VIEW not in node.op.traits]
            self._check_group(group, computing, partition, decisions)

    def _check_contradiction(self, node: Node) -> None:
        found = hints_of(node.sources, self._hints)
        if len(found) > 1:
            (one, first), (other, second), *_ = found.items()
            message = (
                f"became one op but have the hints {one!r} and {other!r} [{Code.HINT_CONTRADICTION.value}]"
            )
            self._faults.add("fusion-hint", message, f"{first} and {second}", _REMEDY)

    def _check_group(
        self,
        group: str,
        nodes: list[Node],
        partition: KernelPartition,
        decisions: Mapping[tuple[Node, Node], Decision],
    ) -> None:
        kernel = {node: partition.group_of.get(node, node) for node in nodes}
        if len({*kernel.values()}) < 2:
            return
        for (producer, node), decision in decisions.items():
            if producer in kernel and node in kernel and kernel[producer] is not kernel[node]:
                self._refuse(group, producer.location, node.location, decision.code, decision.why)
                return
        first = nodes[0]
        second = next(node for node in nodes if kernel[node] is not kernel[first])
        why = "neither reads the other's result"
        self._refuse(group, first.location, second.location, Code.NOT_ADJACENT, why)

    def _refuse(self, group: str, first: str, second: str, code: Code, why: str) -> None:
        message = f"cannot share a kernel, as the hinted group {group!r} requires: {why} [{code.value}]"
        self._faults.add("fusion-hint", message, f"{first} and {second}", code.remedy or _REMEDY)

    def raise_if_any(self) -> None:
        """Raises ModelError with every hint that cannot be satisfied."""
        for group, found in self._sources.items():
            if len({*found}) > 1:
                first, second = _nodes_in_two_graphs(found)
                why = "they are in different graphs, such as two branches or a loop body"
                self._refuse(group, first, second, Code.NOT_ADJACENT, why)
        self._faults.raise_if_any()


def _nodes_in_two_graphs(graphs: Iterable[frozenset[str]]) -> tuple[str, str]:
    """A source node of the group in one graph, and one in another graph."""
    first, second, *_ = dict.fromkeys(graphs)
    return min(first - second or first), min(second - first or second)

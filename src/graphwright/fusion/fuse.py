"""The fusion pass: grows groups of nodes that one kernel can compute, and replaces each group by a Fused
node.

The pass visits nodes in order. A node joins the groups of its operands if that is legal and if the first rule
that matches the two allows it. Groups that are predicted to be slower than two kernels are split again. For
every candidate, the decision is recorded with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from graphwright.cost.choices import NOTHING_MEASURED, Choices
from graphwright.fusion.candidate import Candidate
from graphwright.fusion.decisions import Decision, merge_decision
from graphwright.fusion.hints import Hints
from graphwright.fusion.kernel_groups import KernelGroup, KernelPartition
from graphwright.fusion.legality import code_refusal, loops_refusal, merge_refusal
from graphwright.fusion.measured import EXPECTED, Outcome, is_split, measured_outcome
from graphwright.fusion.outline import outline
from graphwright.fusion.rules import BUILT_IN
from graphwright.fusion.rules.base import FusionRule
from graphwright.fusion.rules.switches import RuleSet
from graphwright.fusion.splits import Cut, Splits
from graphwright.ir.graph import Graph, Module, Node
from graphwright.ir.op import Trait
from graphwright.ir.refusal import Code, Refusal
from graphwright.loop_nests.moves import is_move
from graphwright.passes.base import Known, Pass, Record
from graphwright.passes.traversal import graphs
from graphwright.records import dataclass, field, replace
from graphwright.support.source_names import sources_text
from graphwright.targets.base import Target

_NAME: Final = 80
"""The most characters of the names of a node in a reason."""
LEGAL: Final = (
    *EXPECTED,
    Code.REDUCTION_OPERAND,
    Code.RULE_OFF,
    Code.RULE,
    Code.NO_RULE,
    Code.MEASURED,
    Code.HINT,
)
"""Codes of merges that are legal but were refused: their decisions contain a predicted time."""


@dataclass(frozen=True)
class Fuse(Pass):
    """Groups the nodes of every graph, including regions of control flow, into Fused nodes.

    Nodes for which ``target`` cannot generate code stay as they are.
    """

    target: Target
    rules: RuleSet = field(default_factory=RuleSet)
    choices: Choices = NOTHING_MEASURED
    splits: bool = True
    """Whether to split kernels that are predicted to be slower than two kernels."""
    name: str = "fuse"
    requires: Known = Known.TYPES

    def run(self, module: Module, record: Record) -> bool:
        before = record.counts["regions"]
        hints, splits = Hints(module), Splits(self.target.machine, module.symbols)
        grouped = [(g, _Grouping(g, record, self, hints, splits).run()) for g in graphs(module)]
        hints.raise_if_any()
        for graph, groups in grouped:
            for group in groups:
                if len(group.nodes) > 1 or not group.anchors:
                    outline(graph, group.nodes)
                    record.did("regions")
            graph.sort()
        return record.counts["regions"] > before


class _Grouping:
    """Grows the groups of one graph."""

    def __init__(self, graph: Graph, record: Record, fuse: Fuse, hints: Hints, splits: Splits) -> None:
        self.record, self.fuse, self.hints, self.splits = record, fuse, hints, splits
        self.target, self.rules, self.choices = fuse.target, fuse.rules, fuse.choices
        self.partition = KernelPartition(graph)
        self.decisions: dict[tuple[Node, Node], Decision] = {}
        self.apart: dict[Node, Refusal] = {}
        """Nodes that cannot be in a region, each with the reason."""
        self.requested: set[Node] = set()
        """Nodes that users' rules or measurements merged."""

    def run(self) -> list[KernelGroup]:
        for node in self.partition.graph:
            if not node.is_constant:
                self._visit(node)
        if self.hints:
            self.hints.check(self.partition, self.decisions)
        groups = [part for group in self.partition.groups() for part in self._split(group)]
        for group in groups:
            for view in group.drop_last_views():
                self._leave(view)
        self.record.notes += self.decisions.values()
        return [group for group in groups if group.nodes]

    def _visit(self, node: Node) -> None:
        refusal = self._refusal(node)
        if refusal is not None:
            self.apart[node] = refusal
        else:
            anchors = (node,) if Trait.CONTRACTION in node.op.traits else ()
            self.partition.add(KernelGroup([node], anchors))
            if anchors:
                refusal = Refusal(Code.PROLOGUE, f"{node.op.name} reads its operands from memory")
        for producer in _producers(node):
            if (reason := refusal or self.apart.get(producer)) is not None:
                self._refuse(producer, node, reason)
        if refusal is None:
            self._join(node)

    def _refusal(self, node: Node) -> Refusal | None:
        if (refusal := loops_refusal(node)) is not None:
            return refusal
        if (refusal := code_refusal(node, self.target)) is not None:
            self.record.refused(node, "fuse", refusal)
        return refusal

    def _join(self, node: Node) -> None:
        """Merges ``node`` with the groups of its operands where possible."""
        for producer, members in self.partition.producers(node).items():
            consumer = self.partition.group_of[node]
            if producer is consumer:
                continue
            candidate = Candidate(producer, consumer, self.partition, self.target)
            outcome, predicted = self._decide(candidate), None
            decided = outcome.decided
            if isinstance(decided, Refusal):
                self.record.refused(
                    node, f"fuse with {sources_text(producer.nodes[-1].location, _NAME)}", decided
                )
                code, why = decided.code, decided.why
                if code in LEGAL:
                    predicted = self.splits.predicted(producer.nodes, consumer.nodes, candidate.nodes)
            else:
                self.record.did("joined nodes")
                code, why = Code.MERGED, decided
            for member, saved in zip(members, candidate.bytes_saved(members), strict=True):
                self.decisions[member, node] = merge_decision(
                    member, node, code, why, saved, predicted, outcome.measured
                )
            if code is Code.MERGED:
                self.partition.add(candidate.merged())

    def _decide(self, candidate: Candidate) -> Outcome:
        """The reason for merging the two sides of ``candidate``, or the refusal. Hints take precedence over
        rules, and measurements over the benefit that rules expect.
        """
        if (refusal := merge_refusal(candidate)) is not None:
            return Outcome(refusal)
        if self.hints:
            if (refusal := self.hints.refusal(candidate)) is not None:
                return Outcome(refusal)
            if (group := self.hints.merges(candidate)) is not None:
                return Outcome(f"hint {group}")
        decided = self.rules.decide(candidate)
        if isinstance(decided, FusionRule) and decided not in BUILT_IN:
            self.requested.update(candidate.nodes)
        ruled = decided if isinstance(decided, Refusal) else f"rule {decided.name}"
        outcome = measured_outcome(ruled, candidate, self.choices, self.record.notes)
        if isinstance(ruled, Refusal) and not isinstance(outcome.decided, Refusal):
            self.requested.update(candidate.nodes)
        return outcome

    def _split(self, group: KernelGroup) -> Iterator[KernelGroup]:
        """The kernels that compute ``group``: one, unless two are predicted to be faster."""
        cuts = list(self.splits.cuts(group))
        may_split = self.fuse.splits and not self._is_requested(group)
        split = self.splits.best(group, cuts) if may_split else None
        if split is None or not self._is_split(group, *split[:2]):
            for cut in cuts:
                self._predict(cut)
            yield group
            return
        first, second, predicted = split
        for node in second.nodes:
            for producer in _producers(node):
                if producer in first.nodes:
                    self._refuse(producer, node, Refusal(Code.PREDICTED, Code.PREDICTED.means), predicted)
        yield from self._split(first)
        yield from self._split(second)

    def _predict(self, cut: Cut) -> None:
        decision = self.decisions.get((cut.producer, cut.reader))
        if decision is not None and decision.code is Code.MERGED:
            self.decisions[cut.producer, cut.reader] = replace(decision, predicted=cut.predicted)

    def _is_split(self, group: KernelGroup, first: KernelGroup, second: KernelGroup) -> bool:
        return is_split(group.nodes, first.nodes, second.nodes, self.choices, self.record.notes)

    def _is_requested(self, group: KernelGroup) -> bool:
        """Whether a hint, a user's rule or a measurement on this machine requests the kernel."""
        return any(node in self.requested or self.hints.group_of(node) is not None for node in group.nodes)

    def _refuse(self, producer: Node, node: Node, reason: Refusal, predicted: float | None = None) -> None:
        saved = self.partition.bytes_between(producer, node)
        self.decisions[producer, node] = merge_decision(
            producer, node, reason.code, reason.why, saved, predicted
        )

    def _leave(self, view: Node) -> None:
        """Records that ``view``, which had joined a group, was removed from it."""
        for producer in _producers(view):
            decision = self.decisions.get((producer, view))
            if decision is not None and decision.code is Code.MERGED:
                code = Code.ONLY_MOVES if is_move(view) else Code.LAST_VIEW
                self._refuse(producer, view, Refusal(code, code.means))


def _producers(node: Node) -> Iterator[Node]:
    """The nodes that compute the operands of ``node``, each once."""
    found = dict.fromkeys(v.producer for v in node.inputs if v is not None)
    return (p for p in found if p is not None and not p.is_constant)

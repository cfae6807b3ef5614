"""The explanation of a model: its fusion decisions, and the bytes that its kernels read and write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from graphwright.compiler.recompile import unpacked_module
from graphwright.cost.nominal import nominal
from graphwright.errors import Diagnostic, FeedError
from graphwright.fusion.decision_text import decode_decisions
from graphwright.fusion.decisions import Decision, Verdict
from graphwright.fusion.traffic import NodeTraffic, Traffic, total_of, traffic_of
from graphwright.ir.graph import Module
from graphwright.package.package import Package
from graphwright.records import dataclass
from graphwright.support.message_text import did_you_mean, listed
from graphwright.tools.reports.model_facts import sides

FORMAT: Final = 1


@dataclass(frozen=True, eq=False)
class Explanation:
    """The fusion decisions of one entry, and the bytes that each node of the fused graph reads and writes."""

    decisions: Sequence[Decision]
    nodes: Sequence[NodeTraffic]
    module: Module

    @classmethod
    def of(cls, package: Package) -> Explanation:
        """The explanation of the main entry of ``package``. Raises PackageError if the package is damaged."""
        module = unpacked_module(package)
        return cls(decode_decisions(package.main.decisions), traffic_of(module), module)

    def bytes_of(self, decision: Decision) -> int:
        """The bytes that the edit saves or would save in one run; dynamic dimensions are estimated."""
        saved = decision.bytes_saved
        return 0 if saved is None else nominal(saved, self.module.symbols)

    @cached_property
    def total(self) -> tuple[Traffic, Traffic]:
        """The bytes that all nodes read and write, and the bytes if each op were a kernel."""
        return total_of(self.nodes)

    @property
    def ops(self) -> int:
        """The number of ops that run."""
        return sum(len(node.ops) for node in self.nodes)

    def groups(self, verdict: Verdict) -> list[tuple[str, list[Decision]]]:
        """The decisions with ``verdict``, grouped by rule or by code of refusal; groups and decisions with
        the most bytes come first.
        """
        found: dict[str, list[Decision]] = {}
        for each in sorted(self.decisions, key=lambda d: -self.bytes_of(d)):
            if each.verdict is verdict:
                found.setdefault(each.why if verdict is Verdict.TAKEN else each.code.value, []).append(each)
        return sorted(found.items(), key=lambda item: -sum(map(self.bytes_of, item[1])))

    # -- why not

    def names(self) -> set[str]:
        """All names by which users can refer to nodes: those in reports, and those in the model."""
        known = {name for node in self.nodes for name in (node.name, *node.sources)}
        return known.union(*self._aliases.values())

    def kernel_of(self, first: str, second: str) -> NodeTraffic | None:
        """The node of the fused graph that computes both."""
        return next((n for n in self.nodes if {first, second} <= {n.name, *n.sources}), None)

    def first_refusal(self, first: str, second: str) -> Decision | None:
        """The first edge without a merge on a path between the two nodes; None if there is no such path."""
        return self._on_the_way(first, second) or self._on_the_way(second, first)

    def _on_the_way(self, start: str, end: str) -> Decision | None:
        """The path found by breadth-first search, so that a direct edge from ``start`` to ``end`` is
        preferred.
        """
        pending = [node for node in self._readers if start in self._aliases[node]]
        refused: dict[str, Decision | None] = dict.fromkeys(pending)
        for node in pending:
            for decision in self._readers.get(node, ()):
                reader = decision.edit.nodes[-1]
                if reader in refused:
                    continue
                taken = decision.verdict is Verdict.TAKEN
                refused[reader] = refused[node] or (None if taken else decision)
                if end in self._aliases[reader] and refused[reader] is not None:
                    return refused[reader]
                pending.append(reader)
        return None

    @cached_property
    def _readers(self) -> Mapping[str, list[Decision]]:
        """The decisions by producer."""
        found: dict[str, list[Decision]] = {}
        for decision in self.decisions:
            if len(decision.edit.nodes) > 1:
                found.setdefault(decision.edit.nodes[0], []).append(decision)
        return found

    @cached_property
    def _aliases(self) -> Mapping[str, set[str]]:
        """The names of each node of a decision: its own, and those of its source nodes."""
        found: dict[str, set[str]] = {}
        for decision in self.decisions:
            for name, sources in zip(decision.edit.nodes, decision.sources, strict=True):
                found.setdefault(name, {name}).update(sources)
        return found

    def require_names(self, names: Sequence[str]) -> None:
        """Raises FeedError with all names that do not refer to a node that runs."""
        known = self.names()
        faults = [
            Diagnostic(
                "node",
                f"no node that runs is called {name!r}, or comes from one of that name",
                hint=f"{did_you_mean([name], known)}folded and removed nodes are not in the list; "
                f"nodes: {listed(sorted(known))}",
            )
            for name in names
            if name not in known
        ]
        if faults:
            raise FeedError(*faults)

    # -- as JSON

    def facts(self) -> dict[str, Any]:
        """All of it, under keys that stay."""
        return {
            "format": FORMAT,
            "ops": self.ops,
            "nodes": [
                {
                    "name": node.name,
                    "ops": list(node.ops),
                    "sources": list(node.sources),
                    **sides(node.fused, node.unfused),
                    "weights": node.weights,
                }
                for node in self.nodes
            ],
            "total": sides(*self.total),
            "decisions": list(map(self._decision, self.decisions)),
        }

    def _decision(self, decision: Decision) -> dict[str, Any]:
        return {
            "edit": decision.edit.kind.value,
            "nodes": list(decision.edit.nodes),
            "sources": list(map(list, decision.sources)),
            "verdict": decision.verdict.value,
            "code": decision.code.value,
            "why": decision.why,
            "bytes_saved": None if decision.bytes_saved is None else self.bytes_of(decision),
            "predicted": decision.predicted,
            "measured": decision.measured,
        }


def changes(old: Explanation, new: Explanation) -> list[tuple[Decision | None, Decision | None]]:
    """The decisions that differ in verdict or code, before and after; None if there was no such candidate."""
    before = {d.edit: d for d in old.decisions}
    after = {d.edit: d for d in new.decisions}
    pairs = [(before.get(edit), after.get(edit)) for edit in dict.fromkeys((*before, *after))]
    return [(a, b) for a, b in pairs if a is None or b is None or (a.verdict, a.code) != (b.verdict, b.code)]

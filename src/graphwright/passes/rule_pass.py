"""Passes that apply rewrite rules: ``RulePass("my_rules", (Rule(...), Rule(...)))``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from graphwright.errors import UnknownRankError
from graphwright.ir.build import Builder
from graphwright.ir.graph import Module, Node, Value
from graphwright.ir.match import Match, Rule, match
from graphwright.ir.op import Op
from graphwright.ir.refusal import Refusal
from graphwright.ir.types import UnknownRank
from graphwright.passes.base import Pass, Record, Replacement
from graphwright.passes.node_removal import drop_unused, prune, replace_and_prune
from graphwright.passes.traversal import graphs
from graphwright.records import dataclass

UNKNOWN_RANK: Final = (UnknownRank, UnknownRankError)
"""Raised where a pass needs a rank that is unknown: by a type, and by a Builder. The pass leaves the node."""


@dataclass(frozen=True)
class RulePass(Pass):
    """Applies rewrite rules to all graphs and regions until none applies, or for at most
    ``sweeps`` sweeps. ``from_end``: visits the users of a value before its producer.
    """

    name: str
    rules: tuple[Rule, ...]
    sweeps: int = 16
    from_end: bool = False

    def run(self, module: Module, record: Record) -> bool:
        modified = False
        for graph in list(graphs(module)):
            for _ in range(self.sweeps):
                nodes = reversed(list(graph)) if self.from_end else graph
                if not apply_rules(self.rules, nodes, module, record):
                    break
                modified = True
            else:
                record.did(f"{self.name} stopped after {self.sweeps} sweeps")
        return modified


def apply_rules(rules: Sequence[Rule], nodes: Iterable[Node], module: Module, record: Record) -> bool:
    """Applies the first rule that matches to each of ``nodes`` that earlier rewrites did not erase. Returns
    whether anything was rewritten.
    """
    modified = False
    by_class: dict[type[Op], list[Rule]] = {}
    for node in nodes:
        if node.graph is None:
            continue
        kind = type(node.op)
        if kind not in by_class:
            by_class[kind] = [rule for rule in rules if issubclass(kind, rule.pattern.classes)]
        for rule in by_class[kind]:
            if _apply(rule, node, module, record):
                modified = True
                break
    return modified


def _apply(rule: Rule, node: Node, module: Module, record: Record) -> bool:
    before = node.previous
    try:
        if _rewrite(rule, node, module, record):
            return True
    except UNKNOWN_RANK:
        record.refused(node, rule.name, "the rank of an operand is not known")
    drop_unused(before, node)
    return False


def _rewrite(rule: Rule, node: Node, module: Module, record: Record) -> bool:
    found = match(rule.pattern, node, module)
    if found is None:
        return False
    results: Value | Sequence[Value] | str | Refusal | None = rule.check(found)
    if results is None:
        results = rule.rewrite(_builder(found), found)
    if isinstance(results, str | Refusal):
        record.refused(node, rule.name, results)
        return False
    values = [results] if isinstance(results, Value) else results
    if rule.code is not None and (new := values[0].producer) is not None:
        record.notes.append(Replacement(rule.name, rule.code, new.location, new.sources))
    replace_and_prune(node, values)
    for matched in found.nodes[1:]:
        prune(matched)
    record.did(rule.name)
    return True


def _builder(found: Match) -> Builder:
    """Builds nodes before the root of ``found``, with the sources of all its nodes."""
    root = found.root
    assert root.graph is not None
    origins = {node.origin for node in found.nodes if node.inputs}
    return Builder(found.module, root.graph, root, found.sources, root.origin if len(origins) == 1 else None)

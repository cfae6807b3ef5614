"""The interface of passes, the records that they leave, and the driver of rewrite rules.

A pass of your own::

    @dataclass(frozen=True)
    class DropDebugPrints(Pass):
        name: str = "drop_debug_prints"

        def run(self, module: Module, record: Record) -> bool:
            ...

or a set of rules: ``RulePass("my_rules", (Rule(...), Rule(...)))``.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from graphwright.errors import UnknownRankError
from graphwright.ir.build import Builder
from graphwright.ir.free_symbols import symbols_in, symbols_named, symbols_of
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.ir.match import Match, Rule, match
from graphwright.ir.op import Op, Trait
from graphwright.ir.refusal import Code, Refusal
from graphwright.ir.types import UnknownRank
from graphwright.records import dataclass, field

SomeOp = TypeVar("SomeOp", bound=Op)

UNKNOWN_RANK: Final = (UnknownRank, UnknownRankError)
"""Raised where a pass needs a rank that is unknown: by a type, and by a Builder. The pass leaves the node."""
MAX_REASONS = 1000
"""Reasons that are kept per pass; further ones are only counted."""


class Known(enum.Flag):
    """Properties of a module at a point of the pipeline."""

    NOTHING = 0
    TYPES = enum.auto()
    """The types of all values have been inferred, as far as possible."""


@dataclass(frozen=True)
class Reason:
    """Why ``rule`` did not change the node at ``location``."""

    location: str
    rule: str
    why: str
    code: Code | None = None
    """The code, if this is a fusion decision."""
    sources: tuple[str, ...] = ()

    def __str__(self) -> str:
        code = "" if self.code is None else f" [{self.code.value}]"
        return f"{self.location}: {self.rule}: {self.why}{code}"


@dataclass(frozen=True)
class Replacement:
    """A fusion decision: ``rule`` replaced several nodes by the node at ``location``."""

    rule: str
    code: Code
    location: str
    sources: tuple[str, ...]


NodeKey = tuple[str, tuple[str, ...]]
"""Identifies a node across passes: the name of its op, and its source nodes."""


def node_keys(module: Module) -> Counter[NodeKey]:
    """The keys of all nodes of ``module``, including those in regions, without constants."""
    nodes = (node for node in module.walk() if not node.is_constant)
    return Counter((node.op.name, node.sources or (node.name,)) for node in nodes)


@dataclass
class Record:
    """The result of one run of a pass: the number of changes by kind, and reasons for unchanged matches."""

    name: str
    counts: Counter[str] = field(default_factory=Counter)
    reasons: dict[Reason, None] = field(default_factory=dict)
    notes: list[object] = field(default_factory=list)
    """Notes for later stages and reports, such as fusion decisions."""
    modified: bool = False
    seconds: float = 0.0
    nodes_before: int = 0
    nodes_after: int = 0
    stage: str = ""
    """The pipeline stage that ran the pass; empty outside a pipeline."""
    removed: Counter[NodeKey] = field(default_factory=Counter)
    """Nodes that the pass removed, without constants."""
    added: Counter[NodeKey] = field(default_factory=Counter)
    """Nodes that the pass added, without constants."""

    def did(self, change: str, times: int = 1) -> None:
        """Counts ``times`` changes of this kind."""
        self.counts[change] += times

    def refused(self, node: Node, rule: str, why: str | Refusal) -> None:
        """Keeps the reason why ``rule`` did not change ``node``."""
        code, text = (why.code, why.why) if isinstance(why, Refusal) else (None, why)
        if len(self.reasons) < MAX_REASONS:
            self.reasons.setdefault(Reason(node.location, rule, text, code, node.sources))
        else:
            self.counts["reasons not kept"] += 1

    def __str__(self) -> str:
        done = ", ".join(f"{change} {count}" for change, count in self.counts.items()) or "nothing"
        nodes = f"{self.nodes_before} -> {self.nodes_after} nodes"
        return f"{self.name}: {done} ({nodes}, {self.seconds * 1e3:.1f} ms)"


class Pass(ABC):
    """A transformation of a module. ``requires`` holds before it runs, ``ensures`` afterwards."""

    name: str
    requires: Known = Known.NOTHING
    ensures: Known = Known.NOTHING

    @abstractmethod
    def run(self, module: Module, record: Record) -> bool:
        """Transforms ``module`` in place. Returns whether anything was modified."""


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
    replace(node, values)
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


def replace(node: Node, values: Sequence[Value]) -> None:
    """Replaces the outputs of ``node`` by ``values``, and erases it with the producers that only it used."""
    graph = node.graph
    assert graph is not None
    operands = node.inputs
    graph.replace_node(node, values)
    for value in operands:
        if value is not None and value.producer is not None:
            prune(value.producer)


def prune(node: Node) -> int:
    """Erases ``node`` if it is dead, then its producers likewise. Returns the number of nodes erased."""
    pending, erased = [node], 0
    while pending:
        candidate = pending.pop()
        if candidate.graph is None or not is_dead(candidate):
            continue
        operands = candidate.inputs
        candidate.graph.erase(candidate)
        erased += 1
        pending += [v.producer for v in operands if v is not None and v.producer is not None]
    return erased


def drop_unused(before: Node | None, node: Node) -> None:
    """Erases the nodes between ``before`` and ``node`` that an abandoned rewrite or decomposition built."""
    while node.previous is not before and node.previous is not None and prune(node.previous):
        pass


def is_dead(node: Node) -> bool:
    """Whether ``node`` has no effect, and other nodes need none of its results."""
    if node.graph is None or any(value.is_used for value in node.outputs) or has_effect(node):
        return False
    return not needed_results(node)


def needed_results(node: Node) -> list[int]:
    """The indices of the results that are read, or that define data-dependent sizes that other nodes refer
    to.
    """
    open_ended = any(not value.is_used and not value.type.is_static for value in node.outputs)
    sizes = _used_sizes(node) if open_ended else set[str]()
    return [v.index for v in node.outputs if v.is_used or not sizes.isdisjoint(symbols_in((v.type,)))]


def _used_sizes(node: Node) -> set[str]:
    """The data-dependent sizes that ``node`` defines and that other nodes refer to."""
    graph = node.graph
    assert graph is not None
    defined = symbols_in(value.type for value in node.outputs)
    defined -= symbols_in(value.type for value in (*node.inputs, *graph.inputs) if value is not None)
    defined -= symbols_named(node.op)
    if not defined:
        return defined
    return defined & set[str]().union(*(symbols_of(other) for other in graph if other is not node))


def has_effect(node: Node) -> bool:
    """Whether ``node``, or a node in its regions, has a side effect."""
    if Trait.EFFECT in node.op.traits:
        return True
    if not node.regions:
        return False
    return any(Trait.EFFECT in inner.op.traits for region in node.regions for inner in region.walk())

"""The interface of passes, and the records that they leave.

A pass of your own::

    @dataclass(frozen=True)
    class DropDebugPrints(Pass):
        name: str = "drop_debug_prints"

        def run(self, module: Module, record: Record) -> bool:
            ...

A set of rewrite rules is a pass too: :class:`graphwright.passes.rule_pass.RulePass`.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections import Counter

from graphwright.ir.graph import Module, Node
from graphwright.ir.refusal import Code, Refusal
from graphwright.records import dataclass, field

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

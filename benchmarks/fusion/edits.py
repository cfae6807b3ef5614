"""Edits of a partition in which all legal merges are made: each edit undoes one of the merges.

An edit is named by an edge of the graph before fusion: ``apart`` forbids that both ends of the edge are in
one kernel; all other legal merges are made. Both partitions are compiled by graphwright's own stages; they
share weights, memory and equal kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from graphwright.compiler.code_generation import Compilation, generate_code
from graphwright.compiler.pipeline import graph_passes, kernel_passes
from graphwright.compiler.run_passes import run_passes
from graphwright.compiler.unit import Unit
from graphwright.config import Options
from graphwright.executable.nodes import Program
from graphwright.fusion.benefit import narrow_operands_stay
from graphwright.fusion.candidate import Candidate
from graphwright.fusion.fuse import Fuse
from graphwright.fusion.rules.base import Check, FusionRule, always
from graphwright.fusion.rules.switches import RuleSet
from graphwright.ir.builtin.constant import Constant
from graphwright.ir.builtin.fused import Fused, region_of
from graphwright.ir.clone import clone_module
from graphwright.ir.graph import Module, Node
from graphwright.kernels.candidates.registry import load
from graphwright.passes.base import Record
from graphwright.passes.infer_shapes import InferShapes
from graphwright.passes.manager import Scheduled
from graphwright.runtime.devices.cpu import Cpu
from graphwright.runtime.devices.load_program import Shared
from graphwright.runtime.devices.this_cpu import for_this_cpu
from graphwright.targets.base import Target
from graphwright.targets.registry import target_of

Edge = tuple[int, int]
"""Positions of a producer and a reader among the nodes of the graph that the fusion pass sees."""


@dataclass(frozen=True)
class Compiled:
    """A program and its executor."""

    program: Program
    executor: Cpu


@dataclass(frozen=True)
class Stage:
    """The input of the fusion pass: a graph, whose nodes are numbered by position."""

    module: Module
    options: Options

    @classmethod
    def of(cls, module: Module, options: Options) -> Stage:
        """A copy of ``module`` after all passes before fusion. This CPU need not support the ISA in
        ``options``.
        """
        load()
        options = for_this_cpu(options) if options.isa == "auto" else options
        module = clone_module(module)
        stage = cls(module, options)
        run_passes(module, (*graph_passes(), *stage._passes()[0]), options)
        return stage

    def _passes(self) -> tuple[Sequence[Scheduled], Sequence[Scheduled]]:
        """The passes before and after fusion, for a graph that one program can run."""
        passes = kernel_passes(self.target, self.options)
        before = next(k for k, each in enumerate(passes) if isinstance(each, Fuse))
        return passes[:before], passes[before + 1 :]

    @property
    def target(self) -> Target:
        """The target that the options select."""
        return target_of(self.options)

    def nodes(self) -> list[Node]:
        """The nodes in order."""
        return list(self.module.main)

    def fused(self, check: Check) -> Module:
        """A copy in which legal merges are made as ``check`` says; each node's source is its number."""
        made = clone_module(self.module)
        for number, node in enumerate(made.main):
            node.sources = (str(number),)
        rule = FusionRule(
            "experiment", "", lambda candidate: True, check, constraints=(narrow_operands_stay,)
        )
        Fuse(self.target, RuleSet((rule,)), splits=False).run(made, Record(Fuse.name))
        return made

    def merged(self) -> Module:
        """The graph with every legal merge."""
        return self.fused(always)

    def apart(self, edge: Edge) -> Module:
        """The graph with every legal merge, except between the ends of ``edge``."""
        ends = {str(number) for number in edge}

        def refuse(candidate: Candidate) -> str | None:
            together = ends <= {source for node in candidate.nodes for source in node.sources}
            return "kept apart" if together else None

        return self.fused(refuse)

    def compiled(self, *fused: Module) -> list[Compiled]:
        """Compiles modules from :meth:`fused`, which share weights, memory and equal kernels."""
        for module in fused:
            run_passes(module, (InferShapes(), *self._passes()[1]), self.options)
        shared = Shared()
        made = generate_code([Unit(module, ()) for module in fused], self.options)
        return [Compiled(each.program, self._executor(each, shared)) for each in made]

    def _executor(self, made: Compilation, shared: Shared) -> Cpu:
        return Cpu(made.program, made.program.targets[self.target.name], made.weights, shared)


Partition = frozenset[frozenset[int]]
"""Numbers of the nodes of each kernel; constants and nodes without a group are left out."""


def partition_of(fused: Module) -> Partition:
    """The groups of a module from :meth:`Stage.fused`; a lone node is a group too."""
    groups = []
    for node in fused.main:
        if isinstance(node.op, Constant):
            continue
        inner = region_of(node) if isinstance(node.op, Fused) else (node,)
        groups.append(frozenset(int(n.sources[0]) for n in inner if not isinstance(n.op, Constant)))
    return frozenset(groups)


@dataclass(frozen=True)
class Edit:
    """Merging what ``apart`` has in several kernels into those of ``merged``."""

    stage: Stage
    edge: Edge

    def groups(self) -> tuple[list[frozenset[int]], list[frozenset[int]]]:
        """The kernels that differ: with the edge apart, and merged."""
        apart, merged = partition_of(self.stage.apart(self.edge)), partition_of(self.stage.merged())
        return sorted(apart - merged, key=min), sorted(merged - apart, key=min)

    @property
    def name(self) -> str:
        """The ops at both ends of the edge."""
        nodes = self.stage.nodes()
        return "-".join(nodes[number].op.name for number in self.edge)

    def compiled(self) -> list[Compiled]:
        """Compiles the graph with the kernels apart, and with them merged."""
        return self.stage.compiled(self.stage.apart(self.edge), self.stage.merged())

    def control(self) -> list[Compiled]:
        """Compiles the same partition twice: the ratio of their times should be 1."""
        return self.stage.compiled(self.stage.merged(), self.stage.merged())


def edits_of(stage: Stage) -> Iterator[Edit]:
    """The edges whose ends one kernel could compute. If several edges give the same partition, only the first
    one.
    """
    merged = partition_of(stage.merged())
    nodes = stage.nodes()
    number = {node: k for k, node in enumerate(nodes)}
    seen = {merged}
    for group in sorted(merged, key=min):
        reads = ((k, v.producer) for k in group for v in nodes[k].inputs if v is not None)
        edges = {(number[producer], k) for k, producer in reads if producer is not None}
        for edge in sorted(edge for edge in edges if edge[0] in group):
            made = partition_of(stage.apart(edge))
            if made not in seen:
                seen.add(made)
                yield Edit(stage, edge)


MOST_EDITS: Final = 3


def selected_edits(stage: Stage) -> list[Edit]:
    """Up to three edits: those that keep ops of the model apart, spread over the graph; where there are none,
    one inside of what an op was decomposed to.
    """
    nodes, found = stage.nodes(), list(edits_of(stage))
    apart = [e for e in found if set(nodes[e.edge[0]].sources).isdisjoint(nodes[e.edge[1]].sources)]
    if not apart:
        return found[len(found) // 2 :][:1]
    step = max(1, -(-len(apart) // MOST_EDITS))
    return apart[::step]

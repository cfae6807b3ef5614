"""Finds the nodes of a simplified model that can be fused, on a copy that is decomposed to ops with kernels.

Fusion works on decomposed ops: a softmax becomes a maximum, a difference, an exponential, a sum and a
quotient. Other engines have a kernel for the softmax itself. So each node of the copy is marked with the node
of the model that it comes from. A region of the copy selects a node of the model if it contains all nodes
with this mark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphwright.compiler.pipeline import fusion_passes
from graphwright.compiler.run_passes import run_passes
from graphwright.config import Options
from graphwright.fusion.decisions import Decision, Verdict, decisions_of
from graphwright.fusion.kernel_groups import connected_parts
from graphwright.fusion.outline import outline
from graphwright.fusion.region_names import region_name
from graphwright.ir.builtin.fused import Fused, region_of
from graphwright.ir.clone import clone_module
from graphwright.ir.graph import Graph, Module, Node
from graphwright.ir.hints import hints_of
from graphwright.ir.op import Trait
from graphwright.passes.traversal import graphs
from graphwright.records import dataclass
from graphwright.support.unique_names import UniqueNames
from graphwright.targets.base import Target


@dataclass(frozen=True)
class Fusion:
    """The new Fused nodes, the number of merges of different nodes that were considered, and the number that
    were made. Merges of what one node is decomposed to do not count.
    """

    regions: Sequence[Node]
    considered: int
    merged: int


def fuse_model(module: Module, target: Target, options: Options) -> Fusion:
    """Outlines the regions of ``module`` that ``target`` fuses as Fused nodes. Raises ModelError."""
    groups, decisions = _groups(module, target, options)
    regions: list[Node] = []
    for graph in list(graphs(module)):
        position = {node: k for k, node in enumerate(graph)}
        own = [sorted(group, key=position.__getitem__) for group in groups if group[0].graph is graph]
        kept = [part for group in own for part in connected_parts(group) if _is_worth_a_call(part)]
        regions += [outline(graph, part) for part in list(_without_cycles(kept))]
        graph.sort()
    for node in regions:
        region_of(node).name = region_name(region_of(node))
    made = [decision for decision in decisions if decision.verdict is Verdict.TAKEN]
    return Fusion(regions, len(decisions), len(made))


def _groups(module: Module, target: Target, options: Options) -> tuple[list[list[Node]], list[Decision]]:
    """The nodes of ``module`` by the region of the copy that contains everything they were decomposed to, and
    the decisions about different nodes.
    """
    copy, marked = _marked_copy(module)
    records = run_passes(copy, fusion_passes(target, options), options)
    decisions = [each for each in decisions_of(records) if len(set().union(*each.sources)) > 1]
    regions = _regions_of_marks(copy)
    groups: dict[Node, list[Node]] = {}
    for mark, found in regions.items():
        (region, *others), node = found, marked.get(mark)
        if node is None:
            continue
        if region is not None and not others and not node.is_constant and _can_be_inside(node):
            groups.setdefault(region, []).append(node)
    return [part for group in groups.values() for part in _by_graph(group)], decisions


def _marked_copy(module: Module) -> tuple[Module, dict[str, Node]]:
    """A copy in which the source of each node is a mark, with the hints of the original sources; and the
    nodes by mark.
    """
    copy, names = clone_module(module), UniqueNames()
    copy.hints = {}
    marked: dict[str, Node] = {}
    for node, copied in zip(module.walk(), copy.walk(), strict=True):
        if node.is_constant:
            copied.sources = ()
            continue
        mark, hints = names.take(node.location), hints_of(node.sources, module.hints)
        marked[mark], copied.sources = node, (mark,)
        if len(hints) == 1:
            (copy.hints[mark],) = hints
        elif hints:  # the hints contradict each other, which fusion rejects
            copied.sources = (mark, *hints.values())
            copy.hints |= {source: hint for hint, source in hints.items()}
    return copy, marked


def _regions_of_marks(copy: Module) -> dict[str, dict[Node | None, None]]:
    """For each mark, the Fused nodes that contain nodes with it; None represents nodes outside of Fused
    nodes.
    """
    inside = {region_of(node) for node in copy.walk() if isinstance(node.op, Fused)}
    found: dict[str, dict[Node | None, None]] = {}
    for graph in graphs(copy):
        for node in graph if graph not in inside else ():
            fused = node if isinstance(node.op, Fused) else None
            for member in (node,) if fused is None else region_of(fused):
                for mark in () if member.is_constant else member.sources:
                    found.setdefault(mark, {})[fused] = None
    return found


def _can_be_inside(node: Node) -> bool:
    return not node.regions and Trait.EFFECT not in node.op.traits


def _by_graph(nodes: Sequence[Node]) -> list[list[Node]]:
    parts: dict[Graph | None, list[Node]] = {}
    for node in nodes:
        parts.setdefault(node.graph, []).append(node)
    return list(parts.values())


def _is_worth_a_call(nodes: Sequence[Node]) -> bool:
    """Whether at least two nodes are not views."""
    return sum(Trait.VIEW not in node.op.traits for node in nodes) > 1


def _without_cycles(groups: Sequence[list[Node]]) -> Iterator[list[Node]]:
    """The ``groups`` that can become nodes without a cycle: no value leaves a group and returns to it."""
    group_of: dict[Node, int] = {}
    for number, group in enumerate(groups):
        for node in group:
            group_of[node] = number
        if _reaches_itself(set(group), group_of, groups):
            for node in group:
                del group_of[node]
        else:
            yield group


def _reaches_itself(members: set[Node], group_of: dict[Node, int], groups: Sequence[list[Node]]) -> bool:
    stack = [
        user for node in members for value in node.outputs for user in value.users if user not in members
    ]
    seen: set[Node] = set()
    while stack:
        node = stack.pop()
        if node in members:
            return True
        if node in seen:
            continue
        reached = groups[group_of[node]] if node in group_of else [node]
        seen.update(reached)
        stack += [user for each in reached for value in each.outputs for user in value.users]
    return False

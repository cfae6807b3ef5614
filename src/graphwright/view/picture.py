"""The picture of a graph at any stage: nodes, edges, and nested groups of nodes."""

from __future__ import annotations

from collections.abc import Mapping

from graphwright.ir.types import TensorType
from graphwright.records import dataclass, field, replace

ROOT = 0
"""The group that contains all others."""
INPUT, OUTPUT = "input", "output"
"""The titles of boxes for the inputs and outputs of a graph."""


@dataclass(frozen=True)
class PictureNode:
    """A box. ``group`` is the innermost group around it.

    ``sources`` are the nodes of the model that it comes from, which link it to pictures of other stages, and
    ``scope`` is their scope. ``facts`` are texts by title, in the order of display. ``figures`` are numbers
    that colors can show: ``bytes``, ``weights``, ``predicted_ns``, ``measured_ns``, ``error``.
    """

    op: str
    name: str
    group: int = ROOT
    sources: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    layout: str = ""
    """The layout of its first result; empty for row-major."""
    kernels: tuple[str, ...] = ()
    """The names of the kernels that it launches."""
    results: tuple[str, ...] = ()
    """The names of its results, as far as they have names."""


@dataclass(frozen=True)
class PictureEdge:
    """A value that ``consumer`` reads from ``producer``; both are numbers of nodes. ``value`` distinguishes
    the values of one producer. ``text`` is the type of the value, or its buffer.
    """

    producer: int
    consumer: int
    value: int = 0
    text: str = ""
    type: TensorType | None = None


@dataclass(frozen=True)
class Group:
    """Nodes that are shown as one box until it is opened: a scope of the model, a region, or a sequence of
    equal scopes. ``node`` has the facts about a region as one node.
    """

    name: str
    parent: int = ROOT
    node: PictureNode | None = None
    repeats: int = 1
    """The number of equal scopes that the group collects; otherwise 1."""


@dataclass(frozen=True)
class GraphPicture:
    """A graph. Producers precede consumers, except for loop-carried values. A group precedes the groups in
    it; the first one is :data:`ROOT`.
    """

    stage: str
    nodes: tuple[PictureNode, ...]
    edges: tuple[PictureEdge, ...]
    groups: tuple[Group, ...]

    def with_errors(self, errors: Mapping[str, float]) -> GraphPicture:
        """The picture with the largest error of the results of each node; errors are by name of the value."""

        def known(node: PictureNode) -> PictureNode:
            found = [errors[name] for name in node.results if name in errors]
            return replace(node, figures={**node.figures, "error": max(found)}) if found else node

        groups = (each if each.node is None else replace(each, node=known(each.node)) for each in self.groups)
        return replace(self, nodes=tuple(map(known, self.nodes)), groups=tuple(groups))

"""What a picture of a graph shows, whatever stage it is of: nodes, edges, and nested groups of nodes."""

from __future__ import annotations

from collections.abc import Mapping

from graphwright.ir.types import TensorType
from graphwright.records import dataclass, field, replace

ROOT = 0
"""The group that holds all others."""
INPUT, OUTPUT = "input", "output"
"""What boxes of a graph's own inputs and outputs are called."""


@dataclass(frozen=True)
class PictureNode:
    """A box. ``group`` is the innermost group that it is in. ``sources`` are the nodes of the model that it
    comes from, by which pictures of other stages are linked, and ``scope`` is where the model has these.

    ``facts`` are texts by what they say, in the order in which they are shown. ``figures`` are numbers that
    colours can show: ``bytes``, ``weights``, ``predicted_ns``, ``measured_ns``, ``error``.
    """

    op: str
    name: str
    group: int = ROOT
    sources: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)
    layout: str = ""
    """Of its first result; empty is row-major."""
    kernels: tuple[str, ...] = ()
    """Names of the kernels that it launches."""
    results: tuple[str, ...] = ()
    """Names of the values that it gives, as far as they have one."""


@dataclass(frozen=True)
class PictureEdge:
    """A value that ``consumer`` reads from ``producer``, both nodes by number. ``value`` tells the values of
    one producer apart; ``text`` says what it is: its type, or the buffer that it lies in.
    """

    producer: int
    consumer: int
    value: int = 0
    text: str = ""
    type: TensorType | None = None


@dataclass(frozen=True)
class Group:
    """Nodes that are shown as one box until it is opened: a scope of the model, a region, or equal scopes in
    a row. ``node`` says what is known of a region as one node.
    """

    name: str
    parent: int = ROOT
    node: PictureNode | None = None
    repeats: int = 1
    """How many equal groups it holds, if it was made to hold them."""


@dataclass(frozen=True)
class GraphPicture:
    """A graph. Producers stand before consumers, but for values that a loop carries; parents stand before
    their groups, of which the first is :data:`ROOT`.
    """

    stage: str
    nodes: tuple[PictureNode, ...]
    edges: tuple[PictureEdge, ...]
    groups: tuple[Group, ...]

    def with_errors(self, errors: Mapping[str, float]) -> GraphPicture:
        """With the greatest error of the values that each node gives, by their names."""

        def known(node: PictureNode) -> PictureNode:
            found = [errors[name] for name in node.results if name in errors]
            return replace(node, figures={**node.figures, "error": max(found)}) if found else node

        groups = (each if each.node is None else replace(each, node=known(each.node)) for each in self.groups)
        return replace(self, nodes=tuple(map(known, self.nodes)), groups=tuple(groups))

"""What a compilation made on its way: the module behind each pass, and tasks with the values they make."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from graphwright.ir.clone import clone_module
from graphwright.ir.constant import Constant
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.kernels.launch import Branch
from graphwright.kernels.select import Selection
from graphwright.lower.lower import Lowered
from graphwright.memory.steps import all_steps
from graphwright.records import dataclass, field


@dataclass(frozen=True)
class Snapshot:
    """A copy of a module behind the pass of that name; ``import`` is what a frontend made, ``partition`` the
    part of a model that one program runs.
    """

    name: str
    module: Module


@dataclass(frozen=True)
class CompiledGraph:
    """A graph that became one program. ``values`` and ``nodes``: what of the last snapshot those of the steps
    are, branches included and bodies of loops not; of constants that kernels packed there is nothing.
    """

    snapshots: tuple[Snapshot, ...]
    lowered: Lowered
    values: dict[Value, Value]
    nodes: dict[Node, Node]

    @property
    def module(self) -> Module:
        """The last snapshot: what kernels were selected for."""
        return self.snapshots[-1].module


@dataclass
class History:
    """Observes a compilation."""

    graphs: list[CompiledGraph] = field(default_factory=list)
    """In the order of the programs."""
    _passes: dict[int, tuple[Module, list[Snapshot]]] = field(default_factory=dict)
    """By module, which is held so that its identity stays its own."""
    _selected: list[tuple[tuple[Snapshot, ...], dict[Value, Value], dict[Node, Node]]] = field(
        default_factory=list
    )

    def __call__(self, stage: str, product: object) -> None:
        """Keep ``product`` of ``stage``."""
        if isinstance(product, Module):
            _, snapshots = self._passes.setdefault(id(product), (product, []))
            snapshots.append(Snapshot(stage, clone_module(product)))
        elif isinstance(product, Selection) and stage == "select":
            self._select(product)
        elif isinstance(product, Lowered):
            passed, values, nodes = self._selected[len(self.graphs)]
            self.graphs.append(CompiledGraph(passed, product, values, nodes))

    @property
    def whole(self) -> tuple[Snapshot, ...]:
        """The snapshots of the whole model: those of the first module that was seen."""
        return tuple(next(iter(self._passes.values()))[1])

    def _select(self, selection: Selection) -> None:
        graph = selection.steps[0].node.graph if selection.steps else None
        module, snapshots = next((m, s) for m, s in self._passes.values() if graph is None or m.main is graph)
        pairs = _Pairs({step.node for step in all_steps(selection.steps) if isinstance(step.action, Branch)})
        pairs.add(module.main, snapshots[-1].module.main)
        self._selected.append((tuple(snapshots), pairs.values, pairs.nodes))


class _Pairs:
    """Nodes and values of a graph and of its copy, those of the branches of ``choices`` too."""

    def __init__(self, choices: Collection[Node]) -> None:
        self._choices = choices
        self.values: dict[Value, Value] = {}
        self.nodes: dict[Node, Node] = {}

    def add(self, graph: Graph, copy: Graph) -> None:
        """Those of ``graph``, which may have further constants."""
        self.values |= dict(zip(graph.inputs, copy.inputs, strict=True))
        for node, same in zip(_computing(graph), _computing(copy), strict=True):
            self.nodes[node] = same
            self.values |= dict(zip(node.outputs, same.outputs, strict=True))
            if node in self._choices:
                for region, other in zip(node.regions, same.regions, strict=True):
                    self.add(region, other)


def _computing(graph: Graph) -> Iterator[Node]:
    """The nodes that are no constants."""
    return (node for node in graph if not isinstance(node.op, Constant))

"""Records a compilation: the module after each pass, and the tasks with the values that they compute."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from graphwright.ir.clone import clone_module
from graphwright.ir.graph import Graph, Module, Node, Value
from graphwright.kernels.launch import Branch
from graphwright.kernels.select import Selection
from graphwright.kernels.steps import all_steps
from graphwright.lower.lower import Lowered
from graphwright.records import dataclass, field


@dataclass(frozen=True)
class Snapshot:
    """A copy of a module after the pass of this name; ``import`` is the imported module, ``partition`` the
    part of a model that one program runs.
    """

    name: str
    module: Module


@dataclass(frozen=True)
class CompiledGraph:
    """A graph that was compiled to one program. ``values`` and ``nodes`` map those of the steps to those of
    the last snapshot, including branches, without bodies of loops and constants that kernels packed.
    """

    snapshots: tuple[Snapshot, ...]
    lowered: Lowered
    values: dict[Value, Value]
    nodes: dict[Node, Node]

    @property
    def module(self) -> Module:
        """The last snapshot, for which kernels were selected."""
        return self.snapshots[-1].module


@dataclass
class History:
    """Observes a compilation."""

    graphs: list[CompiledGraph] = field(default_factory=list)
    """The compiled graphs, in the order of the programs."""
    _passes: dict[int, tuple[Module, list[Snapshot]]] = field(default_factory=dict)
    """The snapshots by module; the reference to the module prevents reuse of its id."""
    _selected: list[tuple[tuple[Snapshot, ...], dict[Value, Value], dict[Node, Node]]] = field(
        default_factory=list
    )

    def __call__(self, stage: str, product: object) -> None:
        """Records ``product`` of ``stage``."""
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
        """The snapshots of the whole model, which is the first module that was observed."""
        return tuple(next(iter(self._passes.values()))[1])

    def _select(self, selection: Selection) -> None:
        module, snapshots = self._compiled(selection.steps[0].node.graph if selection.steps else None)
        pairs = _Pairs({step.node for step in all_steps(selection.steps) if isinstance(step.action, Branch)})
        pairs.add(module.main, snapshots[-1].module.main)
        self._selected.append((tuple(snapshots), pairs.values, pairs.nodes))

    def _compiled(self, graph: Graph | None) -> tuple[Module, list[Snapshot]]:
        """The module of ``graph`` and its snapshots. A program without steps computes nothing: its graph,
        which is None, has only constants.
        """
        for module, snapshots in self._passes.values():
            if module.main is graph or (graph is None and not any(_computing(module.main))):
                return module, snapshots
        raise AssertionError("no snapshot of the selected graph")


class _Pairs:
    """Pairs of nodes and values of a graph and of its copy, including those in branches of ``choices``."""

    def __init__(self, choices: Collection[Node]) -> None:
        self._choices = choices
        self.values: dict[Value, Value] = {}
        self.nodes: dict[Node, Node] = {}

    def add(self, graph: Graph, copy: Graph) -> None:
        """Adds the pairs of ``graph``, which may have additional constants."""
        self.values |= dict(zip(graph.inputs, copy.inputs, strict=True))
        for node, same in zip(_computing(graph), _computing(copy), strict=True):
            self.nodes[node] = same
            self.values |= dict(zip(node.outputs, same.outputs, strict=True))
            if node in self._choices:
                for region, other in zip(node.regions, same.regions, strict=True):
                    self.add(region, other)


def _computing(graph: Graph) -> Iterator[Node]:
    """The nodes that are not constants."""
    return (node for node in graph if not node.is_constant)

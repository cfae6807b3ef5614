"""Reduces an ONNX model to a smallest part that still has a property."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from graphwright.frontends.onnx.order import reads
from graphwright.records import dataclass, field
from graphwright.tools.debugging.ddmin import Budget, ddmin
from graphwright.tools.debugging.submodel import Candidate, Divisible

Holds = Callable[[Candidate], bool]


@dataclass
class Reducer:
    """Reduces ``model``; ``holds`` is evaluated once for each part."""

    model: Divisible
    holds: Holds
    budget: Budget
    tried: int = 0
    _known: dict[tuple[tuple[int, ...], tuple[str, ...]], bool] = field(default_factory=dict)

    def reduced(self, start: Sequence[int] | None = None) -> Candidate | None:
        """A part from which no node and no output can be removed, unless the budget is exhausted. ``start``
        are nodes that are likely to be enough. None if the whole model does not have the property.
        """
        nodes = self._enough(start or ())
        if nodes is None:
            return None
        nodes = ddmin(nodes, self._part_holds, self.budget)
        part = self.model.part(nodes)
        names = [output.name for output in part.proto.graph.output]
        kept = ddmin(names, lambda few: self._part_holds(nodes, few), self.budget)
        part = self.model.part(nodes, kept)
        needed = _needed(part)
        return self.model.part(needed, kept) if self._part_holds(needed, kept) else part

    def _enough(self, start: Iterable[int]) -> list[int] | None:
        """``start`` with as many neighbors as needed; the whole model if no smaller part has the property."""
        nodes = list(start)
        while nodes and len(nodes) < len(self.model) and not self.budget.is_spent:
            if self._part_holds(nodes):
                return nodes
            grown = self.model.neighbors(nodes)
            if len(grown) == len(nodes):
                break
            nodes = grown
        whole = list(range(len(self.model)))
        return whole if self._part_holds(whole) else None

    def _part_holds(self, nodes: Sequence[int], outputs: Sequence[str] | None = None) -> bool:
        part = self.model.part(nodes, outputs)
        key = part.nodes, tuple(output.name for output in part.proto.graph.output)
        if key not in self._known:
            self.tried += 1
            self._known[key] = self.holds(part)
        return self._known[key]


def _needed(part: Candidate) -> list[int]:
    """The nodes of ``part`` that its outputs depend on."""
    wanted = {output.name for output in part.proto.graph.output}
    kept = []
    for number, node in zip(reversed(part.nodes), reversed(part.proto.graph.node), strict=True):
        if wanted.intersection(node.output):
            kept.append(number)
            wanted |= reads(node)
    return kept[::-1]

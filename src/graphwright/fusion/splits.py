"""Splits kernels that the edit model predicts to be slower than two.

Nodes join kernels one by one, and a prediction about a part of a kernel says little about all of it. So
kernels are grown first, and then each *cut* of a kernel into two is predicted. The cut with the largest
predicted gain is made, and both parts are cut further.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from graphwright.cost.machine import Machine
from graphwright.cost.nominal import nominal
from graphwright.fusion.edit_model import EditModel, coefficients
from graphwright.fusion.kernel_groups import KernelGroup, connected_parts
from graphwright.fusion.kernel_nodes import KernelNodes
from graphwright.ir.graph import Node
from graphwright.ir.op import Trait
from graphwright.ir.symbols import SymbolTable
from graphwright.loop_nests.analysis import analyze
from graphwright.loop_nests.axes import NotOneNest
from graphwright.ops.core.matmul import MatMul
from graphwright.ops.nn.conv import Conv
from graphwright.records import dataclass

MARGIN: Final = 0.02
"""The least predicted log(time of one kernel / time of two) for which a kernel is split: smaller differences
are within the accuracy of the model.
"""
MOST_NODES: Final = 32
"""Larger kernels are not split, as the time to compare all cuts grows with the square of the nodes."""


@dataclass(frozen=True)
class Cut:
    """A kernel as two: ``first`` has ``producer`` and the nodes before it, ``second`` the other nodes, among
    them ``reader``. ``predicted``: log(time of one kernel / time of two).
    """

    producer: Node
    reader: Node
    first: Sequence[Node]
    second: Sequence[Node]
    predicted: float


class Splits:
    """Predictions about kernels on ``machine`` in a module with ``symbols``."""

    def __init__(self, machine: Machine, symbols: SymbolTable) -> None:
        self._model = EditModel(machine, coefficients(), lambda dim: nominal(dim, symbols))

    def predicted(self, first: Sequence[Node], second: Sequence[Node], both: Sequence[Node]) -> float | None:
        """log(time of one kernel / time of two); None if the model was not fitted to such kernels."""
        return self._log_ratio(first, second, KernelNodes.of(both)) if _is_covered(both) else None

    def _log_ratio(self, first: Sequence[Node], second: Sequence[Node], both: KernelNodes) -> float:
        return round(self._model.predict([KernelNodes.of(first), KernelNodes.of(second)], [both]), 4)

    def cuts(self, group: KernelGroup) -> Iterator[Cut]:
        """The cuts of ``group`` between a node and each of its readers."""
        if not 2 <= len(group.nodes) <= MOST_NODES or not _is_covered(group.nodes):
            return
        both = KernelNodes.of(group.nodes)
        for first, pairs in _ancestors(group.nodes).items():
            second = [node for node in group.nodes if node not in first]
            if _computes(first) and _computes(second) and len(connected_parts(second)) == 1:
                predicted = self._log_ratio(first, second, both)
                for producer, reader in pairs:
                    yield Cut(producer, reader, first, second, predicted)

    def best(self, group: KernelGroup, cuts: Sequence[Cut]) -> tuple[KernelGroup, KernelGroup, float] | None:
        """The two kernels of the cut that is predicted to gain most, and log(time of one kernel / time of
        two); None if no cut gains enough, or if ``group`` takes less time than one more task costs.
        """
        gaining = sorted((cut for cut in cuts if cut.predicted > MARGIN), key=lambda cut: -cut.predicted)
        if not gaining or self._is_short(group):
            return None
        for cut in gaining:
            first, second = _group(cut.first), _group(cut.second)
            if first is not None and second is not None:
                return first, second, cut.predicted
        return None

    def _is_short(self, group: KernelGroup) -> bool:
        """Whether ``group`` takes less time than a task costs, with its barrier between threads."""
        costs = self._model.costs
        return costs.nanoseconds([KernelNodes.of(group.nodes)]) < costs.machine.task_ns


def _is_covered(nodes: Sequence[Node]) -> bool:
    """Whether the model was fitted to kernels of such nodes: at most one contraction, a matrix multiplication
    or convolution.
    """
    anchors = [node for node in nodes if Trait.CONTRACTION in node.op.traits]
    return len(anchors) <= 1 and all(isinstance(node.op, MatMul | Conv) for node in anchors)


def _ancestors(nodes: Sequence[Node]) -> dict[tuple[Node, ...], list[tuple[Node, Node]]]:
    """For each node with readers in the kernel: the node and its ancestors among ``nodes``, in graph order,
    with the pairs of this node and a reader.
    """
    above: dict[Node, set[Node]] = {}
    found: dict[tuple[Node, ...], list[tuple[Node, Node]]] = {}
    for node in nodes:
        producers = [v.producer for v in node.inputs if v is not None and v.producer in above]
        above[node] = {node}.union(*(above[each] for each in producers if each is not None))
        for producer in dict.fromkeys(producers):
            assert producer is not None
            first = tuple(each for each in nodes if each in above[producer])
            found.setdefault(first, []).append((producer, node))
    return found


def _computes(nodes: Sequence[Node]) -> bool:
    return any(Trait.VIEW not in node.op.traits for node in nodes)


def _group(nodes: Sequence[Node]) -> KernelGroup | None:
    """``nodes`` as one kernel; None if no loop nest fits them."""
    anchors = tuple(node for node in nodes if Trait.CONTRACTION in node.op.traits)
    rest = [node for node in nodes if node not in anchors]
    try:
        return KernelGroup(list(nodes), anchors, analyze(rest) if rest else None)
    except NotOneNest:
        return None

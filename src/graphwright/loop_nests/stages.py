"""Assigns each value of a region to a pass over the row, and decides which values are kept for later
passes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from graphwright.ir.builtin.fused import Schedule
from graphwright.ir.graph import Graph, Node, Value
from graphwright.ir.op import Trait
from graphwright.loop_nests.builder import weight_of_node


class Stages:
    """The stages of a region. The result of a reduction is available one stage after the pass that computes
    it.
    """

    def __init__(
        self,
        region: Graph,
        axes_of: Mapping[Value, tuple[int, ...]],
        schedule: Schedule,
        is_loaded: Callable[[Value], bool],
    ) -> None:
        self.nodes = _needed(region, is_loaded)
        self.stage_of: dict[Value, int] = {}
        """The stage from which on each value is available."""
        self._axes_of, self._reduced = axes_of, set(schedule.reduced)
        for node in self.nodes:
            stage = max((self.stage_of.get(v, 0) for v in node.inputs if v is not None), default=0)
            self.stage_of[node.output] = stage + self.reduces(node)

    @property
    def count(self) -> int:
        """Number of stages."""
        return 1 + max(self.stage_of.values(), default=0)

    def reduces(self, node: Node) -> bool:
        """Whether ``node`` reduces axes of the loops. A reduction over axes of size 1 does not."""
        is_reduction = Trait.REDUCTION in node.op.traits
        return is_reduction and self._axes_of[node.operand(0)] != self._axes_of[node.output]

    def is_row(self, value: Value) -> bool:
        """Whether ``value`` does not vary along the reduced axes."""
        return bool(self._reduced) and not self._reduced & set(self._axes_of[value])

    def pass_of(self, node: Node) -> int:
        """The pass in which ``node`` is computed."""
        return self.stage_of[node.output] - self.reduces(node)

    def kept(self) -> set[Value]:
        """The values that vary along the row, cost more than a load, and are read in a later pass."""
        kept = set()
        for node in self.nodes:
            value = node.output
            if self.is_row(value) or not _is_costly(node):
                continue
            if any(self.pass_of(user) > self.stage_of[value] for user in self._users(value)):
                kept.add(value)
        return kept

    def users(self, value: Value, kept: Collection[Value]) -> list[Node]:
        """The nodes that read ``value``, directly or through values outside ``kept``, which are
        recomputed.
        """
        users = self._users(value)
        again = [n for n in users if n.output not in kept and not self.is_row(n.output)]
        return [*users, *(user for node in again for user in self.users(node.output, kept))]

    def _users(self, value: Value) -> list[Node]:
        return [node for node in value.users if node.output in self.stage_of]


def _needed(region: Graph, is_loaded: Callable[[Value], bool]) -> list[Node]:
    """The nodes whose results the kernel computes or loads. A node is left out if the kernel only loads
    slices of its result.
    """
    wanted, found = set(region.outputs), []
    for node in reversed(list(region)):
        if node.is_constant or not wanted & {*node.outputs}:
            continue
        found.append(node)
        if not is_loaded(node.output):
            wanted |= {value for value in node.inputs if value is not None}
    return found[::-1]


def _is_costly(node: Node) -> bool:
    """Whether the expression of ``node`` contains a costly function."""
    if Trait.VIEW in node.op.traits or Trait.REDUCTION in node.op.traits:
        return False
    return weight_of_node(node) >= 50

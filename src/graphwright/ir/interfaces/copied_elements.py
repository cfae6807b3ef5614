"""Interface of ops that only move elements, to trace where an element of a shape vector comes from."""

from __future__ import annotations

from collections.abc import Mapping

from graphwright.ir.graph import Node, Value
from graphwright.ir.op import Fact


def are_vectors(node: Node) -> bool:
    """Whether operand 0 and the only output of ``node`` have rank 1."""
    return len(node.outputs) == 1 and node.output.type.rank == node.operand(0).type.rank == 1


class CopiesElements:
    """Interface of ops that move or convert elements of vectors from which sizes are computed.

    Ops with the trait VIEW do not need it: their elements are those of operand 0, in order.
    """

    __slots__ = ()

    def copied_from(
        self, node: Node, element: int | None, facts: Mapping[Value, Fact]
    ) -> tuple[int, int | None] | None:
        """The operand and the element of it of which ``element`` of the only output is a copy; None if
        unknown.

        ``element`` None stands for every element. ``facts``: known facts about operands.
        """
        raise NotImplementedError(f"{type(self).__name__} implements CopiesElements without copied_from")

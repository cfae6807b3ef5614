"""What an op tells of elements that it only moves: where one of a vector comes from."""

from __future__ import annotations

from collections.abc import Mapping

from graphwright.ir.graph import Node, Value
from graphwright.ir.op import Fact


def are_vectors(node: Node) -> bool:
    """Whether operand 0 and the only output of ``node`` have one axis."""
    return len(node.outputs) == 1 and node.output.type.rank == node.operand(0).type.rank == 1


class CopiesElements:
    """Interface of ops that move or convert elements of vectors, of which sizes are made. They define its
    method.

    Ops with the trait VIEW need none: their elements are those of operand 0, in its order.
    """

    __slots__ = ()

    def copied_from(
        self, node: Node, element: int | None, facts: Mapping[Value, Fact]
    ) -> tuple[int, int | None] | None:
        """The operand, and its element, that ``element`` (None: each) of the only output of ``node`` is; None
        where that is not known. ``facts`` has what is known of operands.
        """
        raise NotImplementedError(f"{type(self).__name__} is a CopiesElements without copied_from")

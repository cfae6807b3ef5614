"""What an op tells of axes that it only moves: loops around it read or write its elements where they lie."""

from __future__ import annotations

from graphwright.ir.graph import Node
from graphwright.records import dataclass


@dataclass(frozen=True)
class Along:
    """An axis of the result: its element ``i`` is element ``start + step * i`` of ``axis`` of operand 0,
    modulo the size of that axis if it ``wraps``, when both axes are of one size.
    """

    axis: int
    start: int = 0
    step: int = 1
    wraps: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether the axis of the result is that of the operand, element by element."""
        return self.start == 0 and self.step == 1


class MovesAxes:
    """Interface of ops whose axes are those of operand 0, permuted, cut or rolled. They define its method."""

    __slots__ = ()

    def moved_axes(self, node: Node) -> tuple[Along, ...] | str:
        """What each axis of the only output of ``node`` is, or why that is not known."""
        raise NotImplementedError(f"{type(self).__name__} is a MovesAxes without moved_axes")


class JoinsOperands:
    """Interface of ops whose only output holds the operands one after the other along ``axis``."""

    __slots__ = ()

    axis: int

"""Interface of ops that only move axes: fused loops absorb them into the addresses of loads and stores."""

from __future__ import annotations

from graphwright.ir.graph import Node
from graphwright.records import dataclass


@dataclass(frozen=True)
class Along:
    """An axis of the result: its element ``i`` is element ``start + step * i`` of ``axis`` of operand 0,
    modulo the size of that axis if it ``wraps`` (then both sizes are equal).
    """

    axis: int
    start: int = 0
    step: int = 1
    wraps: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole axis of the operand in order."""
        return self.start == 0 and self.step == 1


class MovesAxes:
    """Interface of ops whose axes are those of operand 0, permuted, sliced or rolled."""

    __slots__ = ()

    def moved_axes(self, node: Node) -> tuple[Along, ...] | str:
        """What each axis of the only output of ``node`` is, or why that is not known."""
        raise NotImplementedError(f"{type(self).__name__} implements MovesAxes without moved_axes")


class JoinsOperands:
    """Interface of ops whose only output is the concatenation of the operands along ``axis``."""

    __slots__ = ()

    axis: int

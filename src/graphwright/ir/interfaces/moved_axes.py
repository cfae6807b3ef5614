"""Interfaces of ops that only move elements. Fused loops express them as addresses of loads and stores, and
need no copy.
"""

from __future__ import annotations

from graphwright.ir.graph import Node
from graphwright.records import dataclass


@dataclass(frozen=True)
class AxisSlice:
    """One axis of a result as a slice of ``axis`` of operand 0: index ``i`` of the result is index
    ``start + step * i`` of the operand.

    If the slice ``wraps``, the index is taken modulo the size of the axis; both sizes are then equal.
    """

    axis: int
    start: int = 0
    step: int = 1
    wraps: bool = False

    @property
    def is_identity(self) -> bool:
        """Whether every index of the result is the same index of the operand. The result can be shorter."""
        return self.start == 0 and self.step == 1


class MovesAxes:
    """Interface of ops that permute, slice or roll the axes of operand 0."""

    __slots__ = ()

    def moved_axes(self, node: Node) -> tuple[AxisSlice, ...] | str:
        """One slice of operand 0 for each axis of the only output of ``node``, or the reason why the slices
        are not known.
        """
        raise NotImplementedError(f"{type(self).__name__} implements MovesAxes without moved_axes")


class Concatenates:
    """Interface of ops that concatenate their operands along ``axis`` into one output."""

    __slots__ = ()

    axis: int

"""Axes that are common to all values of a loop nest.

Elementwise ops unify the axes of their operands, views split or merge axes, permutations reorder them, and
reductions remove them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphwright.ir.refusal import Code, Refusal
from graphwright.ir.symbols import Dim, product

Axis = int
AxisMap = tuple[tuple[Axis, ...], ...]
"""For each dim of a value, the axes whose product is its size, outermost first; empty if the size is 1 or the
dim is broadcast.
"""


class NotOneNest(Exception):
    """Raised if nodes do not form one loop nest. ``refusal`` gives the reason."""

    def __init__(self, code: Code, why: str) -> None:
        super().__init__(why)
        self.refusal = Refusal(code, why)


class AxisSystem:
    """A set of axes with extents, in which axes can be split and unified."""

    def __init__(self) -> None:
        self.extents: list[Dim] = []
        self._parts: dict[Axis, tuple[Axis, ...]] = {}

    def copy(self) -> AxisSystem:
        """An independent copy."""
        copy = AxisSystem()
        copy.extents, copy._parts = self.extents.copy(), self._parts.copy()
        return copy

    def new(self, extent: Dim) -> Axis:
        """Adds an axis and returns it."""
        self.extents.append(extent)
        return len(self.extents) - 1

    def extent(self, axes: Sequence[Axis]) -> Dim:
        """The product of the extents of ``axes``."""
        return product([self.extents[axis] for axis in axes])

    @property
    def are_refined(self) -> bool:
        """Whether an axis has been split or unified."""
        return bool(self._parts)

    def resolve(self, axes: Sequence[Axis]) -> tuple[Axis, ...]:
        """The axes that replace ``axes`` after all splits and unifications."""
        if self._parts.keys().isdisjoint(axes):  # the common case
            return tuple(axes)
        result: list[Axis] = []
        for axis in axes:
            parts = self._parts.get(axis)
            result.extend([axis] if parts is None else self.resolve(parts))
        return tuple(result)

    def unify(self, a: tuple[Axis, ...], b: tuple[Axis, ...]) -> tuple[Axis, ...]:
        """Unify two products of axes, and return the unified axes. Raises NotOneNest if the extents do not
        divide each other.
        """
        left, right = self.resolve(a), self.resolve(b)
        joined: list[Axis] = []
        while left and right:
            self._unify_first(left[0], right[0], are_last=len(left) == len(right) == 1)
            left, right = self.resolve(left), self.resolve(right)  # an axis can be on both sides
            joined.append(left[0])
            left, right = left[1:], right[1:]
        if left or right:
            raise NotOneNest(Code.INTERLEAVED_SIZES, "the sizes do not divide each other")
        return self.resolve(joined)

    def _unify_first(self, x: Axis, y: Axis, are_last: bool) -> None:
        """Unify ``x`` and ``y``, or the smaller one with the outer part of the larger one."""
        if x == y:
            return
        first, second = self.extents[x], self.extents[y]
        if first == second or are_last:
            self._parts[y] = (x,)
        elif 0 in (first, second):  # every size divides 0: this would not terminate
            raise NotOneNest(Code.INTERLEAVED_SIZES, f"sizes {first} and {second} do not divide each other")
        elif (parts := self._split(x, second)) is not None:
            self._parts[parts[0]] = (y,)
        elif (parts := self._split(y, first)) is not None:
            self._parts[parts[0]] = (x,)
        else:
            raise NotOneNest(Code.INTERLEAVED_SIZES, f"sizes {first} and {second} do not divide each other")

    def regroup(self, axes: tuple[Axis, ...], sizes: Sequence[Dim]) -> AxisMap:
        """Regroup ``axes`` into dims of ``sizes``, and split axes where a dim needs a part of one.

        The product of ``sizes`` must equal the product of the extents. Raises NotOneNest.
        """
        left = list(self.resolve(axes))
        axis_map: list[tuple[Axis, ...]] = []
        for size in sizes:
            group: list[Axis] = []
            while self.extent(group) != size:
                if not left:
                    raise NotOneNest(
                        Code.REGROUPING_VIEW, f"a view reshapes the axes to {', '.join(map(str, sizes))}"
                    )
                head = left.pop(0)
                missing = _quotient(size, self.extent(group))
                if missing is None:
                    raise NotOneNest(Code.REGROUPING_VIEW, f"a view merges sizes that do not divide {size}")
                if self.extents[head] != missing and _quotient(missing, self.extents[head]) is None:
                    parts = self._split(head, missing)
                    if parts is None:
                        raise NotOneNest(
                            Code.REGROUPING_VIEW, f"a view splits {self.extents[head]} by {missing}"
                        )
                    head = parts[0]
                    left.insert(0, parts[1])
                group.append(head)
            axis_map.append(tuple(group))
        if left:
            raise NotOneNest(Code.REGROUPING_VIEW, "the shape of a view does not match the loops")
        return tuple(axis_map)

    def _split(self, axis: Axis, outer: Dim) -> tuple[Axis, Axis] | None:
        inner = _quotient(self.extents[axis], outer)
        if inner is None:
            return None
        parts = (self.new(outer), self.new(inner))
        self._parts[axis] = parts
        return parts


def _quotient(a: Dim, b: Dim) -> Dim | None:
    """``a / b`` if it is exact for all sizes, else None."""
    if isinstance(b, int) and b == 0:
        return None
    quotient = a // b
    return quotient if quotient * b == a else None


def join_axes(
    domain: Sequence[Axis], accesses: Sequence[Sequence[Axis]], borders: Callable[[Axis, Axis], bool]
) -> list[tuple[Axis, ...]]:
    """Joins neighboring axes of ``domain`` that every access uses as if they were one axis.

    ``accesses``: the axes of each access, in memory order. Two axes are joined if each access has both, one
    directly after the other, or neither. ``borders``: whether two axes must stay separate.
    """
    groups: list[tuple[Axis, ...]] = []
    for axis in domain:
        last = groups[-1][-1] if groups else None
        if last is None or borders(last, axis) or not all(_are_adjacent(a, last, axis) for a in accesses):
            groups.append((axis,))
        else:
            groups[-1] = (*groups[-1], axis)
    return groups


def _are_adjacent(access: Sequence[Axis], a: Axis, b: Axis) -> bool:
    """Whether ``access`` contains ``b`` directly after ``a``, or contains neither."""
    if a not in access and b not in access:
        return True
    return a in access and b in access and access.index(b) == access.index(a) + 1

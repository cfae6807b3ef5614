"""The result of the loop analysis of a region: how the dims of each value map to common axes.

The analysis succeeds if one loop nest can compute the region: every dim of every value is then a product of
axes of one domain. Loops can read a slice of an operand (:class:`OperandSlice`), and can access values that
are rolled along an axis (:class:`Roll`).
"""

from __future__ import annotations

from itertools import chain

from graphwright.ir.builtin.fused import Term
from graphwright.ir.graph import Node, Value
from graphwright.ir.symbols import Dim
from graphwright.loop_nests.axes import Axis, AxisMap, AxisSystem
from graphwright.records import dataclass, field


@dataclass(frozen=True)
class Roll:
    """A roll of a value along ``axes``, which count as one axis of ``size``. Iteration ``i`` of the loops
    accesses element ``(i + start) % size`` of the value.
    """

    axes: tuple[Axis, ...]
    start: int
    size: Dim


@dataclass(frozen=True)
class OperandSlice:
    """A value that is a slice of ``operand``, which the region receives. ``terms`` give the addresses of its
    elements.
    """

    operand: Value
    terms: tuple[Term, ...]


@dataclass
class Nest:
    """The analysis of a set of nodes."""

    axes: AxisSystem = field(default_factory=AxisSystem)
    axis_maps: dict[Value, AxisMap] = field(default_factory=dict)
    """The axes of each value that the nodes compute."""
    operand_maps: dict[Value, AxisMap] = field(default_factory=dict)
    """The axes of each operand from outside."""
    loaded: dict[Value, None] = field(default_factory=dict)
    """The operands and slices of operands that nodes compute with."""
    slices: dict[Value, OperandSlice] = field(default_factory=dict)
    """The values that are slices of operands."""
    sources: dict[Value, Value] = field(default_factory=dict)
    """The operand or slice that each view refers to."""
    partial: dict[Value, None] = field(default_factory=dict)
    """The values that may lack axes of the domain, because they are loaded or cheap to recompute."""
    rolls: dict[Value, tuple[Roll, ...]] = field(default_factory=dict)
    concat_axes: dict[Axis, None] = field(default_factory=dict)
    """Axes that number the operands of a concatenation."""
    reductions: dict[Node, tuple[Axis, ...]] = field(default_factory=dict)
    """The axes that each reduction reduces; empty if all of them have size 1."""
    reduced: tuple[Axis, ...] = ()
    """The axes that all reductions reduce."""
    domain: tuple[Axis, ...] = ()
    """The axes of the loops, outermost first."""

    def copy(self) -> Nest:
        """An independent copy."""
        return Nest(
            self.axes.copy(), self.axis_maps.copy(), self.operand_maps.copy(), self.loaded.copy(),
            self.slices.copy(), self.sources.copy(), self.partial.copy(), self.rolls.copy(),
            self.concat_axes.copy(), self.reductions.copy(),
        )  # fmt: skip

    def source_of(self, value: Value) -> Value | None:
        """The operand or slice that ``value`` refers to; None if the region computes ``value``."""
        source = self.sources.get(value, value)
        return source if source in self.operand_maps or source in self.slices else None

    def alias(self, output: Value, value: Value) -> None:
        """Records that ``output`` is ``value`` with another shape or axis order."""
        source = self.source_of(value)
        if source is not None:
            self.sources[output] = source
            self.partial[output] = None

    def mark_loaded(self, value: Value) -> None:
        """Records that a node computes with ``value``: its operand or slice is loaded."""
        source = self.source_of(value)
        if source is not None:
            self.loaded[source] = None

    def axis_map_of(self, value: Value) -> AxisMap:
        """The axes of each dim of ``value``. An operand that is seen for the first time gets new axes."""
        if value in self.axis_maps:
            return self.axis_maps[value]
        if value not in self.operand_maps:
            self.operand_maps[value] = tuple(
                () if size == 1 else (self.axes.new(size),) for size in value.type.dims
            )
        return self.operand_maps[value]

    def axes_of(self, axis_map: AxisMap) -> tuple[Axis, ...]:
        """All axes in ``axis_map``, outermost first."""
        flat = tuple(chain.from_iterable(axis_map))
        return self.axes.resolve(flat) if self.axes.are_refined else flat

"""The result of the loop analysis of a region: how the dims of each value map to common axes.

Operands can be read in part (:class:`Window`), and values can be rolled along an axis (:class:`Phase`). A
region is one loop nest exactly if the analysis succeeds: every dim of every value is then a product of axes
of one domain.
"""

from __future__ import annotations

from itertools import chain

from graphwright.ir.fused import Term
from graphwright.ir.graph import Node, Value
from graphwright.ir.symbols import Dim
from graphwright.loop_nests.axes import Axis, AxisSystem, Place
from graphwright.records import dataclass, field


@dataclass(frozen=True)
class Phase:
    """A value that is rolled along an axis: at index ``i`` of ``axes``, taken as one axis, the loops access
    its element ``i + start``, modulo ``size``.
    """

    axes: tuple[Axis, ...]
    start: int
    size: Dim


@dataclass(frozen=True)
class Window:
    """A value that is a part of the outer operand ``operand``: the addresses of its elements."""

    operand: Value
    terms: tuple[Term, ...]


@dataclass
class Nest:
    """The analysis of a set of nodes.

    ``places``: the axes of each value that the nodes compute. ``reads``: the axes of each outer operand.
    ``windows``: values that are parts of operands. ``sources``: the operand or window that a view refers to.
    ``direct``: operands and windows that a node computes with. ``partial``: values that may lack axes, as
    they are loaded or cheap to recompute. ``phases``: rolls of values. ``parts``: axes that number the
    operands of a concatenation. ``folded``: the axes that each reduction reduces, empty if all have size 1.
    ``reduced``: the common reduced axes.
    """

    axes: AxisSystem = field(default_factory=AxisSystem)
    places: dict[Value, Place] = field(default_factory=dict)
    reads: dict[Value, Place] = field(default_factory=dict)
    direct: dict[Value, None] = field(default_factory=dict)
    windows: dict[Value, Window] = field(default_factory=dict)
    sources: dict[Value, Value] = field(default_factory=dict)
    partial: dict[Value, None] = field(default_factory=dict)
    phases: dict[Value, tuple[Phase, ...]] = field(default_factory=dict)
    parts: dict[Axis, None] = field(default_factory=dict)
    folded: dict[Node, tuple[Axis, ...]] = field(default_factory=dict)
    reduced: tuple[Axis, ...] = ()
    domain: tuple[Axis, ...] = ()

    @property
    def walked(self) -> dict[Value, Place]:
        """The axes of all values that the loops access: computed ones, and operands that are
        read directly.
        """
        return {**self.places, **{v: self.reads[v] for v in self.direct if v in self.reads}}

    def copy(self) -> Nest:
        """An independent copy."""
        return Nest(
            self.axes.copy(), self.places.copy(), self.reads.copy(), self.direct.copy(), self.windows.copy(),
            self.sources.copy(), self.partial.copy(), self.phases.copy(), self.parts.copy(),
            self.folded.copy(),
        )  # fmt: skip

    def source_of(self, value: Value) -> Value | None:
        """The operand or window that ``value`` refers to; None if the region computes it."""
        source = self.sources.get(value, value)
        return source if source in self.reads or source in self.windows else None

    def show(self, output: Value, value: Value) -> None:
        """Note that ``output`` is ``value`` with another shape or axis order."""
        source = self.source_of(value)
        if source is not None:
            self.sources[output] = source
            self.partial[output] = None

    def read_directly(self, value: Value) -> None:
        """Note that a node computes with ``value``, so that its source is loaded."""
        source = self.source_of(value)
        if source is not None:
            self.direct[source] = None

    def place_of(self, value: Value) -> Place:
        """The axes of ``value``; new ones if it is an operand that is seen for the first time."""
        if value in self.places:
            return self.places[value]
        if value not in self.reads:
            self.reads[value] = tuple(() if size == 1 else (self.axes.new(size),) for size in value.type.dims)
        return self.reads[value]

    def axes_of(self, place: Place) -> tuple[Axis, ...]:
        """All axes of a place, outermost first."""
        flat = tuple(chain.from_iterable(place))
        return self.axes.resolve(flat) if self.axes.are_refined else flat

"""What the loop analysis finds of a region: how the dims of each value lie on one system of axes.

Operands may be read in part (:class:`Window`), and values may be rolled along an axis (:class:`Phase`). A
region is one loop nest exactly if this succeeds: every dim of every value is then a product of axes of one
common domain.
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
    """Where a value is rolled along an axis: at index ``i`` of ``axes``, taken as one, the loops are at its
    element ``i + start``, modulo ``size``."""

    axes: tuple[Axis, ...]
    start: int
    size: Dim


@dataclass(frozen=True)
class Window:
    """A value that is part of ``operand``, an operand from outside: the addresses of its elements."""

    operand: Value
    terms: tuple[Term, ...]


@dataclass
class Nest:
    """The analysis of a set of nodes.

    ``places``: where each value made by the nodes lies. ``reads``: where each operand from outside lies.
    ``windows``: values that are parts of operands. ``sources``: the operand or window that a view shows.
    ``direct``: those of operands and windows that something computes with. ``partial``: values that may lack
    axes, since they are loaded, or cheap to compute again. ``phases``: of the values that are rolled.
    ``parts``: axes that count the operands of a concatenation. ``folded``: the axes that each reduction
    folds; none where they are all of size 1. ``reduced``: those of all that fold any.
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
        """Where values lie that the loops walk: those made here, and operands that are read directly."""
        return {**self.places, **{v: self.reads[v] for v in self.direct if v in self.reads}}

    def copy(self) -> Nest:
        """The same, to be extended apart."""
        return Nest(
            self.axes.copy(), self.places.copy(), self.reads.copy(), self.direct.copy(), self.windows.copy(),
            self.sources.copy(), self.partial.copy(), self.phases.copy(), self.parts.copy(),
            self.folded.copy(),
        )  # fmt: skip

    def source_of(self, value: Value) -> Value | None:
        """The operand or window that ``value`` shows; None where the region computes it."""
        source = self.sources.get(value, value)
        return source if source in self.reads or source in self.windows else None

    def show(self, output: Value, value: Value) -> None:
        """Note that ``output`` shows ``value`` in another shape or order."""
        source = self.source_of(value)
        if source is not None:
            self.sources[output] = source
            self.partial[output] = None

    def read_directly(self, value: Value) -> None:
        """Note that something computes with ``value``: what it shows is loaded."""
        source = self.source_of(value)
        if source is not None:
            self.direct[source] = None

    def place_of(self, value: Value) -> Place:
        """Where ``value`` lies, on axes of its own if it was not known before."""
        if value in self.places:
            return self.places[value]
        if value not in self.reads:
            self.reads[value] = tuple(() if size == 1 else (self.axes.new(size),) for size in value.type.dims)
        return self.reads[value]

    def axes_of(self, place: Place) -> tuple[Axis, ...]:
        """All axes of a place, outermost first."""
        flat = tuple(chain.from_iterable(place))
        return self.axes.resolve(flat) if self.axes.are_refined else flat

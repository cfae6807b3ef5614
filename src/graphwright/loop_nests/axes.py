"""Loop analysis of a set of nodes: one system of axes for all values, and how each value's dims lie on them.

Elementwise ops unify the axes of their operands, views split or join axes, reductions take axes away. A
region is one loop nest exactly if this succeeds: every dim of every value is then a product of axes of one
common domain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from graphwright.ir.graph import Node, Value
from graphwright.ir.op import Trait, folding
from graphwright.ir.refusal import Code, Refusal
from graphwright.ir.symbols import Dim, product
from graphwright.records import dataclass, field

Axis = int
Place = tuple[tuple[Axis, ...], ...]
"""For each dim of a value, outermost first, the axes whose product it is; () where it is 1 or broadcast."""


class NotOneNest(Exception):
    """These nodes do not form one loop nest: ``refusal`` says why."""

    def __init__(self, code: Code, why: str) -> None:
        super().__init__(why)
        self.refusal = Refusal(code, why)


class AxisSystem:
    """Axes with extents, refined as views split them and joined as elementwise ops equate them."""

    def __init__(self) -> None:
        self.extents: list[Dim] = []
        self._parts: dict[Axis, tuple[Axis, ...]] = {}

    def copy(self) -> AxisSystem:
        """The same axes, to be refined apart."""
        made = AxisSystem()
        made.extents, made._parts = self.extents.copy(), self._parts.copy()
        return made

    def new(self, extent: Dim) -> Axis:
        """A fresh axis."""
        self.extents.append(extent)
        return len(self.extents) - 1

    @property
    def are_refined(self) -> bool:
        """Whether an axis has become others."""
        return bool(self._parts)

    def resolve(self, axes: Sequence[Axis]) -> tuple[Axis, ...]:
        """The finest axes that ``axes`` have become."""
        if self._parts.keys().isdisjoint(axes):  # most have stayed what they were
            return tuple(axes)
        result: list[Axis] = []
        for axis in axes:
            parts = self._parts.get(axis)
            result.extend([axis] if parts is None else self.resolve(parts))
        return tuple(result)

    def unify(self, a: tuple[Axis, ...], b: tuple[Axis, ...]) -> tuple[Axis, ...]:
        """Make two products of axes the same axes; refuses where their factors interleave."""
        left, right = list(self.resolve(a)), list(self.resolve(b))
        joined: list[Axis] = []
        while left and right:
            x, y = left.pop(0), right.pop(0)
            if x == y or self.extents[x] == self.extents[y] or (not left and not right):
                if x != y:
                    self._parts[y] = (x,)
                joined.append(x)
            elif (rest := self._split(x, self.extents[y])) is not None:
                self._parts[rest[0]] = (y,)
                left.insert(0, rest[1])
                joined.append(y)
            elif (rest := self._split(y, self.extents[x])) is not None:
                self._parts[rest[0]] = (x,)
                right.insert(0, rest[1])
                joined.append(x)
            else:
                raise NotOneNest(
                    Code.INTERLEAVED_SIZES, f"sizes {self.extents[x]} and {self.extents[y]} interleave"
                )
        if left or right:
            raise NotOneNest(Code.INTERLEAVED_SIZES, "sizes do not divide each other")
        return self.resolve(joined)

    def cut(self, axes: tuple[Axis, ...], sizes: Sequence[Dim]) -> Place:
        """Regroup ``axes`` into dims of ``sizes`` with the same product, splitting axes where needed."""
        left = list(self.resolve(axes))
        place: list[tuple[Axis, ...]] = []
        for size in sizes:
            group: list[Axis] = []
            while product([self.extents[a] for a in group]) != size:
                if not left:
                    raise NotOneNest(
                        Code.REGROUPING_VIEW, f"a view regroups sizes into {', '.join(map(str, sizes))}"
                    )
                head = left.pop(0)
                missing = _quotient(size, product([self.extents[a] for a in group]))
                if missing is None:
                    raise NotOneNest(
                        Code.REGROUPING_VIEW, f"a view makes {size} from sizes that do not divide it"
                    )
                if self.extents[head] != missing and _quotient(missing, self.extents[head]) is None:
                    parts = self._split(head, missing)
                    if parts is None:
                        raise NotOneNest(
                            Code.REGROUPING_VIEW, f"a view cuts {self.extents[head]} into {missing}"
                        )
                    head = parts[0]
                    left.insert(0, parts[1])
                group.append(head)
            place.append(tuple(group))
        if left:
            raise NotOneNest(Code.REGROUPING_VIEW, "the sizes of a view do not match those of the loops")
        return tuple(place)

    def _split(self, axis: Axis, outer: Dim) -> tuple[Axis, Axis] | None:
        inner = _quotient(self.extents[axis], outer)
        if inner is None:
            return None
        parts = (self.new(outer), self.new(inner))
        self._parts[axis] = parts
        return parts


def _quotient(a: Dim, b: Dim) -> Dim | None:
    """``a / b`` if it is exact for all sizes."""
    if isinstance(b, int) and b == 0:
        return None
    quotient = a // b
    return quotient if quotient * b == a else None


@dataclass
class Nest:
    """The analysis of a set of nodes.

    ``places``: where each value made by the nodes lies. ``reads``: where each operand from outside lies.
    ``folded``: the axes that each reduction folds; none where they are all of size 1. ``reduced``: those of
    all that fold any.
    """

    axes: AxisSystem = field(default_factory=AxisSystem)
    places: dict[Value, Place] = field(default_factory=dict)
    reads: dict[Value, Place] = field(default_factory=dict)
    folded: dict[Node, tuple[Axis, ...]] = field(default_factory=dict)
    reduced: tuple[Axis, ...] = ()
    domain: tuple[Axis, ...] = ()

    def extended(self, node: Node) -> Nest:
        """The analysis of the nodes of this one, then ``node``; raises :class:`NotOneNest`."""
        made = Nest(self.axes.copy(), self.places.copy(), self.reads.copy(), self.folded.copy())
        _add(made, node)
        _finish(made)
        return made

    def axes_of(self, place: Place) -> tuple[Axis, ...]:
        """All axes of a place, outermost first."""
        flat = tuple(chain.from_iterable(place))
        return self.axes.resolve(flat) if self.axes.are_refined else flat


def analyse(nodes: Sequence[Node]) -> Nest:
    """Put ``nodes`` (in order) on common axes; raises :class:`NotOneNest`."""
    nest = Nest()
    for node in nodes:
        _add(nest, node)
    _finish(nest)
    return nest


def join_axes(
    domain: Sequence[Axis], walks: Sequence[Sequence[Axis]], borders: Callable[[Axis, Axis], bool]
) -> list[tuple[Axis, ...]]:
    """Groups of neighbours in ``domain`` that each of ``walks`` takes together, in this order, or not at all,
    unless ``borders`` keeps them apart.
    """
    groups: list[tuple[Axis, ...]] = []
    for axis in domain:
        last = groups[-1][-1] if groups else None
        if last is None or borders(last, axis) or not all(_together(w, last, axis) for w in walks):
            groups.append((axis,))
        else:
            groups[-1] = (*groups[-1], axis)
    return groups


def _together(walk: Sequence[Axis], a: Axis, b: Axis) -> bool:
    """Whether ``walk`` has ``a`` and then at once ``b``, or neither."""
    if a not in walk and b not in walk:
        return True
    return a in walk and b in walk and walk.index(b) == walk.index(a) + 1


def _add(nest: Nest, node: Node) -> None:
    if Trait.REDUCTION in node.op.traits:
        nest.folded[node] = _reduce(nest, node)
    elif Trait.VIEW in node.op.traits:
        _view(nest, node)
    else:
        _elementwise(nest, node)


def _finish(nest: Nest) -> None:
    _resolve_all(nest)
    _set_domain(nest)


def _elementwise(nest: Nest, node: Node) -> None:
    shape = node.output.type.dims
    place: list[tuple[Axis, ...]] = [() for _ in shape]
    operands = [value for value in node.inputs if value is not None]
    for value in operands:
        known = nest.places.get(value) or nest.reads.get(value) or ()
        for dim, axes in enumerate(known, start=len(shape) - len(known)):
            if axes:
                place[dim] = nest.axes.unify(place[dim], axes) if place[dim] else axes
    for dim, size in enumerate(shape):
        if not place[dim] and size != 1:
            place[dim] = (nest.axes.new(size),)
    for value in operands:
        if value not in nest.places and value not in nest.reads:
            dims = value.type.dims
            aligned = enumerate(dims, start=len(shape) - len(dims))
            nest.reads[value] = tuple(() if size == 1 else place[d] for d, size in aligned)
    nest.places[node.output] = tuple(place)


def _view(nest: Nest, node: Node) -> None:
    flat = [axis for dim in _place_of(nest, node, 0) for axis in dim]
    nest.places[node.output] = nest.axes.cut(tuple(flat), node.output.type.dims)


def _reduce(nest: Nest, node: Node) -> tuple[Axis, ...]:
    place = _place_of(nest, node, 0)
    fold = folding(node.op)
    folded = set(fold.resolved(len(place)))
    if fold.keepdims:
        nest.places[node.output] = tuple(() if d in folded else dim for d, dim in enumerate(place))
    else:
        nest.places[node.output] = tuple(dim for d, dim in enumerate(place) if d not in folded)
    return tuple(axis for d, dim in enumerate(place) if d in folded for axis in dim)


def _place_of(nest: Nest, node: Node, position: int) -> Place:
    value = node.operand(position)
    if value in nest.places:
        return nest.places[value]
    if value not in nest.reads:
        nest.reads[value] = tuple(() if size == 1 else (nest.axes.new(size),) for size in value.type.dims)
    return nest.reads[value]


def _resolve_all(nest: Nest) -> None:
    if not nest.axes.are_refined:
        return
    resolve = nest.axes.resolve
    nest.places = {value: tuple(resolve(dim) for dim in place) for value, place in nest.places.items()}
    nest.reads = {value: tuple(resolve(dim) for dim in place) for value, place in nest.reads.items()}
    nest.folded = {node: resolve(axes) for node, axes in nest.folded.items()}


def _set_domain(nest: Nest) -> None:
    reductions = [axes for axes in nest.folded.values() if axes]
    if len({frozenset(axes) for axes in reductions}) > 1:
        raise NotOneNest(Code.REDUCED_AXES, "reductions over different axes")
    nest.reduced = reductions[0] if reductions else ()
    made = dict.fromkeys(map(nest.axes_of, nest.places.values()))  # most values walk the same axes
    read = dict.fromkeys(map(nest.axes_of, nest.reads.values()))
    nest.domain = max((*made, *read), key=len, default=())
    if any(len(set(axes)) < len(axes) for axes in (*made, *read)):
        raise NotOneNest(Code.TWO_ORDERS, "one value is read in two orders")
    full, rows = frozenset(nest.domain), frozenset(nest.domain) - frozenset(nest.reduced)
    if any(axes not in (full, rows) for axes in map(frozenset, made)):
        why = "a smaller value would be computed again for each element of a larger one"
        raise NotOneNest(Code.RECOMPUTED_VALUE, why)
    if not all(map(full.issuperset, read)):
        raise NotOneNest(Code.UNKNOWN_AXES, "an operand has axes over which the region does not iterate")

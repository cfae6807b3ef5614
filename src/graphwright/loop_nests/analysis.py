"""Loop analysis: maps a set of nodes to common axes, or says why they do not form one loop nest."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.graph import Node
from graphwright.ir.moved_axes import JoinsOperands, MovesAxes
from graphwright.ir.op import Trait, folding
from graphwright.ir.refusal import Code
from graphwright.loop_nests.axes import Axis, NotOneNest
from graphwright.loop_nests.concats import join
from graphwright.loop_nests.moves import move, show
from graphwright.loop_nests.nest import Nest
from graphwright.loop_nests.rolls import keep_phases, unify_phases


def analyse(nodes: Sequence[Node]) -> Nest:
    """Map ``nodes``, in graph order, to common axes. Raises NotOneNest."""
    nest = Nest()
    for node in nodes:
        _add(nest, node)
    _finish(nest)
    return nest


def extended(nest: Nest, node: Node) -> Nest:
    """The analysis of the nodes of ``nest`` and ``node``. Raises NotOneNest."""
    made = nest.copy()
    _add(made, node)
    _finish(made)
    return made


def _add(nest: Nest, node: Node) -> None:
    if Trait.REDUCTION in node.op.traits:
        nest.folded[node] = _reduce(nest, node)
    elif Trait.VIEW in node.op.traits:
        _view(nest, node)
    elif isinstance(node.op, MovesAxes):
        move(nest, node)
    elif isinstance(node.op, JoinsOperands):
        join(nest, node)
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
    fresh = [value for value in operands if value not in nest.places and value not in nest.reads]
    for value in operands:
        if value not in nest.places and value not in nest.reads:
            dims = value.type.dims
            aligned = enumerate(dims, start=len(shape) - len(dims))
            nest.reads[value] = tuple(() if size == 1 else place[d] for d, size in aligned)
        nest.read_directly(value)
    nest.places[node.output] = tuple(place)
    if nest.phases:
        unify_phases(nest, node, fresh)


def _view(nest: Nest, node: Node) -> None:
    flat = [axis for dim in nest.place_of(node.operand(0)) for axis in dim]
    nest.places[node.output] = nest.axes.cut(tuple(flat), node.output.type.dims)
    show(nest, node)


def _reduce(nest: Nest, node: Node) -> tuple[Axis, ...]:
    place = nest.place_of(node.operand(0))
    nest.read_directly(node.operand(0))
    fold = folding(node.op)
    folded = set(fold.resolved(len(place)))
    if fold.keepdims:
        nest.places[node.output] = tuple(() if d in folded else dim for d, dim in enumerate(place))
    else:
        nest.places[node.output] = tuple(dim for d, dim in enumerate(place) if d not in folded)
    axes = tuple(axis for d, dim in enumerate(place) if d in folded for axis in dim)
    if nest.phases:
        keep_phases(nest, node, axes)
    return axes


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
        raise NotOneNest(Code.REDUCED_AXES, "the nodes reduce over different axes")
    nest.reduced = reductions[0] if reductions else ()
    whole = (place for value, place in nest.places.items() if value not in nest.partial)
    made = dict.fromkeys(map(nest.axes_of, whole))  # most values have the same axes
    read = dict.fromkeys(nest.axes_of(nest.place_of(value)) for value in nest.direct)
    part = map(nest.axes_of, map(nest.places.__getitem__, nest.partial))
    nest.domain = max((*made, *read) or tuple(part), key=len, default=())
    if any(len(set(axes)) < len(axes) for axes in (*made, *read)):
        raise NotOneNest(Code.TWO_ORDERS, "one value is read in two different axis orders")
    full, rows = frozenset(nest.domain), frozenset(nest.domain) - frozenset(nest.reduced)
    if any(axes not in (full, rows) for axes in map(frozenset, made)):
        why = "a smaller value would be recomputed for each element of a larger one"
        raise NotOneNest(Code.RECOMPUTED_VALUE, why)
    if not all(map(full.issuperset, read)):
        raise NotOneNest(Code.UNKNOWN_AXES, "an operand has axes that are not loops of the region")

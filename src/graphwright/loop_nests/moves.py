"""Nodes of a region that move elements. They compute nothing: they change the addresses of neighbouring loads
and stores.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.fused import Term
from graphwright.ir.graph import Node, Value
from graphwright.ir.moved_axes import Along, JoinsOperands, MovesAxes
from graphwright.ir.refusal import Code
from graphwright.loop_nests.addresses import with_run
from graphwright.loop_nests.axes import Axis, NotOneNest, Place
from graphwright.loop_nests.nest import Nest, Window
from graphwright.loop_nests.rolls import roll


def is_move(node: Node) -> bool:
    """Whether ``node`` moves elements, and is not just a view."""
    return isinstance(node.op, MovesAxes | JoinsOperands)


def show(nest: Nest, node: Node) -> None:
    """Note that the output of ``node`` is its operand with another shape or axis order."""
    value = node.operand(0)
    nest.show(node.output, value)
    if value in nest.phases:
        nest.phases[node.output] = nest.phases[value]


def move(nest: Nest, node: Node) -> None:
    """Add a permutation, a slice or a roll. Raises NotOneNest."""
    assert isinstance(node.op, MovesAxes)
    along = node.op.moved_axes(node)
    if isinstance(along, str):
        raise NotOneNest(Code.MOVED, along)
    place = nest.place_of(node.operand(0))
    if any(each.wraps for each in along):
        nest.places[node.output] = roll(nest, node, along, place)
    elif all(_is_whole(node, k, each) for k, each in enumerate(along)):
        nest.places[node.output] = tuple(place[each.axis] for each in along)
        show(nest, node)
    else:
        _cut(nest, node, along, place)


def _is_whole(node: Node, axis: int, along: Along) -> bool:
    return along.is_whole and node.operand(0).type.dims[along.axis] == node.output.type.dims[axis]


def _cut(nest: Nest, node: Node, along: Sequence[Along], place: Place) -> None:
    """The output is a slice of an outer operand: sliced axes become new ones."""
    value = node.operand(0)
    operand, terms = _seen(nest, value)
    made: list[tuple[Axis, ...]] = []
    for k, each in enumerate(along):
        run, size = nest.axes.resolve(place[each.axis]), node.output.type.dims[k]
        if _is_whole(node, k, each):
            made.append(run)
            continue
        if any(set(nest.axes.resolve(p.axes)) & set(run) for p in nest.phases.get(value, ())):
            raise NotOneNest(Code.MOVED, "it slices a rolled axis")
        fresh = () if size == 1 else (nest.axes.new(size),)
        terms = with_run(nest, terms, run, Term(fresh, 1, each.start, each.step))
        made.append(fresh)
    nest.places[node.output] = tuple(made)
    nest.windows[node.output] = Window(operand, terms)
    nest.partial[node.output] = None
    if value in nest.phases:
        nest.phases[node.output] = nest.phases[value]


def _seen(nest: Nest, value: Value) -> tuple[Value, tuple[Term, ...]]:
    """The outer operand that ``value`` is a view of, and the address of its elements."""
    source = nest.source_of(value)
    if source is None:
        raise NotOneNest(Code.MOVED, "it slices a value that the region computes")
    if source in nest.windows:
        return nest.windows[source].operand, nest.windows[source].terms
    return source, (Term(nest.axes_of(nest.reads[source]), 1),)

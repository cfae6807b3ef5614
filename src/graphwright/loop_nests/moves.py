"""Permutations, slices and rolls inside a region: no code computes them, they change the addresses of
neighboring loads and stores.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.builtin.fused import Term
from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.moved_axes import AxisSlice, Concatenates, MovesAxes
from graphwright.ir.refusal import Code
from graphwright.loop_nests.addresses import with_run
from graphwright.loop_nests.axes import Axis, AxisMap, NotOneNest
from graphwright.loop_nests.nest import Nest, OperandSlice
from graphwright.loop_nests.rolls import add_roll


def is_move(node: Node) -> bool:
    """Whether ``node`` permutes, slices, rolls or concatenates. Views do not count: they move no elements."""
    return isinstance(node.op, MovesAxes | Concatenates)


def add_view(nest: Nest, node: Node) -> None:
    """Records that the output of ``node`` is its operand with another shape or axis order."""
    value = node.operand(0)
    nest.alias(node.output, value)
    if value in nest.rolls:
        nest.rolls[node.output] = nest.rolls[value]


def add_move(nest: Nest, node: Node) -> None:
    """Adds a permutation, a slice or a roll to the analysis. Raises NotOneNest."""
    assert isinstance(node.op, MovesAxes)
    slices = node.op.moved_axes(node)
    if isinstance(slices, str):
        raise NotOneNest(Code.MOVED, slices)
    axis_map = nest.axis_map_of(node.operand(0))
    if any(each.wraps for each in slices):
        nest.axis_maps[node.output] = add_roll(nest, node, slices, axis_map)
    elif all(_is_whole(node, k, each) for k, each in enumerate(slices)):
        nest.axis_maps[node.output] = tuple(axis_map[each.axis] for each in slices)
        add_view(nest, node)
    else:
        _add_slice(nest, node, slices, axis_map)


def _is_whole(node: Node, axis: int, part: AxisSlice) -> bool:
    """Whether ``part`` is a whole axis of the operand."""
    return part.is_identity and node.operand(0).type.dims[part.axis] == node.output.type.dims[axis]


def _add_slice(nest: Nest, node: Node, slices: Sequence[AxisSlice], axis_map: AxisMap) -> None:
    """Adds a slice of an operand. Each sliced axis becomes a new axis."""
    value = node.operand(0)
    operand, terms = _operand_address(nest, value)
    sliced: list[tuple[Axis, ...]] = []
    for k, each in enumerate(slices):
        run, size = nest.axes.resolve(axis_map[each.axis]), node.output.type.dims[k]
        if _is_whole(node, k, each):
            sliced.append(run)
            continue
        if any(set(nest.axes.resolve(p.axes)) & set(run) for p in nest.rolls.get(value, ())):
            raise NotOneNest(Code.MOVED, "it slices a rolled axis")
        fresh = () if size == 1 else (nest.axes.new(size),)
        terms = with_run(nest, terms, run, Term(fresh, 1, each.start, each.step))
        sliced.append(fresh)
    nest.axis_maps[node.output] = tuple(sliced)
    nest.slices[node.output] = OperandSlice(operand, terms)
    nest.partial[node.output] = None
    if value in nest.rolls:
        nest.rolls[node.output] = nest.rolls[value]


def _operand_address(nest: Nest, value: Value) -> tuple[Value, tuple[Term, ...]]:
    """The operand that ``value`` is a view or slice of, and the address of the elements in it."""
    source = nest.source_of(value)
    if source is None:
        raise NotOneNest(Code.MOVED, "it slices a value that the region computes")
    if source in nest.slices:
        return nest.slices[source].operand, nest.slices[source].terms
    return source, (Term(nest.axes_of(nest.operand_maps[source]), 1),)

"""Rolls inside a region: neighboring loads and stores wrap around at the end of an axis."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from graphwright.ir.graph import Node, Value
from graphwright.ir.interfaces.moved_axes import AxisSlice
from graphwright.ir.refusal import Code
from graphwright.ir.symbols import Dim
from graphwright.loop_nests.addresses import find_run
from graphwright.loop_nests.axes import Axis, AxisMap, NotOneNest
from graphwright.loop_nests.nest import Nest, Roll


def add_roll(nest: Nest, node: Node, slices: Sequence[AxisSlice], axis_map: AxisMap) -> AxisMap:
    """Adds a roll, and returns the axes of its result.

    The loops then iterate over the elements of the result, and access earlier values with the opposite roll.
    If the operand is not contiguous along the rolled axis, the result itself gets the roll instead.
    """
    value, output = node.operand(0), node.output
    axes, rolls = list(axis_map), list(nest.rolls.get(value, ()))
    for k, each in enumerate(slices):
        if each.start == 0 or not axis_map[each.axis]:
            continue
        run, start, axes[k] = _rolled_run(nest, output.type.dims[k], each.start, axis_map[k])
        if set(run) & set(nest.axes.resolve(tuple(nest.concat_axes))):
            raise NotOneNest(Code.MOVED, "it rolls an axis along which values are concatenated")
        old, size = _roll_along(nest, value, run), nest.axes.extent(run)
        rolls = [r for r in rolls if nest.axes.resolve(r.axes) != run]
        if _has_constant_stride(nest, value, run):
            _roll_all(nest, run, start - old)
        else:
            rolls.append(Roll(run, _wrapped(old - start, size), size))
    nest.alias(output, value)
    if rolls:
        nest.rolls[output] = tuple(rolls)
    return tuple(axes)


def _has_constant_stride(nest: Nest, value: Value, run: tuple[Axis, ...]) -> bool:
    """Whether elements along ``run`` have a constant stride in memory. Computed values always have one."""
    source = nest.source_of(value)
    if source is None:
        return True
    if source in nest.slices:
        return any(find_run(nest.axes.resolve(t.axes), run) is not None for t in nest.slices[source].terms)
    return find_run(nest.axes_of(nest.operand_maps[source]), run) is not None


def _wrapped(start: int, size: Dim) -> int:
    return start % size if isinstance(size, int) and size > 0 else start


def _rolled_run(
    nest: Nest, size: Dim, start: int, axes: tuple[Axis, ...]
) -> tuple[tuple[Axis, ...], int, tuple[Axis, ...]]:
    """The axes that a roll of a dim by ``start`` rolls, the distance along them, and all axes of the dim.

    If ``start`` and the size have a common divisor, blocks of that size move together: only the axis over the
    blocks is rolled.
    """
    step = math.gcd(size, start) if isinstance(size, int) else 1
    if step == 1 or not isinstance(size, int):
        run = nest.axes.resolve(axes)
        return run, start, run
    outer, inner = nest.axes.regroup(axes, (size // step, step))
    return outer, start // step, (*outer, *inner)


def _roll_along(nest: Nest, value: Value, run: Sequence[Axis]) -> int:
    """The start of the roll of ``value`` along ``run``. Raises NotOneNest if only a part of ``run`` is
    rolled.
    """
    start = 0
    for roll in nest.rolls.get(value, ()):
        axes = nest.axes.resolve(roll.axes)
        if axes == tuple(run):
            start = roll.start
        elif set(axes) & set(run):
            raise NotOneNest(Code.MOVED, "it rolls a part of a rolled axis")
    return start


def _roll_all(nest: Nest, run: tuple[Axis, ...], start: int) -> None:
    """Roll all values along ``run`` by ``start``."""
    size = nest.axes.extent(run)
    for value, axis_map in ({**nest.operand_maps, **nest.axis_maps}).items():
        flat = nest.axes.resolve([axis for dim in axis_map for axis in dim])
        if not set(flat) & set(run):
            continue
        if not set(run) <= set(flat):
            raise NotOneNest(Code.MOVED, "it rolls an axis that another value has in part")
        old = _roll_along(nest, value, run)
        others = [r for r in nest.rolls.get(value, ()) if nest.axes.resolve(r.axes) != run]
        new = _wrapped(old + start, size)
        nest.rolls[value] = (*others, Roll(run, new, size)) if new else tuple(others)


def unify_rolls(nest: Nest, node: Node, fresh: Collection[Value]) -> None:
    """Gives the output of an elementwise node, and its ``fresh`` operands, which are read for the first time,
    the rolls of the other operands. Raises NotOneNest if the rolls differ.
    """
    values = [value for value in node.inputs if value is not None]
    union = {nest.axes.resolve(roll.axes): roll for value in values for roll in nest.rolls.get(value, ())}
    for value in (*values, node.output):
        flat = set(nest.axes_of(nest.axis_map_of(value)))
        found = [roll for run, roll in union.items() if flat & set(run)]
        if value is node.output or value in fresh:
            if any(not set(nest.axes.resolve(roll.axes)) <= flat for roll in found):
                raise NotOneNest(Code.MOVED, "an operand has only a part of a rolled axis")
            nest.rolls[value] = tuple(found)
        elif _rolls(nest, found) != _rolls(nest, nest.rolls.get(value, ())):
            raise NotOneNest(Code.MOVED, "two operands are rolled differently along an axis")


def _rolls(nest: Nest, rolls: Sequence[Roll]) -> set[tuple[tuple[Axis, ...], int]]:
    return {(nest.axes.resolve(roll.axes), roll.start) for roll in rolls}


def keep_rolls(nest: Nest, node: Node, reduced: Collection[Axis]) -> None:
    """Gives the result of a reduction the rolls of its operand. Raises NotOneNest if it reduces
    a rolled axis.
    """
    rolls = nest.rolls.get(node.operand(0), ())
    if any(set(nest.axes.resolve(roll.axes)) & set(reduced) for roll in rolls):
        raise NotOneNest(Code.MOVED, "it reduces a rolled axis")
    if rolls:
        nest.rolls[node.output] = rolls

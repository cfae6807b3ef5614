"""Rolled values: neighbouring loads and stores wrap around the end of an axis."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from graphwright.ir.graph import Node, Value
from graphwright.ir.moved_axes import Along
from graphwright.ir.refusal import Code
from graphwright.ir.symbols import Dim
from graphwright.loop_nests.addresses import find_run
from graphwright.loop_nests.axes import Axis, NotOneNest, Place
from graphwright.loop_nests.nest import Nest, Phase


def roll(nest: Nest, node: Node, along: Sequence[Along], place: Place) -> Place:
    """The axes of a rolled value. From then on the loops iterate over its elements, and earlier values are
    rolled in the opposite direction, unless their elements have another order in memory.
    """
    value, output = node.operand(0), node.output
    made, phases = list(place), list(nest.phases.get(value, ()))
    for k, each in enumerate(along):
        if each.start == 0 or not place[each.axis]:
            continue
        run, start, made[k] = _rolled_run(nest, output.type.dims[k], each.start, place[k])
        if set(run) & set(nest.axes.resolve(tuple(nest.parts))):
            raise NotOneNest(Code.MOVED, "it rolls an axis along which values are concatenated")
        old, size = _phase(nest, value, run), nest.axes.extent(run)
        phases = [p for p in phases if nest.axes.resolve(p.axes) != run]
        if _lies_in_order(nest, value, run):
            _roll_all(nest, run, start - old)
        else:
            phases.append(Phase(run, _wrapped(old - start, size), size))
    nest.show(output, value)
    if phases:
        nest.phases[output] = tuple(phases)
    return tuple(made)


def _lies_in_order(nest: Nest, value: Value, run: tuple[Axis, ...]) -> bool:
    """Whether elements along ``run`` have a constant stride, if ``value`` refers to an operand."""
    source = nest.source_of(value)
    if source is None:
        return True
    if source in nest.windows:
        return any(find_run(nest.axes.resolve(t.axes), run) is not None for t in nest.windows[source].terms)
    return find_run(nest.axes_of(nest.reads[source]), run) is not None


def _wrapped(start: int, size: Dim) -> int:
    return start % size if isinstance(size, int) and size > 0 else start


def _rolled_run(
    nest: Nest, size: Dim, start: int, place: tuple[Axis, ...]
) -> tuple[tuple[Axis, ...], int, tuple[Axis, ...]]:
    """The axes that are rolled, by how much, and the axes of the dim. Blocks that move together stay one
    axis.
    """
    step = math.gcd(size, start) if isinstance(size, int) else 1
    if step == 1 or not isinstance(size, int):
        run = nest.axes.resolve(place)
        return run, start, run
    outer, inner = nest.axes.cut(place, (size // step, step))
    return outer, start // step, (*outer, *inner)


def _phase(nest: Nest, value: Value, run: Sequence[Axis]) -> int:
    """The roll of ``value`` along ``run``. Raises NotOneNest if only a part of it is rolled."""
    start = 0
    for phase in nest.phases.get(value, ()):
        axes = nest.axes.resolve(phase.axes)
        if axes == tuple(run):
            start = phase.start
        elif set(axes) & set(run):
            raise NotOneNest(Code.MOVED, "it rolls a part of a rolled axis")
    return start


def _roll_all(nest: Nest, run: tuple[Axis, ...], start: int) -> None:
    size = nest.axes.extent(run)
    for value, place in ({**nest.reads, **nest.places}).items():
        flat = nest.axes.resolve([axis for dim in place for axis in dim])
        if not set(flat) & set(run):
            continue
        if not set(run) <= set(flat):
            raise NotOneNest(Code.MOVED, "it rolls an axis that another value has in part")
        old = _phase(nest, value, run)
        others = [p for p in nest.phases.get(value, ()) if nest.axes.resolve(p.axes) != run]
        new = _wrapped(old + start, size)
        nest.phases[value] = (*others, Phase(run, new, size)) if new else tuple(others)


def unify_phases(nest: Nest, node: Node, fresh: Collection[Value]) -> None:
    """Give the output of an elementwise node, and its ``fresh`` operands, the rolls of the other operands.
    Raises NotOneNest if these differ.
    """
    values = [value for value in node.inputs if value is not None]
    union = {nest.axes.resolve(phase.axes): phase for value in values for phase in nest.phases.get(value, ())}
    for value in (*values, node.output):
        flat = set(nest.axes_of(nest.place_of(value)))
        found = [phase for run, phase in union.items() if flat & set(run)]
        if value is node.output or value in fresh:
            if any(not set(nest.axes.resolve(p.axes)) <= flat for p in found):
                raise NotOneNest(Code.MOVED, "an operand has only a part of a rolled axis")
            nest.phases[value] = tuple(found)
        elif _rolls(nest, found) != _rolls(nest, nest.phases.get(value, ())):
            raise NotOneNest(Code.MOVED, "two operands are rolled differently along an axis")


def _rolls(nest: Nest, phases: Sequence[Phase]) -> set[tuple[tuple[Axis, ...], int]]:
    return {(nest.axes.resolve(phase.axes), phase.start) for phase in phases}


def keep_phases(nest: Nest, node: Node, folded: Collection[Axis]) -> None:
    """Give the result of a reduction the rolls of its operand. Raises NotOneNest if it reduces
    a rolled axis.
    """
    phases = nest.phases.get(node.operand(0), ())
    if any(set(nest.axes.resolve(phase.axes)) & set(folded) for phase in phases):
        raise NotOneNest(Code.MOVED, "it reduces a rolled axis")
    if phases:
        nest.phases[node.output] = phases

"""Values that are rolled along an axis: loads and stores of their neighbours wrap around its end."""

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
    """The place of a value that is rolled. The loops are at its own elements from then on, and all values
    that were there before are rolled the other way; unless these lie in memory in another order.
    """
    value, output = node.operand(0), node.output
    made, phases = list(place), list(nest.phases.get(value, ()))
    for k, each in enumerate(along):
        if each.start == 0 or not place[each.axis]:
            continue
        run, start, made[k] = _rolled_run(nest, output.type.dims[k], each.start, place[k])
        if set(run) & set(nest.axes.resolve(tuple(nest.parts))):
            raise NotOneNest(Code.MOVED, "it rolls an axis along which values are joined")
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
    """Whether elements along ``run`` lie at one step, where ``value`` shows an operand."""
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
    """The axes that are rolled, by how much, and the axes of the dim: blocks that move together stay one."""
    step = math.gcd(size, start) if isinstance(size, int) else 1
    if step == 1 or not isinstance(size, int):
        run = nest.axes.resolve(place)
        return run, start, run
    outer, inner = nest.axes.cut(place, (size // step, step))
    return outer, start // step, (*outer, *inner)


def _phase(nest: Nest, value: Value, run: Sequence[Axis]) -> int:
    """By how much ``value`` is rolled along ``run``. Raises NotOneNest if it is so around a part of it."""
    start = 0
    for phase in nest.phases.get(value, ()):
        axes = nest.axes.resolve(phase.axes)
        if axes == tuple(run):
            start = phase.start
        elif set(axes) & set(run):
            raise NotOneNest(Code.MOVED, "it rolls part of an axis that was rolled")
    return start


def _roll_all(nest: Nest, run: tuple[Axis, ...], start: int) -> None:
    size = nest.axes.extent(run)
    for value, place in ({**nest.reads, **nest.places}).items():
        flat = nest.axes.resolve([axis for dim in place for axis in dim])
        if not set(flat) & set(run):
            continue
        if not set(run) <= set(flat):
            raise NotOneNest(Code.MOVED, "it rolls an axis of which another value has a part")
        old = _phase(nest, value, run)
        others = [p for p in nest.phases.get(value, ()) if nest.axes.resolve(p.axes) != run]
        new = _wrapped(old + start, size)
        nest.phases[value] = (*others, Phase(run, new, size)) if new else tuple(others)


def unify_phases(nest: Nest, node: Node, fresh: Collection[Value]) -> None:
    """Give the output of an elementwise node, and operands that are ``fresh``, the rolls of the others.
    Raises NotOneNest if these differ."""
    values = [value for value in node.inputs if value is not None]
    union = {nest.axes.resolve(phase.axes): phase for value in values for phase in nest.phases.get(value, ())}
    for value in (*values, node.output):
        flat = set(nest.axes_of(nest.place_of(value)))
        found = [phase for run, phase in union.items() if flat & set(run)]
        if value is node.output or value in fresh:
            if any(not set(nest.axes.resolve(p.axes)) <= flat for p in found):
                raise NotOneNest(Code.MOVED, "an operand has a part of an axis that was rolled")
            nest.phases[value] = tuple(found)
        elif _rolls(nest, found) != _rolls(nest, nest.phases.get(value, ())):
            raise NotOneNest(Code.MOVED, "two operands are rolled differently along one axis")


def _rolls(nest: Nest, phases: Sequence[Phase]) -> set[tuple[tuple[Axis, ...], int]]:
    return {(nest.axes.resolve(phase.axes), phase.start) for phase in phases}


def keep_phases(nest: Nest, node: Node, folded: Collection[Axis]) -> None:
    """Give the result of a reduction the rolls of its operand. Raises NotOneNest if it folds one."""
    phases = nest.phases.get(node.operand(0), ())
    if any(set(nest.axes.resolve(phase.axes)) & set(folded) for phase in phases):
        raise NotOneNest(Code.MOVED, "it reduces over an axis that was rolled")
    if phases:
        nest.phases[node.output] = phases

"""Nodes of a region that move elements: permutations and parts of what lies outside, turned axes, joined
operands. None of them is computed: loads and stores of their neighbours have other addresses.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

from graphwright.ir.fused import Term
from graphwright.ir.graph import Node, Value
from graphwright.ir.moved_axes import Along, JoinsOperands, MovesAxes
from graphwright.ir.op import Trait
from graphwright.ir.refusal import Code
from graphwright.ir.symbols import Dim, product
from graphwright.loop_nests.axes import Axis, Nest, NotOneNest, Phase, Place, Window
from graphwright.loop_nests.builder import weight_of_node

MOST_JOINED = 4
"""Operands of a concatenation inside a region: each element is chosen among as many."""
CHEAP = 10
"""The weight of a node up to which it may be computed again for each operand of a concatenation."""


def is_move(node: Node) -> bool:
    """Whether ``node`` only moves elements, beyond showing them under another shape."""
    return isinstance(node.op, MovesAxes | JoinsOperands)


def read_directly(nest: Nest, value: Value) -> None:
    """Note that something computes with ``value``: what it shows is loaded."""
    source = nest.sources.get(value, value)
    if source in nest.reads or source in nest.windows:
        nest.direct[source] = None


def show(nest: Nest, node: Node) -> None:
    """Note that the output of ``node`` shows its operand in another shape or order."""
    value, output = node.operand(0), node.output
    source = nest.sources.get(value, value)
    if source in nest.reads or source in nest.windows:
        nest.sources[output] = source
        nest.partial[output] = None
    if value in nest.phases:
        nest.phases[output] = nest.phases[value]


# ---- moves of axes


def move(nest: Nest, node: Node) -> None:
    """Add a permutation, a cut or a turn. Raises NotOneNest."""
    assert isinstance(node.op, MovesAxes)
    along = node.op.moved_axes(node)
    if isinstance(along, str):
        raise NotOneNest(Code.MOVED, along)
    place = nest.place_of(node.operand(0))
    if any(each.wraps for each in along):
        nest.places[node.output] = _turned(nest, node, along, place)
    elif all(_is_whole(node, k, each) for k, each in enumerate(along)):
        nest.places[node.output] = tuple(place[each.axis] for each in along)
        show(nest, node)
    else:
        _cut(nest, node, along, place)


def _is_whole(node: Node, axis: int, along: Along) -> bool:
    return along.is_whole and node.operand(0).type.dims[along.axis] == node.output.type.dims[axis]


def _cut(nest: Nest, node: Node, along: Sequence[Along], place: Place) -> None:
    """The output is a part of an operand from outside: the axes that are cut are new ones."""
    value = node.operand(0)
    operand, terms = _seen(nest, value)
    made: list[tuple[Axis, ...]] = []
    for k, each in enumerate(along):
        run, size = nest.axes.resolve(place[each.axis]), node.output.type.dims[k]
        if _is_whole(node, k, each):
            made.append(run)
            continue
        if any(set(nest.axes.resolve(p.axes)) & set(run) for p in nest.phases.get(value, ())):
            raise NotOneNest(Code.MOVED, "it cuts an axis that was turned")
        fresh = () if size == 1 else (nest.axes.new(size),)
        terms = _with_run(nest, terms, run, Term(fresh, 1, each.start, each.step))
        made.append(fresh)
    nest.places[node.output] = tuple(made)
    nest.windows[node.output] = Window(operand, terms)
    nest.partial[node.output] = None
    if value in nest.phases:
        nest.phases[node.output] = nest.phases[value]


def _seen(nest: Nest, value: Value) -> tuple[Value, tuple[Term, ...]]:
    """The operand from outside that ``value`` shows, and where its elements are."""
    source = nest.sources.get(value, value)
    if source in nest.windows:
        return nest.windows[source].operand, nest.windows[source].terms
    if source not in nest.reads:
        raise NotOneNest(Code.MOVED, "it cuts a value that the region computes")
    return source, (Term(nest.axes_of(nest.reads[source]), 1),)


def _with_run(nest: Nest, terms: Sequence[Term], run: tuple[Axis, ...], by: Term) -> tuple[Term, ...]:
    """``terms`` with the position along ``run`` replaced by that of ``by``, whose stride is ignored."""
    if not run:
        return tuple(terms)
    made: list[Term] = []
    is_found = False
    for term in terms:
        axes = nest.axes.resolve(term.axes)
        at = _find(axes, run)
        made += [term] if at is None else _replaced(nest, term, axes, at, run, by)
        is_found |= at is not None
    if not is_found:
        raise NotOneNest(Code.MOVED, "it moves an axis whose elements do not lie at one step")
    return tuple(made)


def _find(axes: Sequence[Axis], run: Sequence[Axis]) -> int | None:
    starts = range(len(axes) - len(run) + 1)
    return next((k for k in starts if tuple(axes[k : k + len(run)]) == tuple(run)), None)


def _replaced(
    nest: Nest, term: Term, axes: Sequence[Axis], at: int, run: Sequence[Axis], by: Term
) -> Iterator[Term]:
    """What stands in front of the run, the run as ``by`` walks it, and what stands behind it."""
    before, after = tuple(axes[:at]), tuple(axes[at + len(run) :])
    if term.start == 0 and term.step == 1 and term.modulus == 0:
        stride = term.stride * _extent(nest, after)
        if before:
            yield Term(before, stride * _extent(nest, run))
        yield Term(by.axes, stride, by.start, by.step, by.modulus)
        if after:
            yield Term(after, term.stride)
        return
    if before or after or by.modulus != 0 or term.modulus != 0:
        raise NotOneNest(Code.MOVED, "it moves part of an axis that was moved")
    yield Term(by.axes, term.stride, term.start + term.step * by.start, term.step * by.step)


def _extent(nest: Nest, axes: Sequence[Axis]) -> Dim:
    return product([nest.axes.extents[axis] for axis in axes])


# ---- turns


def _turned(nest: Nest, node: Node, along: Sequence[Along], place: Place) -> Place:
    """The place of a value that is turned. The loops are at its own elements from then on, and all values
    that were there before are turned the other way; unless these lie in memory in another order.
    """
    value, output = node.operand(0), node.output
    made, phases = list(place), list(nest.phases.get(value, ()))
    for k, each in enumerate(along):
        if each.start == 0 or not place[each.axis]:
            continue
        run, start, made[k] = _turned_run(nest, output.type.dims[k], each.start, place[k])
        if set(run) & set(nest.axes.resolve(tuple(nest.parts))):
            raise NotOneNest(Code.MOVED, "it turns an axis along which values are joined")
        old, size = _phase(nest, value, run), _extent(nest, run)
        phases = [p for p in phases if nest.axes.resolve(p.axes) != run]
        if _lies_in_order(nest, value, run):
            _turn_all(nest, run, start - old)
        else:
            phases.append(Phase(run, _wrapped(old - start, size), size))
    source = nest.sources.get(value, value)
    if source in nest.reads or source in nest.windows:
        nest.sources[output] = source
        nest.partial[output] = None
    if phases:
        nest.phases[output] = tuple(phases)
    return tuple(made)


def _lies_in_order(nest: Nest, value: Value, run: tuple[Axis, ...]) -> bool:
    """Whether elements along ``run`` lie at one step, where ``value`` shows an operand."""
    source = nest.sources.get(value, value)
    if source in nest.windows:
        return any(_find(nest.axes.resolve(t.axes), run) is not None for t in nest.windows[source].terms)
    return source not in nest.reads or _find(nest.axes_of(nest.reads[source]), run) is not None


def _wrapped(start: int, size: Dim) -> int:
    return start % size if isinstance(size, int) and size > 0 else start


def _turned_run(
    nest: Nest, size: Dim, start: int, place: tuple[Axis, ...]
) -> tuple[tuple[Axis, ...], int, tuple[Axis, ...]]:
    """The axes that turn, by how much, and the axes of the dim: blocks that move as one stay together."""
    step = math.gcd(size, start) if isinstance(size, int) else 1
    if step == 1 or not isinstance(size, int):
        run = nest.axes.resolve(place)
        return run, start, run
    outer, inner = nest.axes.cut(place, (size // step, step))
    return outer, start // step, (*outer, *inner)


def _phase(nest: Nest, value: Value, run: Sequence[Axis]) -> int:
    """By how much ``value`` is turned around ``run``. Raises NotOneNest if it is so around a part of it."""
    start = 0
    for phase in nest.phases.get(value, ()):
        axes = nest.axes.resolve(phase.axes)
        if axes == tuple(run):
            start = phase.start
        elif set(axes) & set(run):
            raise NotOneNest(Code.MOVED, "it turns part of an axis that was turned")
    return start


def _turn_all(nest: Nest, run: tuple[Axis, ...], start: int) -> None:
    size = _extent(nest, run)
    for value, place in ({**nest.reads, **nest.places}).items():
        flat = nest.axes.resolve([axis for dim in place for axis in dim])
        if not set(flat) & set(run):
            continue
        if not set(run) <= set(flat):
            raise NotOneNest(Code.MOVED, "it turns an axis of which another value has a part")
        old = _phase(nest, value, run)
        others = [p for p in nest.phases.get(value, ()) if nest.axes.resolve(p.axes) != run]
        new = _wrapped(old + start, size)
        nest.phases[value] = (*others, Phase(run, new, size)) if new else tuple(others)


def unify_phases(nest: Nest, node: Node, fresh: Collection[Value]) -> None:
    """Give the output of an elementwise node, and operands that are ``fresh``, the turns of the others.
    Raises NotOneNest if these differ."""
    values = [value for value in node.inputs if value is not None]
    union = {nest.axes.resolve(phase.axes): phase for value in values for phase in nest.phases.get(value, ())}
    for value in (*values, node.output):
        flat = set(nest.axes_of(nest.place_of(value)))
        found = [phase for run, phase in union.items() if flat & set(run)]
        if value is node.output or value in fresh:
            if any(not set(nest.axes.resolve(p.axes)) <= flat for p in found):
                raise NotOneNest(Code.MOVED, "an operand has a part of an axis that was turned")
            nest.phases[value] = tuple(found)
        elif _turns(nest, found) != _turns(nest, nest.phases.get(value, ())):
            raise NotOneNest(Code.MOVED, "two operands are turned differently around one axis")


def _turns(nest: Nest, phases: Sequence[Phase]) -> set[tuple[tuple[Axis, ...], int]]:
    return {(nest.axes.resolve(phase.axes), phase.start) for phase in phases}


def keep_phases(nest: Nest, node: Node, folded: Collection[Axis]) -> None:
    """Give the result of a reduction the turns of its operand. Raises NotOneNest if it folds one."""
    phases = nest.phases.get(node.operand(0), ())
    if any(set(nest.axes.resolve(phase.axes)) & set(folded) for phase in phases):
        raise NotOneNest(Code.MOVED, "it reduces over an axis that was turned")
    if phases:
        nest.phases[node.output] = phases


# ---- joined operands


def join(nest: Nest, node: Node) -> None:
    """Add a concatenation of parts of one size: which part is one more axis. Raises NotOneNest."""
    assert isinstance(node.op, JoinsOperands)
    operands = [value for value in node.inputs if value is not None]
    axis = node.op.axis % len(node.output.type.dims)
    if len({value.type.dims[axis] for value in operands}) > 1 or not 1 < len(operands) <= MOST_JOINED:
        raise NotOneNest(
            Code.JOINED, f"only 2 to {MOST_JOINED} operands of one size are joined inside of a region"
        )
    places = [nest.place_of(value) for value in operands]
    joined = list(places[0])
    for place in places[1:]:
        joined = [nest.axes.unify(a, b) if a and b else a or b for a, b in zip(joined, place, strict=True)]
    for value in operands:
        if value in nest.phases:
            raise NotOneNest(Code.JOINED, "it joins values that were turned")
        read_directly(nest, value)
        _repeat(nest, value)
    part = nest.axes.new(len(operands))
    joined[axis] = (part, *joined[axis])
    nest.places[node.output] = tuple(joined)
    nest.parts[part] = None


def _repeat(nest: Nest, value: Value) -> None:
    """Let ``value``, and what it is made of, be computed for each part. Raises NotOneNest if that costs."""
    pending = [value]
    for each in pending:
        node = each.producer
        is_loaded = each not in nest.places or each in nest.sources or each in nest.windows
        if is_loaded or each in nest.partial or node is None:
            continue
        if _is_costly(node):
            why = "a part that is costly would be computed again for each element of the others"
            raise NotOneNest(Code.JOINED, why)
        nest.partial[each] = None
        pending += [operand for operand in node.inputs if operand is not None]


def _is_costly(node: Node) -> bool:
    """Whether ``node`` is not to be computed again."""
    is_folded = Trait.REDUCTION in node.op.traits or isinstance(node.op, JoinsOperands)
    return is_folded or weight_of_node(node) > CHEAP


# ---- addresses


def terms_of(nest: Nest, value: Value) -> tuple[Value, tuple[Term, ...]] | None:
    """Whose memory holds ``value``, and where; None if it lies along its place. Raises NotOneNest."""
    phases = nest.phases.get(value, ())
    if value not in nest.windows and not phases:
        return None
    window = nest.windows.get(value)
    terms = window.terms if window else (Term(nest.axes_of(nest.place_of(value)), 1),)
    for phase in phases:
        run = nest.axes.resolve(phase.axes)
        terms = _with_run(nest, terms, run, Term(run, 1, phase.start, modulus=phase.size))
    return window.operand if window else value, terms

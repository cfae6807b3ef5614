"""Addresses of slices of operands and of rolled values, which are not contiguous along the loop axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphwright.ir.builtin.fused import Term
from graphwright.ir.graph import Value
from graphwright.ir.refusal import Code
from graphwright.loop_nests.axes import Axis, NotOneNest
from graphwright.loop_nests.nest import Nest


def address_terms(nest: Nest, value: Value) -> tuple[Value, tuple[Term, ...]] | None:
    """The value whose memory holds ``value``, and the address of an element in it; None if ``value`` has its
    own memory and no roll. Raises NotOneNest.
    """
    rolls = nest.rolls.get(value, ())
    if value not in nest.slices and not rolls:
        return None
    part = nest.slices.get(value)
    terms = part.terms if part else (Term(nest.axes_of(nest.axis_map_of(value)), 1),)
    for roll in rolls:
        run = nest.axes.resolve(roll.axes)
        terms = with_run(nest, terms, run, Term(run, 1, roll.start, modulus=roll.size))
    return part.operand if part else value, terms


def with_run(nest: Nest, terms: Sequence[Term], run: tuple[Axis, ...], by: Term) -> tuple[Term, ...]:
    """``terms`` with the index along the axes ``run`` computed as in ``by``. The stride of ``by`` is
    ignored.
    """
    if not run:
        return tuple(terms)
    replaced: list[Term] = []
    is_found = False
    for term in terms:
        axes = nest.axes.resolve(term.axes)
        at = find_run(axes, run)
        replaced += [term] if at is None else _replaced(nest, term, axes, at, run, by)
        is_found |= at is not None
    if not is_found:
        raise NotOneNest(Code.MOVED, "it moves an axis that has no constant stride")
    return tuple(replaced)


def find_run(axes: Sequence[Axis], run: Sequence[Axis]) -> int | None:
    """The position in ``axes`` at which ``run`` starts; None if ``run`` is not contiguous in ``axes``."""
    starts = range(len(axes) - len(run) + 1)
    return next((k for k in starts if tuple(axes[k : k + len(run)]) == tuple(run)), None)


def _replaced(
    nest: Nest, term: Term, axes: Sequence[Axis], at: int, run: Sequence[Axis], by: Term
) -> Iterator[Term]:
    """The terms that replace ``term``: the axes before the run, the run addressed by ``by``, and the axes
    after it.
    """
    before, after = tuple(axes[:at]), tuple(axes[at + len(run) :])
    if term.start == 0 and term.step == 1 and term.modulus == 0:
        stride = term.stride * nest.axes.extent(after)
        if before:
            yield Term(before, stride * nest.axes.extent(run))
        yield Term(by.axes, stride, by.start, by.step, by.modulus)
        if after:
            yield Term(after, term.stride)
        return
    if before or after or by.modulus != 0 or term.modulus != 0:
        raise NotOneNest(Code.MOVED, "it moves a part of an axis that was already moved")
    yield Term(by.axes, term.stride, term.start + term.step * by.start, term.step * by.step)

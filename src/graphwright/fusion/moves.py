"""Which moved elements a region loads and stores where they lie: those in runs, as a copy would move."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from graphwright.ir.graph import Value
from graphwright.ir.refusal import Code, Refusal
from graphwright.loop_nests.addresses import terms_of
from graphwright.loop_nests.axes import Axis
from graphwright.loop_nests.nest import Nest

SHORTEST_RUN: Final = 16
"""Elements that lie side by side in each access: a cache line of f32. Shorter ones cost more than a copy."""


def moves_refusal(nest: Nest, stored: Sequence[Value]) -> Refusal | None:
    """Why loads and stores of ``nest`` do not take over what moves elements among its nodes; None if what it
    loads, and what is ``stored``, lies in runs along the axis of its lanes. Raises NotOneNest where something
    has no address.
    """
    whole = {frozenset(nest.domain), frozenset(nest.domain) - frozenset(nest.reduced)}
    for value in stored:
        is_part = value in nest.windows or frozenset(nest.axes_of(nest.places[value])) not in whole
        if value in nest.partial and is_part:
            return Refusal(Code.PART_STORED, Code.PART_STORED.means)
    for run in _runs(nest, dict.fromkeys((*nest.direct, *stored))):
        elements = nest.axes.extent(run)
        if not isinstance(elements, int) or elements < SHORTEST_RUN:
            why = f"elements lie side by side in runs of {elements} along the innermost loop"
            return Refusal(Code.SHORT_RUNS, why)
    return None


def _runs(nest: Nest, values: Iterable[Value]) -> Iterator[Sequence[Axis]]:
    """The innermost axes along which each access to ``values`` goes that is not in the order of the loops."""
    for value in values:
        found = terms_of(nest, value)
        if found is None:
            walk = nest.axes_of(nest.place_of(value))
            if not _is_in_order(walk, nest.domain):
                yield _common_end(walk, nest.domain)
            continue
        lanes = nest.domain[-1:]  # none of a scalar
        if not any(axis in nest.axes.resolve(term.axes) for axis in lanes for term in found[1]):
            continue  # one element for all lanes
        last = found[1][-1]
        is_side_by_side = last.modulus == 0 and last.step == last.stride == 1
        yield _common_end(nest.axes.resolve(last.axes), nest.domain) if is_side_by_side else ()


def _is_in_order(walk: Sequence[Axis], loops: Sequence[Axis]) -> bool:
    """Whether ``walk`` takes the axes of ``loops`` in their order."""
    left = iter(loops)
    return all(axis in left for axis in walk)


def _common_end(walk: Sequence[Axis], loops: Sequence[Axis]) -> Sequence[Axis]:
    same = [a == b for a, b in zip(reversed(walk), reversed(loops), strict=False)]
    count = same.index(False) if False in same else len(same)
    return loops[len(loops) - count :]

"""Which data movement a region may absorb into its loads and stores: movement in runs of contiguous elements,
like a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from graphwright.ir.graph import Value
from graphwright.ir.refusal import Code, Refusal
from graphwright.loop_nests.addresses import address_terms
from graphwright.loop_nests.axes import Axis
from graphwright.loop_nests.nest import Nest

SHORTEST_RUN: Final = 16
"""The fewest contiguous elements per access: a cache line of f32. With shorter runs, a separate copy is
faster.
"""


def stored_parts_refusal(nest: Nest, stored: Iterable[Value]) -> Refusal | None:
    """Why ``nest`` cannot store the values ``stored``; None if each has an element for each iteration of the
    loops. Loops that a size of 0 leaves without iterations would not store a smaller one.
    """
    whole = {frozenset(nest.domain), frozenset(nest.domain) - frozenset(nest.reduced)}
    for value in filter(nest.partial.__contains__, stored):
        if value in nest.slices or frozenset(nest.axes_of(nest.axis_maps[value])) not in whole:
            return Refusal(Code.PART_STORED, Code.PART_STORED.means)
    return None


def moves_refusal(nest: Nest, stored: Sequence[Value]) -> Refusal | None:
    """Why loads and stores of ``nest`` cannot absorb the data movement among its nodes; None if all loaded
    values, and the values ``stored``, are in contiguous runs along the vectorized axis.

    Raises NotOneNest if an access has no affine address.
    """
    for run in _runs(nest, dict.fromkeys((*nest.loaded, *stored))):
        elements = nest.axes.extent(run)
        if not isinstance(elements, int) or elements < SHORTEST_RUN:
            why = f"moved elements are contiguous in runs of only {elements} along the innermost loop"
            return Refusal(Code.SHORT_RUNS, why)
    return None


def _runs(nest: Nest, values: Iterable[Value]) -> Iterator[Sequence[Axis]]:
    """For each access to ``values`` that does not follow the order of the loops, the innermost axes along
    which it is contiguous.
    """
    for value in values:
        found = address_terms(nest, value)
        if found is None:
            walk = nest.axes_of(nest.axis_map_of(value))
            if not _is_in_order(walk, nest.domain):
                yield _common_end(walk, nest.domain)
            continue
        lanes = nest.domain[-1:]  # empty for a scalar
        if not any(axis in nest.axes.resolve(term.axes) for axis in lanes for term in found[1]):
            continue  # a broadcast over the lanes
        last = found[1][-1]
        is_side_by_side = last.modulus == 0 and last.step == last.stride == 1
        yield _common_end(nest.axes.resolve(last.axes), nest.domain) if is_side_by_side else ()


def _is_in_order(walk: Sequence[Axis], loops: Sequence[Axis]) -> bool:
    """Whether ``walk`` is a subsequence of ``loops``."""
    left = iter(loops)
    return all(axis in left for axis in walk)


def _common_end(walk: Sequence[Axis], loops: Sequence[Axis]) -> Sequence[Axis]:
    same = [a == b for a, b in zip(reversed(walk), reversed(loops), strict=False)]
    count = same.index(False) if False in same else len(same)
    return loops[len(loops) - count :]

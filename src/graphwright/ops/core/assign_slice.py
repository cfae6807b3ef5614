"""Assigns to a slice by concatenations, as there is no op for it."""

from __future__ import annotations

from collections.abc import Mapping

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.symbols import Dim
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.slice import Slice


def assign_slice(b: Builder, x: Value, source: Value, starts: Mapping[int, int]) -> Value:
    """``x`` with ``source`` in place of the slice that begins at ``starts`` (by axis): concatenates what is
    before and after it along each of these axes, the last axis first.
    """
    bounds = {axis: (start, start + source.type.dims[axis]) for axis, start in starts.items()}

    def part(axis: int, first: Dim, end: Dim) -> list[Value]:
        if first == end:
            return []
        outer = {each: bounds[each] for each in bounds if each < axis}
        firsts, ends = zip(*outer.values(), (first, end), strict=True)
        return [b(Slice(firsts, ends, (*outer, axis), (1,) * len(firsts)), x)]

    result = source
    for axis in sorted(starts, reverse=True):
        start, end = bounds[axis]
        before, after = part(axis, 0, start), part(axis, end, x.type.dims[axis])
        result = b(Concat(axis), *before, result, *after) if before or after else result
    return result

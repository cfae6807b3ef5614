"""Prefetches of the rows that the next unit of a kernel walks.

A kernel that walks its rows in several passes interrupts the streams that the processor's own prefetchers
follow. It asks for the next rows itself, in the last pass of costly arithmetic, which hides the time of
memory: softmax over rows that are not in the cache takes 0.72 of the time, over others 0.98. Passes of cheap
arithmetic would take up to 1.4 of the time where rows are in the cache, and have no prefetches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from graphwright.cost.loops import FUNCTIONS
from graphwright.ir.loops.nodes import (
    Accumulate,
    Apply,
    Buffer,
    Index,
    Kind,
    Level,
    Load,
    Loop,
    Scalar,
    Statement,
    Store,
    walk,
)
from graphwright.ir.symbols import Dim, substitute, symbol
from graphwright.records import dataclass
from graphwright.targets.cpu.c.analysis import all_values
from graphwright.targets.cpu.c.dims import along, depends, strides_of

LINE: Final = 64
"""Bytes that one prefetch asks for."""
_COSTLY: Final = FUNCTIONS["exp_nonpositive"]
"""Operations of the least costly function that has time for prefetches."""


@dataclass(frozen=True)
class Prefetch:
    """The element of a later row that stands where the element at hand does."""

    buffer: Buffer
    index: tuple[Dim, ...]
    is_written: bool


def prefetches(unit: Sequence[Statement], rows: str) -> tuple[Loop, tuple[Prefetch, ...]] | None:
    """The pass of ``unit``, which the next step along the axis ``rows`` repeats for other rows, that is to
    ask for these, and what it asks for. None where nothing is to be gained.
    """
    passes = [loop for loop in unit if isinstance(loop, Loop) and loop.kind is Kind.VECTOR]
    costly = [loop for loop in passes if _is_costly(loop)]
    if len(passes) < 2 or not costly or any(isinstance(s, Loop) for p in passes for s in walk(p.body)):
        return None
    chosen = costly[-1]
    found: dict[tuple[str, tuple[Dim, ...]], Prefetch] = {}
    for each in passes:
        next_row = {rows: symbol(rows) + 1, each.axis: symbol(chosen.axis)}
        for buffer, index, is_written in _accesses(each):
            dims = [entry for entry in index if not isinstance(entry, Scalar)]
            if len(dims) < len(index) or not _walks_rows(buffer, dims, each.axis, rows):
                continue
            at = tuple(substitute(dim, next_row) for dim in dims)
            known = found.get((buffer.name, at))
            is_written = is_written or (known is not None and known.is_written)
            found[buffer.name, at] = Prefetch(buffer, at, is_written)
    return (chosen, tuple(found.values())) if found else None


def _is_costly(loop: Loop) -> bool:
    values = (value for statement in walk(loop.body) for value in all_values(statement))
    return any(isinstance(v, Apply) and FUNCTIONS.get(v.function, 1) >= _COSTLY for v in values)


def _accesses(loop: Loop) -> Iterator[tuple[Buffer, tuple[Index, ...], bool]]:
    for statement in walk(loop.body):
        for value in all_values(statement):
            if isinstance(value, Load):
                yield value.buffer, value.index, False
        if isinstance(statement, Store | Accumulate):
            yield statement.buffer, statement.index, True


def _walks_rows(buffer: Buffer, index: Sequence[Dim], axis: str, rows: str) -> bool:
    """Whether neighbours along ``axis`` are neighbours in memory, and other ``rows`` lie elsewhere."""
    if buffer.level is not Level.GLOBAL:
        return False
    offset: Dim = 0
    for entry, stride in zip(index, strides_of(buffer), strict=True):
        offset = offset + entry * stride
    moved = along(offset, axis)
    return moved is not None and moved.step == 1 and depends(offset, rows)

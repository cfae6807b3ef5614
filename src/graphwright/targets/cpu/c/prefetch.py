"""Software prefetches of the rows that the next unit of a kernel reads.

A kernel that reads long rows in several passes interrupts the streams that hardware prefetchers follow. It
prefetches the next rows itself, in the last pass with costly arithmetic, which hides the memory latency:
normalizations and softmax of rows of 2048 elements and more take 0.7 to 1.05 of the time. Hardware
prefetchers follow rows of at most 1024 elements, for which softmax with prefetches took 1.0 to 1.6 of the
time; only erf (GELU) is costly enough there (0.92 to 0.95). Passes with cheap arithmetic have no prefetches,
as they would take up to 1.4 of the time if rows are in the cache.
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
from graphwright.targets.cpu.c.dims import affine_in, depends, strides_of

LINE: Final = 64
"""The bytes of a cache line, which one prefetch loads."""
_SHORT_ROW: Final = 1024
"""The most elements of rows that hardware prefetchers follow."""
_COSTLY: Final = {False: FUNCTIONS["exp_nonpositive"], True: FUNCTIONS["erf"]}
"""The operations of the cheapest function that hides prefetches; the key is whether rows are short."""


@dataclass(frozen=True)
class Prefetch:
    """A prefetch of the element of a later row at the same position as the current element."""

    buffer: Buffer
    index: tuple[Dim, ...]
    is_written: bool


def prefetches(unit: Sequence[Statement], rows: str) -> tuple[Loop, tuple[Prefetch, ...]] | None:
    """The loop in ``unit`` that should prefetch the rows of the next step along the axis ``rows``, and its
    prefetches. None if prefetches do not pay off.
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
    least = _COSTLY[isinstance(loop.extent, int) and loop.extent <= _SHORT_ROW]
    values = (value for statement in walk(loop.body) for value in all_values(statement))
    return any(isinstance(v, Apply) and FUNCTIONS.get(v.function, 1) >= least for v in values)


def _accesses(loop: Loop) -> Iterator[tuple[Buffer, tuple[Index, ...], bool]]:
    for statement in walk(loop.body):
        for value in all_values(statement):
            if isinstance(value, Load):
                yield value.buffer, value.index, False
        if isinstance(statement, Store | Accumulate):
            yield statement.buffer, statement.index, True


def _walks_rows(buffer: Buffer, index: Sequence[Dim], axis: str, rows: str) -> bool:
    """Whether elements along ``axis`` are contiguous in memory, and the index depends on ``rows``."""
    if buffer.level is not Level.GLOBAL:
        return False
    offset: Dim = 0
    for entry, stride in zip(index, strides_of(buffer), strict=True):
        offset = offset + entry * stride
    moved = affine_in(offset, axis)
    return moved is not None and moved.step == 1 and depends(offset, rows)

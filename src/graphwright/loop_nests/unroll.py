"""Unrolls loops over rows, and copies statements with new names.

The latency of each sum and maximum bounds the time of a short row with reductions. An unrolled loop makes the
same pass over each of its rows before the next pass, so that a sum ends while other rows are read. The inner
loops are not fused, unlike in unroll-and-jam (Allen and Cocke, "A Catalogue of Optimizing Transformations",
1971): hardware prefetchers do not follow rows that are read in turns. The order of the elements within each
reduction stays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from graphwright.ir.loops.nodes import (
    Accumulate,
    Alloc,
    Buffer,
    Call,
    Index,
    Let,
    Level,
    Load,
    Loop,
    Position,
    Ref,
    Scalar,
    Statement,
    Store,
)
from graphwright.ir.loops.rewrite import map_children
from graphwright.ir.symbols import Dim, floordiv, substitute, symbol
from graphwright.records import dataclass, field, replace


def unroll_rows(loop: Loop, count: int, take: Callable[[str], str]) -> Loop:
    """Unroll ``loop`` by ``count``, which divides its extent: each statement or inner loop is followed by
    its copies for the other rows. ``take`` returns new names.

    The body must not contain microkernel calls, and the extents of inner loops must not depend on the axis of
    ``loop``.
    """
    copies = [_Copy({loop.axis: count * symbol(loop.axis) + k}, take, k == 0) for k in range(count)]
    body = tuple(copy.statement(statement) for statement in loop.body for copy in copies)
    return replace(loop, extent=loop.extent // count, body=body)


def unrolled(loop: Loop, buffers: Sequence[Mapping[str, Buffer]], take: Callable[[str], str]) -> Loop:
    """Unroll ``loop`` by the number of ``buffers``. Each entry maps the names of private buffers to the
    buffers of one copy.

    The result does not contain the remainder iterations.
    """
    count = len(buffers)
    copies = [
        _Copy({loop.axis: count * symbol(loop.axis) + k}, take, k == 0, buffers=dict(own))
        for k, own in enumerate(buffers)
    ]
    body = tuple(copy.statement(statement) for copy in copies for statement in loop.body)
    return replace(loop, extent=floordiv(loop.extent, count), body=body)


def copy_of(
    body: tuple[Statement, ...],
    axes: Mapping[str, Dim],
    buffers: Mapping[str, Buffer],
    take: Callable[[str], str],
) -> tuple[Statement, ...]:
    """A copy of ``body`` with the indices ``axes`` replaced by the given expressions, with new names."""
    copy = _Copy(dict(axes), take, first=False, buffers=dict(buffers))
    return tuple(map(copy.statement, body))


@dataclass
class _Copy:
    """One unrolled iteration: replaces the axis, and renames variables unless it is the first."""

    axes: dict[str, Dim]
    take: Callable[[str], str]
    first: bool
    lets: dict[str, str] = field(default_factory=dict)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    values: dict[int, tuple[Scalar, Scalar]] = field(default_factory=dict)
    """Copies of expressions by identity, because expressions share subexpressions. Each entry also holds the
    original, so that its identity stays unique.
    """

    def statement(self, statement: Statement) -> Statement:
        match statement:
            case Let(name, value):
                scalar = self.value(value)
                self.lets[name] = name if self.first else self.take(name)
                return Let(self.lets[name], scalar)
            case Alloc(buffer, fill):
                own = buffer if self.first else replace(buffer, name=self.take(buffer.name))
                self.buffers[buffer.name] = own
                return Alloc(own, fill)
            case Store(buffer, index, value, mask):
                return Store(self.buffer(buffer), self.index(index), self.value(value), self.mask(mask))
            case Accumulate(buffer, index, combiner, value, mask):
                at = self.index(index)
                return Accumulate(self.buffer(buffer), at, combiner, self.value(value), self.mask(mask))
            case Loop():
                return replace(statement, body=tuple(map(self.statement, statement.body)))
            case Call():
                raise TypeError(f"a {type(statement).__name__} cannot be copied")

    def buffer(self, buffer: Buffer) -> Buffer:
        return buffer if buffer.level is Level.GLOBAL else self.buffers.get(buffer.name, buffer)

    def index(self, index: tuple[Index, ...]) -> tuple[Index, ...]:
        return tuple(self.value(i) if isinstance(i, Scalar) else substitute(i, self.axes) for i in index)

    def mask(self, mask: Scalar | None) -> Scalar | None:
        return None if mask is None else self.value(mask)

    def value(self, value: Scalar) -> Scalar:
        if id(value) not in self.values:
            self.values[id(value)] = (value, self._value(value))
        return self.values[id(value)][1]

    def _value(self, value: Scalar) -> Scalar:
        match value:
            case Ref(name, dtype):
                return Ref(self.lets.get(name, name), dtype)
            case Position(index):
                return Position(substitute(index, self.axes))
            case Load(buffer, index, mask, other):
                return Load(self.buffer(buffer), self.index(index), self.mask(mask), other)
            case _:
                return map_children(value, self.value)

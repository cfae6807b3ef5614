"""The cache of GroupQueryAttention that holds only the last rows: those of the attention window, and some
before them.
"""

from __future__ import annotations

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer
from graphwright.ir.symbols import Dim
from graphwright.ops.contrib.attention import Heads
from graphwright.ops.core.binary import Add, GreaterOrEqual, Less, Max, Min, Mul, Sub
from graphwright.ops.core.concat import Concat
from graphwright.ops.core.div import Div
from graphwright.ops.core.gather_nd import GatherND
from graphwright.ops.core.range import Range
from graphwright.ops.core.transpose import Transpose
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.core.where import Where
from graphwright.ops.nn.attention import CANONICAL, HEADS_INSIDE

_NEVER = 1 << 40
"""The position of undefined rows: behind every query."""


class WindowedCache:
    """A cache of ``capacity`` rows, of which the first ones are the rows of the last tokens, in their order.

    If a row is missing, ``capacity - window + 1`` tokens are removed at once. ``past`` and ``ends`` are the
    numbers of tokens [B, 1] before and after this run, and ``rows`` the positions of the new tokens, [B, S].
    """

    def __init__(
        self, i: Importer, capacity: Dim, window: int, past: Value, ends: Value, rows: Value
    ) -> None:
        self._i, self._capacity, self._past, self._rows = i, capacity, past, rows
        self._surplus = self._integer(capacity - window + 1)
        count = self._resident(past)
        self._first = i.emit(Sub(), past, count)
        cached = self._range(capacity)
        is_valid = i.emit(Less(), cached, count)
        positions = i.emit(Where(), is_valid, i.emit(Add(), cached, self._first), self._integer(_NEVER))
        self.positions: Value = i.emit(Concat(1), positions, rows)
        """The position of each row of :meth:`appended`, [B, capacity + S]."""
        self._kept = self._kept_rows(ends)

    def _kept_rows(self, ends: Value) -> Value:
        """The rows of :meth:`appended` that the next cache consists of, [B, capacity, 1]."""
        i = self._i
        first = i.emit(Sub(), ends, self._resident(ends))
        positions = i.emit(Add(), self._range(self._capacity), first)
        new = i.emit(Add(), i.emit(Sub(), positions, self._past), self._integer(self._capacity))
        old = i.emit(Sub(), positions, self._first)
        rows = i.emit(Where(), i.emit(GreaterOrEqual(), positions, self._past), new, old)
        last = self._integer(self._capacity + self._rows.type.dims[1] - 1)
        kept: Value = i.emit(Unsqueeze((2,)), i.emit(Min(), rows, last))
        return kept

    def appended(self, cache: Value, new: Heads) -> Heads:
        """The rows of ``cache`` [B, N, capacity, H], followed by new ones."""
        return Heads(self._i.emit(Concat(2), cache, new.canonical(self._i)), CANONICAL)

    def next_cache(self, appended: Heads) -> Heads:
        """The rows that the next run receives."""
        i = self._i
        rows = i.emit(Transpose((0, 2, 1, 3)), appended.value)
        return Heads(i.emit(GatherND(1), rows, self._kept), HEADS_INSIDE)

    def _resident(self, tokens: Value) -> Value:
        """The number of rows that a cache holds after ``tokens`` tokens."""
        i = self._i
        excess = i.emit(Max(), i.emit(Sub(), tokens, self._integer(self._capacity)), self._integer(0))
        rounded = i.emit(Sub(), i.emit(Add(), excess, self._surplus), self._integer(1))
        removals = i.emit(Div(), rounded, self._surplus)
        count: Value = i.emit(Sub(), tokens, i.emit(Mul(), removals, self._surplus))
        return count

    def _range(self, count: Dim) -> Value:
        numbers: Value = self._i.emit(Range((0, count, 1)))
        return numbers

    def _integer(self, value: Dim) -> Value:
        """``value``, which may be symbolic, as a vector of one element."""
        if isinstance(value, int):
            return self._i.const(np.array([value]))
        vector: Value = self._i.emit(Range((value, value + 1, 1)))
        return vector

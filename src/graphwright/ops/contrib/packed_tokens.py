"""Sequences of several lengths, whose tokens are packed one after the other."""

from __future__ import annotations

from graphwright.ir.graph import Value
from graphwright.ir.op import Importer
from graphwright.ir.symbols import Dim
from graphwright.ir.types import I64
from graphwright.ops.core.binary import GreaterOrEqual, Sub
from graphwright.ops.core.cast import Cast
from graphwright.ops.core.gather import Gather
from graphwright.ops.core.range import Range
from graphwright.ops.core.reductions import ReduceSum
from graphwright.ops.core.slice import Slice
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.records import dataclass


@dataclass(frozen=True)
class Sequences:
    """Sequence b has the tokens from ``starts[b]`` to before ``ends[b]``. Token n is in sequence ``of[n]``,
    where it is number ``position[n]``. All are i64.
    """

    count: Dim
    starts: Value
    ends: Value
    of: Value
    position: Value


def sequences(i: Importer, bounds: Value, total: Dim) -> Sequences:
    """The sequences of ``total`` tokens; ``bounds``[B + 1] has the start of each, and the end of the last."""
    count, bounds = bounds.type.dims[0] - 1, i.emit(Cast(I64), bounds)
    starts, ends = (i.emit(Slice((k,), (count + k,), (0,), (1,)), bounds) for k in (0, 1))
    tokens = i.emit(Range((0, total, 1)))
    is_later = i.emit(GreaterOrEqual(), i.emit(Unsqueeze((1,)), tokens), ends)
    of = i.emit(ReduceSum((1,), keepdims=False), i.emit(Cast(I64), is_later))
    return Sequences(count, starts, ends, of, i.emit(Sub(), tokens, i.emit(Gather(0), starts, of)))

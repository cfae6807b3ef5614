"""Loop distribution: splits a chain of expensive functions, as in tanh(log(1 + exp(x))), into several loops.

A CPU overlaps only few iterations of a long chain, since one iteration fills the reorder buffer; and the
constants of all polynomials do not fit the registers. After distribution, each loop computes one function of
the chain for a block of vectors. Values that later loops need are kept in the L1 cache. K. Kennedy and K. S.
McKinley, "Loop distribution with arbitrary control flow" (1990).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from graphwright.cost.loops import FUNCTIONS
from graphwright.ir.loops.nodes import Apply, Let, Load, Ref, Scalar, Statement, Store
from graphwright.ir.loops.rewrite import map_children
from graphwright.ir.types import F32
from graphwright.records import dataclass, replace
from graphwright.targets.cpu.c.analysis import all_values

BLOCK: Final = 64
"""Vectors per block: 4 KiB for each value that a loop passes to a later one."""
_LONG: Final = FUNCTIONS["exp"]
"""A function with at least this many operations is expensive."""


@dataclass(frozen=True)
class DistributedLoop:
    """The statements of one loop. It reads values of earlier loops, and stores those
    that later loops read.
    """

    statements: tuple[Let | Store, ...]
    reads: tuple[str, ...]
    keeps: tuple[str, ...] = ()


def distributed(body: Sequence[Statement]) -> tuple[DistributedLoop, ...]:
    """The loops that ``body`` is split into, in order; empty if it stays one loop. Each loop computes the
    expensive functions of one depth, the number of expensive functions before them. Values of depth 0 are
    recomputed in each loop that reads them. The last loop has all stores, as a result may overwrite an
    operand.
    """
    simple = [s for s in body if isinstance(s, Let | Store)]
    stored = {s.buffer.name for s in simple if isinstance(s, Store)}
    if len(simple) < len(body) or not stored.isdisjoint(_loaded(simple)):
        return ()
    bound = _Bound()
    statements = [each for statement in simple for each in bound.statements(statement)]
    last = max(bound.depth.values(), default=0)
    if last < 2:
        return ()
    parts = [_part(statements, bound.depth, number, last) for number in range(1, last + 1)]
    read = {name for part in parts for name in part.reads}
    if any(s.value.dtype != F32 for s in statements if isinstance(s, Let) and s.name in read):
        return ()
    return tuple(
        replace(part, keeps=tuple(sorted(n for n in read if bound.depth[n] == number)))
        for number, part in enumerate(parts, start=1)
    )


def _part(
    statements: Sequence[Let | Store], depth: Mapping[str, int], number: int, last: int
) -> DistributedLoop:
    """Loop ``number`` of ``last``: the statements of this depth, and those of depth 0 that they need."""
    chosen: list[Let | Store] = []
    needed: set[str] = set()
    for statement in reversed(statements):
        own = depth[statement.name] if isinstance(statement, Let) else last
        if own == number or (own == 0 and isinstance(statement, Let) and statement.name in needed):
            chosen.append(statement)
            needed |= _names(statement)
    reads = sorted(name for name in needed if 0 < depth.get(name, 0) < number)
    return DistributedLoop(tuple(reversed(chosen)), tuple(reads))


def _loaded(statements: Sequence[Statement]) -> set[str]:
    """The names of the buffers that ``statements`` read."""
    return {v.buffer.name for s in statements for v in all_values(s) if isinstance(v, Load)}


def _names(statement: Statement) -> set[str]:
    return {value.name for value in all_values(statement) if isinstance(value, Ref)}


class _Bound:
    """Binds each expensive function to a name, and computes its depth."""

    def __init__(self) -> None:
        self.depth: dict[str, int] = {}
        """The depth of each bound name: the most expensive functions on a path to it, including itself."""
        self._rewritten: dict[int, tuple[Scalar, Scalar]] = {}
        """The rewritten form of each value, by identity; the value is kept alive with it."""
        self._lets: list[Let] = []
        self._name = ""

    def statements(self, statement: Let | Store) -> list[Let | Store]:
        """``statement`` after the bindings that it needs."""
        self._lets, self._name = [], statement.name if isinstance(statement, Let) else statement.buffer.name
        if isinstance(statement, Store):
            index = tuple(self._value(i) if isinstance(i, Scalar) else i for i in statement.index)
            mask = None if statement.mask is None else self._value(statement.mask)
            value = self._value(statement.value)
            return [*self._lets, Store(statement.buffer, index, value, mask)]
        value = map_children(statement.value, self._value)
        self._bind(statement.name, value)
        self._rewritten[id(statement.value)] = (statement.value, Ref(statement.name, value.dtype))
        return [*self._lets, Let(statement.name, value)]

    def _bind(self, name: str, value: Scalar) -> None:
        depths = (self.depth.get(each, 0) for each in _names(Let(name, value)))
        self.depth[name] = max(depths, default=0) + _is_long(value)

    def _value(self, value: Scalar) -> Scalar:
        """The rewritten ``value``: its name, if it is an expensive function."""
        if id(value) not in self._rewritten:
            bound = map_children(value, self._value)
            if _is_long(bound):
                name = f"{self._name}_part{len(self.depth)}"
                self._bind(name, bound)
                self._lets.append(Let(name, bound))
                bound = Ref(name, bound.dtype)
            self._rewritten[id(value)] = (value, bound)
        return self._rewritten[id(value)][1]


def _is_long(value: Scalar) -> bool:
    return isinstance(value, Apply) and value.dtype == F32 and FUNCTIONS.get(value.function, 1) >= _LONG

"""Analyses of the body of a vector loop: which values vary, the number of lanes, and the unroll factor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from graphwright.ir.loops.nodes import (
    Accumulate,
    Alloc,
    Apply,
    Bits,
    Cast,
    Const,
    Index,
    Kind,
    Let,
    Load,
    Loop,
    Position,
    Ref,
    Scalar,
    Statement,
    Store,
    walk,
)
from graphwright.ir.symbols import Dim, Symbol
from graphwright.ir.types import I64
from graphwright.targets.cpu.c.dims import affine_in, depends

COMPARISONS: Final = {"lt": "<", "le": "<=", "eq": "==", "ne": "!="}
"""Comparisons and their C operators."""


NUMBER_FIRST: Final = {"max": "most", "min": "least"}
"""Names of maximum and minimum as one instruction. The instruction returns its second operand if either is
NaN, so the first one must be a number (:func:`number_first`).
"""


def number_first(operands: tuple[Scalar, ...]) -> tuple[Scalar, Scalar] | None:
    """The operands of an extremum of floats, a number that is not NaN first; None if neither is one."""
    for number, other in (operands, operands[::-1]):
        if isinstance(number, Const) and number.dtype.is_float and number.value == number.value:
            return number, other
    return None


def children(value: Scalar) -> list[Scalar]:
    """The operands, gather indices and mask of ``value``."""
    match value:
        case Apply(_, operands):
            return list(operands)
        case Cast(operand) | Bits(operand):
            return [operand]
        case Load(_, index, mask):
            return [*(i for i in index if isinstance(i, Scalar)), *([mask] if mask is not None else [])]
        case _:
            return []


def parts(statement: Statement) -> list[Scalar]:
    """The values that ``statement`` itself computes."""
    match statement:
        case Let(_, value):
            return [value]
        case Store(_, index, value, mask) | Accumulate(_, index, _, value, mask):
            return [
                value,
                *(i for i in index if isinstance(i, Scalar)),
                *([mask] if mask is not None else []),
            ]
        case _:
            return []


def index_of(value: Scalar) -> Dim:
    """The index expression of a Position or an integer Const."""
    if isinstance(value, Position):
        return value.index
    assert isinstance(value, Const)
    return int(value.value)


def is_position_test(value: Apply) -> bool:
    """Whether ``value`` compares index expressions whose difference changes by a small constant step along
    each axis.
    """
    if value.function not in COMPARISONS or value.operands[0].dtype != I64:
        return False
    if not all(isinstance(o, Position | Const) for o in value.operands):
        return False
    difference = index_of(value.operands[1]) - index_of(value.operands[0])
    if isinstance(difference, int):
        return True
    return all(
        len(m) <= 1 and all(isinstance(a, Symbol) and p == 1 for a, p in m) and abs(c) < 1 << 16
        for m, c in difference.terms
        if m
    )


def lanes_of(loop: Loop, vector_bytes: int) -> int:
    """The lanes of a vector loop: as many elements of its widest varying value as fit in a register, where an
    element counts at least 4 bytes.
    """
    bound = {loop.axis}
    private = set[str]()
    seen: dict[int, bool] = {}
    wide: list[bool] = []

    def moving(value: Scalar) -> bool:
        """Whether ``value`` is a vector; records 64-bit ones in ``wide``."""
        if id(value) in seen:
            return seen[id(value)]
        if isinstance(value, Apply) and is_position_test(value):
            result = True
        else:
            inner = [moving(child) for child in children(value)]
            result = any(inner) or _moves_itself(value, bound, private)
            wide.append(result and value.dtype.bits == 64)
        seen[id(value)] = result
        return result

    for statement in walk(loop.body):
        if isinstance(statement, Alloc):
            private.add(statement.buffer.name)
            wide.append(statement.buffer.dtype.bits == 64)
        vectors = [moving(part) for part in parts(statement)]
        if isinstance(statement, Let) and any(vectors):
            bound.add(statement.name)
        if isinstance(statement, Store | Accumulate):
            wide.append(statement.buffer.dtype.bits == 64)
    return vector_bytes // (8 if any(wide) else 4)


def _moves_itself(value: Scalar, bound: set[str], private: set[str]) -> bool:
    match value:
        case Ref(name):
            return name in bound
        case Position(index):
            return any(depends(index, b) for b in bound)
        case Load(buffer, index):
            moved = any(depends(i, b) for i in index if not isinstance(i, Scalar) for b in bound)
            return moved or buffer.name in private
        case _:
            return False


def stores_may_wait(loop: Loop, lane_axis: str) -> bool:
    """Whether the stores of a few unrolled steps may follow all their loads: they are plain stores of
    contiguous lanes to buffers that no step reads. The compiler cannot prove this, and would not interleave
    the steps.
    """
    stores = [s for s in loop.body if isinstance(s, Store)]
    if any(not isinstance(s, Let | Store | Accumulate) for s in loop.body):
        return False
    for store in stores:
        last = store.index[-1] if store.index else 0
        if any(isinstance(i, Scalar) for i in store.index) or not _is_next(last, lane_axis):
            return False
    names = {s.buffer.name for s in stores}
    return not any(isinstance(v, Load) and v.buffer.name in names for s in loop.body for v in all_values(s))


def rows_inside(loop: Loop) -> Loop | None:
    """The loop over rows, of any number, that is the last statement of ``loop``, a loop over columns."""
    *before, last = loop.body
    if not isinstance(last, Loop) or last.kind is not Kind.SERIAL or isinstance(last.extent, int):
        return None
    return last if all(isinstance(s, Let) for s in before) else None


def _is_next(index: Index, axis: str) -> bool:
    """Whether ``index`` increases by one along ``axis``."""
    found = None if isinstance(index, Scalar) else affine_in(index, axis)
    return found is not None and found.step == 1


def all_values(statement: Statement) -> Iterator[Scalar]:
    """The values that ``statement`` itself computes, and all their operands."""
    stack = parts(statement)
    while stack:
        value = stack.pop()
        yield value
        stack += children(value)


_HEAVY: Final = frozenset(
    {
        "exp",
        "exp_nonpositive",
        "expm1",
        "log",
        "log1p",
        "log2",
        "log10",
        "sigmoid",
        "tanh",
        "erf",
        "erfc",
        "lgamma",
    }
    | {"sin", "cos", "tan", "pow", "div", "div_by_sum"}
    | {"sqrt", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"}
)


def unrolling(loop: Loop, private: set[str], chains: int) -> int:
    """The unroll factor. Several partial sums hide the latency of an accumulation; ``chains`` long dependency
    chains are interleaved, counting those already in the body, but only two if each has a partial sum.
    """
    if any(isinstance(s, Loop) for s in loop.body):
        return 1
    reduces = any(isinstance(s, Accumulate) and s.buffer.name not in private for s in loop.body)
    nodes = heavy = 0
    for node in (value for s in loop.body for value in all_values(s)):
        nodes += 1
        heavy += isinstance(node, Apply) and node.function in _HEAVY
        if nodes > 64:
            return 1
    if not reduces:
        return max(2, chains // max(1, sum(isinstance(s, Store) for s in loop.body))) if heavy else 1
    return 2 if heavy or nodes > 16 else 4

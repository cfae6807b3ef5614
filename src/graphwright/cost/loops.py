"""The work of a kernel in the loop IR: cycles of its vectorized loops, and bytes of its
operands.

A loop costs its trip count times the cost of an iteration; loop-invariant values are hoisted. Cycles were
fitted to measured times: ``python -m benchmarks.cost ops``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from graphwright.cost.machine import Machine
from graphwright.cost.predict import Work, predict, stream_ns
from graphwright.ir.loops.nodes import (
    Accumulate,
    Alloc,
    Apply,
    Bits,
    Buffer,
    Call,
    Cast,
    Const,
    Index,
    Kernel,
    Let,
    Load,
    Loop,
    Position,
    Ref,
    Scalar,
    Statement,
    Store,
    vectorizes,
    walk,
)
from graphwright.ir.symbols import (
    Dim,
    Expr,
    SymbolError,
    ceildiv,
    maximum,
    names_in,
    product,
    substitute,
    symbol,
    terms_of,
)

_UNITS: Final = 64
"""Units per cycle: costs are integers, as sizes can be symbolic."""
_OPERATION: Final = 40
"""A simple operation on 64 bytes, in units."""
_SCALAR: Final = 40
"""A simple operation on a single element."""
_PRODUCT: Final = 150
"""One vector of multiply-adds of a matrix product, with the loads that feed it."""
_SUM: Final = 6 * _UNITS
"""Loading and storing one vector of its sums."""
_COLUMN: Final = 5 * _UNITS
"""Reading one vector of its second operand, in columns of a tile."""
_TURN: Final = 32
"""Overhead per loop iteration."""
_ENTRY: Final = 10 * _UNITS
"""Overhead per loop entry and exit."""
_GATHERED: Final = 90
"""Loading one element from a computed address."""
_STRIDED: Final = 30
"""Loading one element of a strided vector."""

FUNCTIONS: Final = {
    **{"quantize": 4, "div": 8, "div_by_sum": 2, "sqrt": 9, "rem": 30, "mod": 30, "pow": 160, "atan2": 60},
    **{
        "exp": 15,
        "exp_nonpositive": 15,
        "expm1": 30,
        "log": 22,
        "log1p": 34,
        "sigmoid": 25,
        "tanh": 30,
        "erf": 34,
    },
    **{"log2": 60, "log10": 60, "erfc": 120, "lgamma": 160},
    **{"sin": 30, "cos": 30, "tan": 45, "asin": 34, "acos": 34, "atan": 27},
    **{"sinh": 50, "cosh": 42, "asinh": 84, "acosh": 70, "atanh": 56},
}
"""Functions that take several operations, with their number."""
_WIDE: Final = 5
"""A function on 64-bit elements takes _WIDE / 2 times as many operations, besides having half
as many lanes.
"""


def work_at(work: Work, sizes: Mapping[str, Dim]) -> Work:
    """``work`` of a kernel in its own size arguments (:func:`kernel_work`), with these
    substituted.

    If an expression would have too many terms, only the moved bytes count; if their sum has, the largest of
    its terms, such as the bytes of one operand.
    """
    try:
        moved = substitute(work.moved, sizes)
    except SymbolError:
        return Work(moved=maximum(*(substitute(Expr((term,)), sizes) for term in terms_of(work.moved))))
    try:
        return Work(cycles=substitute(work.cycles, sizes), moved=moved)
    except SymbolError:
        return Work(moved=moved)


def work_ns_at(work: Work, sizes: Mapping[str, Dim], machine: Machine) -> Dim:
    """The predicted time of :func:`work_at` on one core in nanoseconds. If it would have too many terms, only
    the moved bytes count.
    """
    there = work_at(work, sizes)
    try:
        return predict(there, machine)
    except SymbolError:
        return stream_ns(there.moved, machine)


def kernel_work(kernel: Kernel, machine: Machine) -> Work:
    """The work of ``kernel`` in its own size arguments. Buffers with computed indices count no
    bytes.

    If an expression would have too many terms, only the moved bytes count.
    """
    try:
        units = _Body(machine.vector_bytes).units(kernel.body)
    except SymbolError:
        units = 0
    gathered = {
        load.buffer.name for load in _loads(kernel.body) if any(isinstance(i, Scalar) for i in load.index)
    }
    moved = (product(b.shape) * b.dtype.bytes for b in kernel.parameters if b.name not in gathered)
    return Work(cycles=ceildiv(units, _UNITS), moved=sum(moved, start=0))


class _Body:
    """A loop body: its axis, the enclosing vector axis, and the number of lanes."""

    def __init__(self, vector_bytes: int, axis: str = "", lanes: int = 1, vector: str = "") -> None:
        self.vector_bytes, self.axis, self.lanes, self.vector = vector_bytes, axis, lanes, vector
        self._varying: set[str] = set()
        self._moving: dict[int, bool] = {}
        self._counted: set[int] = set()
        """Values that were already counted: shared values are computed once."""

    def units(self, body: Sequence[Statement]) -> Dim:
        """Units that one execution of ``body`` takes."""
        total: Dim = 0
        for statement in body:
            total += self._statement(statement)
            if isinstance(statement, Let) and self.moves(statement.value):
                self._varying.add(statement.name)
        return total

    def _statement(self, statement: Statement) -> Dim:
        match statement:
            case Loop():
                return self._loop(statement)
            case Let(_, value):
                return self._value(value)
            case Store(buffer, index, value, mask) | Accumulate(buffer, index, _, value, mask):
                return self._values(value, *index, mask) + self._access(buffer, index)
            case Alloc(buffer, fill):
                return 0 if fill is None else ceildiv(product(buffer.shape) * _OPERATION, 16)
            case Call(_, out, operands):
                lanes = self.vector_bytes // out.buffer.dtype.bytes
                rows, columns, terms = (
                    product(out.sizes[:-1]),
                    ceildiv(out.sizes[-1], lanes),
                    operands[0].sizes[-1],
                )
                return columns * (rows * (terms * _PRODUCT + _SUM) + terms * _COLUMN)

    def _loop(self, loop: Loop) -> Dim:
        vectors = vectorizes(loop)
        lanes = self.vector_bytes // _widest(loop) if vectors else 1
        vector = loop.axis if vectors else self.vector
        each = _Body(self.vector_bytes, loop.axis, max(lanes, self.lanes), vector).units(loop.body) + _TURN
        if loop.axis in names_in(each):  # the first tile is a full one
            each = substitute(each, {loop.axis: 0})
        return ceildiv(loop.extent, loop.step * lanes) * each + _ENTRY

    def moves(self, value: Scalar) -> bool:
        """Whether ``value`` changes between iterations."""
        if id(value) not in self._moving:
            self._moving[id(value)] = self._changes(value)
        return self._moving[id(value)]

    def _changes(self, value: Scalar) -> bool:
        match value:
            case Ref(name):
                return name in self._varying
            case Position(index):
                return self.axis in names_in(index)
            case Load(_, index, mask):
                return any(map(self._index_moves, index)) or (mask is not None and self.moves(mask))
            case Apply(_, operands):
                return any(map(self.moves, operands))
            case Cast(operand) | Bits(operand):
                return self.moves(operand)
        return False

    def _index_moves(self, index: Index) -> bool:
        return self.moves(index) if isinstance(index, Scalar) else self.axis in names_in(index)

    def _value(self, value: Scalar) -> int:
        """Units to compute ``value`` once, for all lanes."""
        if id(value) in self._counted or not self.moves(value):
            return 0
        self._counted.add(id(value))
        match value:
            case Load(buffer, index, mask):
                return self._values(*index, mask) + self._access(buffer, index)
            case Apply(function, operands):
                known = function == "pow" and isinstance(operands[1], Const)
                own = self._function("mul" if known else function, value.dtype.bits)
                return own + self._values(*operands)
            case Cast(operand, dtype):
                steps = 2 if dtype.bits != operand.dtype.bits else 1
                return steps * self._operation() + self._value(operand)
            case Bits(operand):
                return self._value(operand)
        return 0

    def _values(self, *parts: Scalar | Dim | None) -> int:
        """Units for those of ``parts`` that are values."""
        return sum(self._value(part) for part in parts if isinstance(part, Scalar))

    def _function(self, function: str, bits: int) -> int:
        if function not in FUNCTIONS:
            return self._operation()
        steps = FUNCTIONS[function] * (_WIDE if bits == 64 else 2) // 2
        return steps * (self._operation() if self.lanes > 1 else _SCALAR)

    def _operation(self) -> int:
        return _OPERATION * self.vector_bytes // 64 if self.lanes > 1 else _SCALAR

    def _access(self, buffer: Buffer, index: Sequence[Index]) -> int:
        """Units to load or store one element per lane."""
        if self.lanes == 1:
            return self._operation()
        if any(isinstance(i, Scalar) and self.moves(i) for i in index):
            return self.lanes * _GATHERED
        return self._operation() if self._is_contiguous(buffer, index) else self.lanes * _STRIDED

    def _is_contiguous(self, buffer: Buffer, index: Sequence[Index]) -> bool:
        """Whether lanes access adjacent elements, or all the same one."""
        moving = [k for k, i in enumerate(index) if isinstance(i, Expr) and self.vector in i.names]
        if not moving:
            return True
        last, dense = index[-1], buffer.strides is None or buffer.strides[-1] == 1
        return moving == [len(index) - 1] and dense and isinstance(last, Expr) and self._is_step(last)

    def _is_step(self, index: Expr) -> bool:
        """Whether ``index`` grows by one from lane to lane."""
        lane = symbol(self.vector).terms
        return all(term in lane or self.vector not in Expr((term,)).names for term in index.terms)


def _widest(loop: Loop) -> int:
    """Bytes per vector element: 8 if a 64-bit element is loaded or stored, else 4."""
    stores = (s.buffer for s in walk(loop.body) if isinstance(s, Store | Accumulate))
    buffers = (*stores, *(load.buffer for load in _loads((loop,))))
    return 8 if any(buffer.dtype.bits == 64 for buffer in buffers) else 4


def _loads(body: tuple[Statement, ...]) -> Iterator[Load]:
    for statement in walk(body):
        match statement:
            case Let(_, value):
                yield from _loads_of(value)
            case Store(_, index, value, mask) | Accumulate(_, index, _, value, mask):
                for part in (value, mask, *index):
                    if isinstance(part, Scalar):
                        yield from _loads_of(part)


def _loads_of(value: Scalar) -> Iterator[Load]:
    match value:
        case Load(_, index, mask):
            yield value
            for part in (*index, mask):
                if isinstance(part, Scalar):
                    yield from _loads_of(part)
        case Apply(_, operands):
            for operand in operands:
                yield from _loads_of(operand)
        case Cast(operand) | Bits(operand):
            yield from _loads_of(operand)

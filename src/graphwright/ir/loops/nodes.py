"""The loop IR: nested loops over statements that load, compute, store and accumulate.

Sizes and indices are :data:`~graphwright.ir.symbols.Dim` expressions, in which loop axes and size arguments
of the kernel are symbols: ``x[r, 2*c + 1]`` has the indices ``symbol("r")`` and ``2*symbol("c") + 1``. Values
are :class:`Scalar` expressions.

Statements run in order. Iterations of ``parallel``, ``vector`` and ``reduce`` loops are independent, except
for :class:`Accumulate`, whose order is not defined. Iterations of ``serial`` and ``tile`` loops run in order.
A load whose mask is false returns ``Load.other``; a store whose mask is false does nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from math import copysign

from graphwright.ir.loops.functions import FUNCTIONS
from graphwright.ir.symbols import Dim
from graphwright.ir.types import BOOL, I64, DType
from graphwright.records import dataclass


class Level(enum.StrEnum):
    """The memory of a buffer: global memory, the scratch memory of a thread, or registers."""

    GLOBAL = "global"
    CACHE = "cache"
    REGISTER = "register"


class Kind(enum.StrEnum):
    """How the iterations of a loop are executed."""

    PARALLEL = "parallel"
    SERIAL = "serial"
    REDUCE = "reduce"
    VECTOR = "vector"
    TILE = "tile"


@dataclass(frozen=True)
class Buffer:
    """A dense or strided array. ``strides`` are in elements; None is row-major."""

    name: str
    dtype: DType
    shape: tuple[Dim, ...]
    level: Level = Level.GLOBAL
    strides: tuple[Dim, ...] | None = None


class Scalar:
    """A scalar expression. Operators build :class:`Apply` nodes; a Python number gets the dtype of the other
    operand.
    """

    dtype: DType

    def __add__(self, other: Operand) -> Scalar:
        return apply("add", self, other)

    def __radd__(self, other: Operand) -> Scalar:
        return apply("add", other, self)

    def __sub__(self, other: Operand) -> Scalar:
        return apply("sub", self, other)

    def __rsub__(self, other: Operand) -> Scalar:
        return apply("sub", other, self)

    def __mul__(self, other: Operand) -> Scalar:
        return apply("mul", self, other)

    def __rmul__(self, other: Operand) -> Scalar:
        return apply("mul", other, self)

    def __truediv__(self, other: Operand) -> Scalar:
        return apply("div", self, other)

    def __rtruediv__(self, other: Operand) -> Scalar:
        return apply("div", other, self)

    def __neg__(self) -> Scalar:
        return apply("neg", self)

    def __lt__(self, other: Operand) -> Scalar:
        return apply("lt", self, other)

    def __le__(self, other: Operand) -> Scalar:
        return apply("le", self, other)

    def __gt__(self, other: Operand) -> Scalar:
        return apply("lt", other, self)

    def __ge__(self, other: Operand) -> Scalar:
        return apply("le", other, self)


@dataclass(frozen=True)
class Const(Scalar):
    """A literal. 0.0 and -0.0 are different literals."""

    value: float | int | bool
    dtype: DType

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[DType, float, float]:
        return self.dtype, self.value, copysign(1, self.value)


@dataclass(frozen=True)
class Ref(Scalar):
    """The value of the variable that a :class:`Let` of this name defines, or of a scalar argument."""

    name: str
    dtype: DType


@dataclass(frozen=True)
class Position(Scalar):
    """An index expression as an i64 value."""

    index: Dim
    dtype: DType = I64


Index = Dim | Scalar
"""An expression over axes and sizes, or an integer value for gathers, usually a Load."""


@dataclass(frozen=True)
class Load(Scalar):
    """Loads ``buffer[index]``. If ``mask`` is false, the value is ``other``, and memory is not accessed."""

    buffer: Buffer
    index: tuple[Index, ...]
    mask: Scalar | None = None
    other: float = 0.0

    @property
    def dtype(self) -> DType:  # type: ignore[override]  # derived here, a field elsewhere
        return self.buffer.dtype


@dataclass(frozen=True)
class Apply(Scalar):
    """A function of :data:`~graphwright.ir.loops.functions.FUNCTIONS`."""

    function: str
    operands: tuple[Scalar, ...]
    dtype: DType


@dataclass(frozen=True)
class Cast(Scalar):
    """Conversion to ``dtype``, as by ``astype`` in NumPy."""

    operand: Scalar
    dtype: DType


@dataclass(frozen=True)
class Bits(Scalar):
    """The bits of ``operand`` as a value of ``dtype``, which has the same number of bits."""

    operand: Scalar
    dtype: DType


Operand = Scalar | float | int | bool


def apply(function: str, *operands: Operand) -> Scalar:
    """``function(*operands)``. The operands must have the same dtype, except the condition of ``select``."""
    known = FUNCTIONS[function]
    if len(operands) != known.arity:
        raise TypeError(f"{function} takes {known.arity} operands, not {len(operands)}")
    start = 1 if function == "select" else 0
    dtypes = {o.dtype for o in operands[start:] if isinstance(o, Scalar)}
    if len(dtypes) != 1:
        raise TypeError(f"{function}: operands of {', '.join(sorted(map(str, dtypes))) or 'no dtype'}")
    (dtype,) = dtypes
    scalars = tuple(o if isinstance(o, Scalar) else Const(o, dtype) for o in operands)
    return Apply(function, scalars, BOOL if known.predicate else dtype)


def cast(value: Scalar, dtype: DType) -> Scalar:
    """``value`` converted to ``dtype``. A conversion that only widened a ``dtype`` value is undone."""
    if value.dtype == dtype:
        return value
    if isinstance(value, Cast) and value.operand.dtype == dtype and value.dtype == dtype.computed:
        return value.operand
    return Const(value.value, dtype) if isinstance(value, Const) and dtype.is_float else Cast(value, dtype)


def bits(value: Scalar, dtype: DType) -> Scalar:
    """The bits of ``value`` as a value of ``dtype``."""
    if value.dtype.bits != dtype.bits:
        raise TypeError(f"{value.dtype} and {dtype} have {value.dtype.bits} and {dtype.bits} bits")
    return Bits(value, dtype)


def select(condition: Scalar, true: Operand, false: Operand) -> Scalar:
    """``true`` if ``condition`` holds, else ``false``."""
    return apply("select", condition, true, false)


def maximum(a: Operand, b: Operand) -> Scalar:
    """The larger operand; NaN if one is NaN."""
    return apply("max", a, b)


def minimum(a: Operand, b: Operand) -> Scalar:
    """The smaller operand; NaN if one is NaN."""
    return apply("min", a, b)


@dataclass(frozen=True)
class Let:
    """Defines the variable ``name`` for the rest of the enclosing body."""

    name: str
    value: Scalar


@dataclass(frozen=True)
class Alloc:
    """Allocates a cache or register buffer for the rest of the enclosing body, and fills it with ``fill``."""

    buffer: Buffer
    fill: float | int | None = None


@dataclass(frozen=True)
class Store:
    """Stores ``buffer[index] = value`` if ``mask`` holds."""

    buffer: Buffer
    index: tuple[Index, ...]
    value: Scalar
    mask: Scalar | None = None


@dataclass(frozen=True)
class Accumulate:
    """Stores ``buffer[index] = combiner(buffer[index], value)`` with add, mul, max, min, and, or."""

    buffer: Buffer
    index: tuple[Index, ...]
    combiner: str
    value: Scalar
    mask: Scalar | None = None


@dataclass(frozen=True)
class Tile:
    """A rectangle ``buffer[offset : offset + size, ...]`` as a matrix. Axes of static size 1 are dropped from
    the left until two axes remain.
    """

    buffer: Buffer
    offsets: tuple[Dim, ...]
    sizes: tuple[Dim, ...]
    transposed: bool = False


@dataclass(frozen=True)
class Call:
    """Calls a microkernel on matrices: ``matmul`` computes ``out += a @ b``."""

    microkernel: str
    out: Tile
    operands: tuple[Tile, ...]


@dataclass(frozen=True)
class Loop:
    """``for axis in range(0, extent, step)``. The body of a ``tile`` loop handles all indices of its step."""

    axis: str
    kind: Kind
    extent: Dim
    body: tuple[Statement, ...]
    step: int = 1


Statement = Let | Alloc | Store | Accumulate | Call | Loop


@dataclass(frozen=True)
class Kernel:
    """A kernel: its parameters (global buffers, inputs before outputs), size arguments, and body. ``scalars``
    are f32 arguments, passed after the sizes, which :class:`Ref` reads.

    Nested parallel loops at the top of the body are the grid. If the body has several statements, there is a
    barrier between them.
    """

    name: str
    parameters: tuple[Buffer, ...]
    sizes: tuple[str, ...]
    body: tuple[Statement, ...]
    scalars: tuple[str, ...] = ()


def walk(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    """All statements, outer before inner."""
    for statement in statements:
        yield statement
        if isinstance(statement, Loop):
            yield from walk(statement.body)


def vectorizes(loop: Loop) -> bool:
    """Whether vectors of iterations of ``loop`` can be computed: it is a vector loop, and contains no other
    vector loop and no microkernel.
    """
    return loop.kind is Kind.VECTOR and not any(
        isinstance(s, Call) or (isinstance(s, Loop) and s.kind is Kind.VECTOR) for s in walk(loop.body)
    )


def written(kernel: Kernel) -> set[str]:
    """The names of the buffers to which the kernel stores."""
    names = set()
    for statement in walk(kernel.body):
        if isinstance(statement, Store | Accumulate):
            names.add(statement.buffer.name)
        elif isinstance(statement, Call):
            names.add(statement.out.buffer.name)
    return names

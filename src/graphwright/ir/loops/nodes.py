"""The loop IR of one kernel: nested axes over statements that load, compute, store and accumulate.

Sizes, axes and indices are :data:`~graphwright.ir.symbols.Dim` expressions: an axis is the symbol of its
name, a size that the kernel takes as argument is a symbol as well, so ``x[r, 2*c + 1]`` indexes with
``symbol("r")`` and ``2*symbol("c") + 1``. Values are :class:`Scalar` trees. A block is what a vector axis
makes of a scalar.

Meaning (``interpret`` defines it): statements run in order. Iterations of ``parallel`` and ``vector`` loops
are independent but for :class:`Accumulate`, whose order is free; ``reduce`` loops likewise; ``serial`` and
``tile`` loops run in order. Reading a masked-off element gives ``Load.other``; writing one does nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

from graphwright.ir.loops.functions import FUNCTIONS
from graphwright.ir.symbols import Dim
from graphwright.ir.types import BOOL, I64, DType
from graphwright.records import dataclass


class Level(enum.StrEnum):
    """Where a buffer lives: memory that outlives the kernel, a thread's scratch, or registers."""

    GLOBAL = "global"
    CACHE = "cache"
    REGISTER = "register"


class Kind(enum.StrEnum):
    """How the iterations of a loop relate."""

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
    """A value of one iteration. Operators build :class:`Apply`; Python numbers take the other operand's
    dtype."""

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
    """A literal."""

    value: float | int | bool
    dtype: DType


@dataclass(frozen=True)
class Ref(Scalar):
    """The value bound by the :class:`Let` of that name."""

    name: str
    dtype: DType


@dataclass(frozen=True)
class Position(Scalar):
    """An index expression as a value (i64)."""

    index: Dim
    dtype: DType = I64


Index = Dim | Scalar
"""Affine (a Dim over axes and sizes) or gathered (an integer Scalar, usually a Load)."""


@dataclass(frozen=True)
class Load(Scalar):
    """``buffer[index]``; where ``mask`` is false, ``other``, and memory is not touched."""

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
    """Conversion as NumPy's ``astype`` does it."""

    operand: Scalar
    dtype: DType


@dataclass(frozen=True)
class Bits(Scalar):
    """The bits of an element of ``operand``'s dtype, read as ``dtype`` of as many."""

    operand: Scalar
    dtype: DType


Operand = Scalar | float | int | bool


def apply(function: str, *operands: Operand) -> Scalar:
    """``function(*operands)``. Operands must agree in dtype (``select``: all but the condition)."""
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
    """``value`` as ``dtype``; itself if it is one, and what was ``dtype`` before it was widened."""
    if value.dtype == dtype:
        return value
    if isinstance(value, Cast) and value.operand.dtype == dtype and value.dtype == dtype.computed:
        return value.operand
    return Const(value.value, dtype) if isinstance(value, Const) and dtype.is_float else Cast(value, dtype)


def bits(value: Scalar, dtype: DType) -> Scalar:
    """The bits of ``value`` as ``dtype``."""
    if value.dtype.bits != dtype.bits:
        raise TypeError(f"{value.dtype} and {dtype} have {value.dtype.bits} and {dtype.bits} bits")
    return Bits(value, dtype)


def select(condition: Scalar, true: Operand, false: Operand) -> Scalar:
    """``true`` where ``condition`` (bool) holds, else ``false``."""
    return apply("select", condition, true, false)


def maximum(a: Operand, b: Operand) -> Scalar:
    """The larger; NaN if either is."""
    return apply("max", a, b)


def minimum(a: Operand, b: Operand) -> Scalar:
    """The smaller; NaN if either is."""
    return apply("min", a, b)


@dataclass(frozen=True)
class Let:
    """Bind ``name`` to ``value`` for the rest of the enclosing body."""

    name: str
    value: Scalar


@dataclass(frozen=True)
class Alloc:
    """A buffer of level cache or register for the rest of the enclosing body; filled if ``fill`` is given."""

    buffer: Buffer
    fill: float | int | None = None


@dataclass(frozen=True)
class Store:
    """``buffer[index] = value`` where ``mask`` holds."""

    buffer: Buffer
    index: tuple[Index, ...]
    value: Scalar
    mask: Scalar | None = None


@dataclass(frozen=True)
class Accumulate:
    """``buffer[index] = combiner(buffer[index], value)``; combiners: add, mul, max, min, and, or."""

    buffer: Buffer
    index: tuple[Index, ...]
    combiner: str
    value: Scalar
    mask: Scalar | None = None


@dataclass(frozen=True)
class Tile:
    """A rectangle ``buffer[offset : offset + size, ...]``; axes of literal size 1 are dropped, leftmost
    first, until two remain; then ``transposed``.
    """

    buffer: Buffer
    offsets: tuple[Dim, ...]
    sizes: tuple[Dim, ...]
    transposed: bool = False


@dataclass(frozen=True)
class Call:
    """A microkernel on 2-D tiles: ``matmul`` is ``out += a @ b``."""

    microkernel: str
    out: Tile
    operands: tuple[Tile, ...]


@dataclass(frozen=True)
class Loop:
    """``for axis in range(0, extent, step)``; a ``tile`` loop's body handles ``[axis, min(axis + step,
    extent))``."""

    axis: str
    kind: Kind
    extent: Dim
    body: tuple[Statement, ...]
    step: int = 1


Statement = Let | Alloc | Store | Accumulate | Call | Loop


@dataclass(frozen=True)
class Kernel:
    """Parameters (global buffers, inputs before outputs), size symbols taken as arguments, and the body.

    Nested parallel loops at the top of the body are the grid. Several top-level statements are phases with a
    barrier between.
    """

    name: str
    parameters: tuple[Buffer, ...]
    sizes: tuple[str, ...]
    body: tuple[Statement, ...]


def walk(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    """All statements, outer before inner."""
    for statement in statements:
        yield statement
        if isinstance(statement, Loop):
            yield from walk(statement.body)


def written(kernel: Kernel) -> set[str]:
    """Names of the buffers that the kernel stores to."""
    names = set()
    for statement in walk(kernel.body):
        if isinstance(statement, Store | Accumulate):
            names.add(statement.buffer.name)
        elif isinstance(statement, Call):
            names.add(statement.out.buffer.name)
    return names

"""What several ops share: imports, checks of types, and arithmetic on known elements."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, partial, wraps
from math import prod
from typing import Any, ClassVar

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Import, Importer, Inference, Op, Trait, UnknownRank
from graphwright.ir.symbols import Dim, SymbolTable, product
from graphwright.ir.types import (
    BF16,
    BOOL,
    DTYPES,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    DType,
    TensorType,
)

FLOATS = frozenset({F16, BF16, F32, F64})
SIGNED = frozenset({I8, I16, I32, I64})
UNSIGNED = frozenset({U8, U16, U32, U64})
INTEGERS = SIGNED | UNSIGNED
NUMBERS = FLOATS | INTEGERS
LOGICAL = frozenset({BOOL})

MAX_ELEMENTS = 256
"""Beyond this many, the elements of an integer tensor are not tracked: no shape is that long."""
EXACT = 2**24
"""Integers up to this one are exact in f32; sizes are taken to stay below it on their way through floats."""


def simple(factory: Callable[[], Op]) -> Import:
    """Import as ``factory()`` with all inputs in their order."""
    return lambda i: i.emit(factory(), *i.inputs())


def with_attributes(cls: type[Op]) -> Import:
    """Import as ``cls`` with all inputs; a field is the attribute of its name, as the type of the default."""

    def convert(i: Importer) -> Any:
        values = {name: type(each)(i.attr(name, each)) for name, each in cls.attribute_defaults.items()}
        return i.emit(cls(**values), *i.inputs())

    return convert


def chain(i: Importer, op: Op) -> Value:
    """``op`` folded over all inputs, from the left."""
    first, *rest = (i.input(index) for index in range(len(i.inputs())))
    for value in rest:
        first = i.emit(op, first, value)
    return first


_ONNX_DTYPES = (
    "", "f32", "u8", "i8", "u16", "i16", "i32", "i64", "string", "bool", "f16", "f64", "u32", "u64", "c64",
    "c128", "bf16", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "u4", "i4", "f4e2m1", "f8e8m0",
    "u2", "i2",
)  # fmt: skip
"""Names by ONNX's ``TensorProto.DataType`` number."""


def dtype_attribute(i: Importer, value: Any) -> DType:
    """An attribute that stands for a dtype: ONNX's number, a name, or a DType; else a diagnostic."""
    if isinstance(value, int) and 0 < value < len(_ONNX_DTYPES):
        value = _ONNX_DTYPES[value]
    name = str(value)
    if name not in DTYPES:
        raise i.fail(f"{name} is not a supported dtype", hint="use a dtype of opset 27 or older")
    return DTYPES[name]


def need_dtype(at: Inference, fact: Fact, allowed: Collection[DType], what: str = "the input") -> None:
    """Refuse a dtype that is not in ``allowed``."""
    if fact.dtype not in allowed:
        *others, last = sorted(map(str, allowed))
        choice = f"{', '.join(others)} or {last}" if others else last
        raise at.fail(f"{what} is {fact.dtype}; it must be {choice}")


def need_scalar(at: Inference, fact: Fact, what: str) -> None:
    """Refuse all but one element: a scalar, or a vector of one; an open size of a vector must be 1."""
    if fact.shape in ((), (1,)):
        return
    if fact.rank != 1 or isinstance(fact.shape[0], int):
        raise at.fail(f"{what} is {fact.type}; it must be a scalar")
    at.equal(fact.shape[0], 1, f"elements of {what}, which must be a scalar")


def same_dtype(at: Inference, *facts: Fact) -> DType:
    """The dtype of all ``facts``; refuses a mixture."""
    dtypes = {fact.dtype: None for fact in facts}
    if len(dtypes) > 1:
        raise at.fail(f"operands of {' and '.join(map(str, dtypes))}: they must have one dtype")
    return facts[0].dtype


def known_size(dims: Sequence[Dim]) -> int | None:
    """Number of elements of a shape without negative sizes that is small enough to track; None otherwise."""
    if any(isinstance(dim, int) and dim < 0 for dim in dims):
        return None
    size = product(tuple(dims))
    return size if isinstance(size, int) and size <= MAX_ELEMENTS else None


MAX_PARTIAL = 16
"""Elements of which some may be known alone: as many as a shape has."""


def parts_of(facts: Sequence[Fact]) -> list[tuple[Dim | None, ...]] | None:
    """Elements of each fact as far as they are known; None where too little is to be worth more thought."""
    if all(fact.elements is not None for fact in facts):
        return [fact.elements or () for fact in facts]
    if all(fact.elements is None and fact.partial_elements is None for fact in facts):
        return None
    parts = [fact.partial_elements if fact.elements is None else fact.elements for fact in facts]
    sizes = [known_size(fact.type.shape) if fact.type.shape is not None else None for fact in facts]
    if any(
        part is None and (size is None or size > MAX_PARTIAL) for part, size in zip(parts, sizes, strict=True)
    ):
        return None
    return [(None,) * (size or 0) if part is None else part for part, size in zip(parts, sizes, strict=True)]


def fact_of_parts(type: TensorType, parts: Sequence[Dim | None]) -> Fact | TensorType:
    """``type`` with the elements that are known of it."""
    if all(part is None for part in parts):
        return Fact(type, ()) if not parts else type
    if any(part is None for part in parts):
        return Fact(type, partial_elements=tuple(parts)) if len(parts) <= MAX_PARTIAL else type
    return Fact(type, tuple(part for part in parts if part is not None))


def broadcast_elements(facts: Sequence[Fact], shape: Sequence[Dim]) -> list[tuple[Dim | None, ...]] | None:
    """The operands' elements that meet at each place of ``shape``, in row-major order, None for those that
    are not known; None if that is too little.
    """
    parts = None if known_size(shape) is None else parts_of(facts)
    if parts is None:
        return None
    columns = [list(_spread(part, fact.shape, shape)) for part, fact in zip(parts, facts, strict=True)]
    return list(zip(*columns, strict=True))


def size_fact(symbols: SymbolTable, fact: Fact) -> Fact | None:
    """``fact`` if its elements are known integers >= 0, be their dtype a float; None otherwise."""
    elements = fact.elements
    if elements is None and fact.data is not None and fact.dtype.is_float and fact.data.size <= MAX_ELEMENTS:
        values = fact.data.astype(np.float64).ravel()
        if np.all((values >= 0) & (values <= EXACT) & (values == np.floor(values)) & ~np.signbit(values)):
            elements = tuple(int(value) for value in values)
    if elements is None or not all(symbols.proves_at_least(element, 0) for element in elements):
        return None
    return Fact(fact.type, elements, fact.data)


def _spread(elements: Sequence[Dim | None], own: Sequence[Dim], shape: Sequence[Dim]) -> Iterator[Dim | None]:
    index = np.arange(len(elements)).reshape(_plain(own))
    for position in np.broadcast_to(index, _plain(shape)).ravel():
        yield elements[int(position)]


def _plain(dims: Sequence[Dim]) -> list[int]:
    return [d for d in dims if isinstance(d, int)]


def elementwise_fact(
    type: TensorType, facts: Sequence[Fact], function: Callable[..., Dim | None] | None, chooses: bool = False
) -> TensorType | Fact:
    """``type``, with the elements that ``function`` of the operands' elements knows.

    Where one of those is not known the result is not, unless the function ``chooses`` among its operands.
    """
    if function is None or type.dtype.kind not in ("int", "uint", "bool", "float") or type.shape is None:
        return type
    if type.dtype.is_float and type.dtype.bits < 32:
        return type
    rows = broadcast_elements(facts, type.shape)
    if rows is None:
        return type
    elements = [function(*row) if chooses or None not in row else None for row in rows]
    fit = [e if e is None or _fits(e, type.dtype) else None for e in elements]
    return fact_of_parts(type, fit)


def _fits(value: Dim, dtype: DType) -> bool:
    """Whether ``value`` is exact in ``dtype``: what wraps or rounds is left to folding, and so is a size that
    is not known where it might: a size may be larger than narrow integers, and differences may be negative.
    """
    if not isinstance(value, int):
        return dtype.kind in ("bool", "float") or (dtype.kind == "int" and dtype.bits >= 32)
    if dtype.kind == "bool":
        return value in (0, 1)
    if dtype.is_float:
        return 0 <= value <= EXACT
    low, high = (
        (0, 1 << dtype.bits) if dtype.kind == "uint" else (-(1 << dtype.bits - 1), 1 << dtype.bits - 1)
    )
    return low <= value < high


def resolve_axes(at: Inference, axes: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """``axes`` counted from the front, sorted, refusing repetitions; None is all of them."""
    if axes is None:
        return tuple(range(rank))
    resolved = [at.axis(axis, rank) for axis in axes]
    if len(set(resolved)) != len(resolved):
        raise at.fail(f"axes {tuple(axes)} name an axis twice")
    return tuple(sorted(resolved))


def positive_axes(axes: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """``axes`` of a reference: counted from the front; None is all of them."""
    return tuple(range(rank)) if axes is None else tuple(axis % max(rank, 1) for axis in axes)


def like(array: Any, model: Array) -> Array:
    """``array`` as an ndarray of ``model``'s dtype: undoes NumPy's scalars and promotions."""
    return np.asarray(array, dtype=model.dtype)


def zero_of(array: Array) -> Any:
    """What stands for nothing among the elements of ``array``: 0, or an empty string."""
    return "" if array.dtype == object else array.dtype.type(0)


def rank_of(value: Value) -> int:
    """The rank of a graph's value; UnknownRank where it is not known: decomposing waits for shapes."""
    if value.type.shape is None:
        raise UnknownRank
    return len(value.type.shape)


def quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` without NumPy's warnings: NaN and infinity are results like any other."""

    @wraps(function)
    def silent(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*arguments)

    return silent


def mean_over(array: Array, axes: tuple[int, ...]) -> Array:
    """The mean along ``axes``, which are kept; NaN of no elements, without the warning of NumPy's mean."""
    total = array.sum(axis=axes, keepdims=True, dtype=array.dtype)
    return np.asarray(total / array.dtype.type(prod(array.shape[axis] for axis in axes)))


def widened(array: Array) -> Array:
    """16-bit floats as f32, in which sums of them are formed; others as they are."""
    return array.astype(np.float32) if array.dtype.name in ("float16", "bfloat16") else array


@cache
def _operand_count(expression: Callable[..., object]) -> int | None:
    """How many operands a method ``expression`` takes; None for any number."""
    parameters = list(inspect.signature(expression).parameters.values())[1:]
    is_open = any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters)
    return None if is_open else len(parameters)


class Pointwise(Op):
    """Base of elementwise ops: operands of one dtype broadcast to the output."""

    traits = Trait.ELEMENTWISE
    dtypes: ClassVar[frozenset[DType]] = FLOATS
    gives: ClassVar[DType | None] = None
    """The output's dtype; None is that of the operands."""

    def infer(self, at: Inference, *operands: Fact) -> TensorType | Fact:
        needed = _operand_count(self.__class__.expression)
        if needed is not None and len(operands) != needed:
            raise at.fail(f"{needed} operands are needed, {len(operands)} are given")
        dtype = same_dtype(at, *operands)
        need_dtype(at, operands[0], self.dtypes, "the operand")
        if len(operands) == 1:
            shape = operands[0].type.shape
        else:
            shape = at.broadcast(*(operand.shape for operand in operands))
        type = TensorType(self.gives or dtype, shape)
        if not dtype.is_float:
            return elementwise_fact(type, operands, partial(self.known, at.symbols))
        if any(operand.elements is None and operand.data is None for operand in operands):
            return type
        sizes = [
            fact for fact in (size_fact(at.symbols, operand) for operand in operands) if fact is not None
        ]
        if len(sizes) < len(operands):
            return type
        return elementwise_fact(type, sizes, partial(self.known_real, at.symbols))

    def known(self, symbols: SymbolTable, *elements: Dim) -> Dim | None:
        """One element of an integer or bool output from those of the operands; None if it cannot be told."""
        return None

    def known_real(self, symbols: SymbolTable, *elements: Dim) -> Dim | None:
        """:meth:`known` for float operands that hold integers >= 0: sizes, on their way to be scaled."""
        return None


def need_broadcast(at: Inference, fact: Fact, shape: Sequence[Dim], what: str) -> None:
    """Refuse a shape that does not broadcast to ``shape`` as it stands."""
    if fact.rank > len(shape):
        raise at.fail(f"{what} has {fact.rank} axes, but broadcasts to {len(shape)}")
    for have, want in zip(reversed(fact.shape), reversed(shape), strict=False):
        at.require_broadcast(have, want, f"a size of {what}")

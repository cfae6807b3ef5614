"""Helpers of many ops: imports, checks of types, and inference of elements."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, partial, wraps
from math import prod
from typing import Any, ClassVar

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Import, Importer, Inference, Op, Trait, UnknownRank
from graphwright.ir.symbols import Dim, SymbolTable, numbers, product
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
"""The elements of larger integer tensors are not tracked during inference: no shape has so many."""
EXACT = 2**24
"""Every integer up to this one is exact in f32. Sizes that models compute in floats are assumed to be
smaller."""


def simple(factory: Callable[[], Op]) -> Import:
    """Import as the op ``factory()`` on all inputs, in their order; attributes are ignored."""
    return lambda i: i.emit(factory(), *i.inputs())


def with_attributes(cls: type[Op]) -> Import:
    """Import as ``cls`` on all inputs. Each field is the ONNX attribute of the same name, converted to the
    type of the field's default.
    """

    def convert(i: Importer) -> Any:
        values = {name: type(each)(i.attr(name, each)) for name, each in cls.attribute_defaults.items()}
        return i.emit(cls(**values), *i.inputs())

    return convert


def chain(i: Importer, op: Op) -> Value:
    """The binary ``op`` applied to all inputs from left to right: ``op(op(x0, x1), x2)``."""
    first, *rest = (i.input(index) for index in range(len(i.inputs())))
    for value in rest:
        first = i.emit(op, first, value)
    return first


_ONNX_DTYPES = (
    "", "f32", "u8", "i8", "u16", "i16", "i32", "i64", "string", "bool", "f16", "f64", "u32", "u64", "c64",
    "c128", "bf16", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "u4", "i4", "f4e2m1", "f8e8m0",
    "u2", "i2",
)  # fmt: skip
"""The names of dtypes, indexed by ONNX's ``TensorProto.DataType``."""


def dtype_attribute(i: Importer, value: Any) -> DType:
    """The dtype that an attribute denotes by ONNX's number, a name or a DType. Raises a diagnostic for
    others.
    """
    if isinstance(value, int) and 0 < value < len(_ONNX_DTYPES):
        value = _ONNX_DTYPES[value]
    name = str(value)
    if name not in DTYPES:
        raise i.fail(f"{name} is not a supported dtype", hint="use a dtype of opset 27 or older")
    return DTYPES[name]


def need_dtype(at: Inference, fact: Fact, allowed: Collection[DType], what: str = "the input") -> None:
    """Raise InferError if the dtype of ``fact`` is not in ``allowed``; ``what`` names the operand in the
    error.
    """
    if fact.dtype not in allowed:
        *others, last = sorted(map(str, allowed))
        choice = f"{', '.join(others)} or {last}" if others else last
        raise at.fail(f"{what} is {fact.dtype}; it must be {choice}")


def need_scalar(at: Inference, fact: Fact, what: str) -> None:
    """Raise InferError unless ``fact`` is a scalar or a vector of one element. A symbolic size of a vector is
    constrained to 1.
    """
    if fact.shape in ((), (1,)):
        return
    if fact.rank != 1 or isinstance(fact.shape[0], int):
        raise at.fail(f"{what} is {fact.type}; it must be a scalar")
    at.equal(fact.shape[0], 1, f"elements of {what}, which must be a scalar")


def same_dtype(at: Inference, *facts: Fact) -> DType:
    """The common dtype of ``facts``. Raises InferError if they differ."""
    dtypes = {fact.dtype: None for fact in facts}
    if len(dtypes) > 1:
        raise at.fail(f"operands of {' and '.join(map(str, dtypes))}: they must have one dtype")
    return facts[0].dtype


def known_size(dims: Sequence[Dim]) -> int | None:
    """The number of elements of a shape, if it is a number and at most MAX_ELEMENTS; otherwise, or if a size
    is negative, None.
    """
    if any(isinstance(dim, int) and dim < 0 for dim in dims):
        return None
    size = product(tuple(dims))
    return size if isinstance(size, int) and size <= MAX_ELEMENTS else None


MAX_PARTIAL = 16
"""The largest tensor of which some elements may be known and others not: about the rank of a shape."""


def parts_of(facts: Sequence[Fact]) -> list[tuple[Dim | None, ...]] | None:
    """The elements of each fact, None for unknown ones. None if no fact has a known element, or if a fact
    without one has more than MAX_PARTIAL elements.
    """
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
    """The fact of a tensor of ``type`` whose elements are ``parts``, None for unknown ones."""
    if all(part is None for part in parts):
        return Fact(type, ()) if not parts else type
    if any(part is None for part in parts):
        return Fact(type, partial_elements=tuple(parts)) if len(parts) <= MAX_PARTIAL else type
    return Fact(type, tuple(part for part in parts if part is not None))


def broadcast_elements(facts: Sequence[Fact], shape: Sequence[Dim]) -> list[tuple[Dim | None, ...]] | None:
    """For each element of ``shape``, in row-major order, the elements of the operands that broadcast to it,
    None for unknown ones. None if ``shape`` is too large or :func:`parts_of` returns None.
    """
    size = known_size(shape)
    parts = None if size is None else parts_of(facts)
    if parts is None:
        return None
    if size == 0:  # the other axes may be symbols
        return []
    columns = [list(_broadcast(part, fact.shape, shape)) for part, fact in zip(parts, facts, strict=True)]
    return list(zip(*columns, strict=True))


def size_fact(symbols: SymbolTable, fact: Fact) -> Fact | None:
    """``fact`` with its elements as dims if all are known integers >= 0, in an integer or float dtype;
    otherwise None.
    """
    elements = fact.elements
    if elements is None and fact.data is not None and fact.dtype.is_float and fact.data.size <= MAX_ELEMENTS:
        values = fact.data.astype(np.float64).ravel()
        if np.all((values >= 0) & (values <= EXACT) & (values == np.floor(values)) & ~np.signbit(values)):
            elements = tuple(int(value) for value in values)
    if elements is None or not all(symbols.proves_at_least(element, 0) for element in elements):
        return None
    return Fact(fact.type, elements, fact.data)


def _broadcast(
    elements: Sequence[Dim | None], dims: Sequence[Dim], shape: Sequence[Dim]
) -> Iterator[Dim | None]:
    """The elements of a tensor of shape ``dims``, broadcast to ``shape``."""
    index = np.arange(len(elements)).reshape(numbers(dims))
    for position in np.broadcast_to(index, numbers(shape)).ravel():
        yield elements[int(position)]


def elementwise_fact(
    type: TensorType,
    facts: Sequence[Fact],
    function: Callable[..., Dim | None] | None,
    may_be_unknown: bool = False,
) -> TensorType | Fact:
    """The fact of an elementwise result of ``type``: ``function`` computes each element from those of the
    operands.

    A result is unknown if an element of an operand is, unless the function accepts None for unknown elements
    (``may_be_unknown``).
    """
    if function is None or type.dtype.kind not in ("int", "uint", "bool", "float") or type.shape is None:
        return type
    if type.dtype.is_float and type.dtype.bits < 32:
        return type
    rows = broadcast_elements(facts, type.shape)
    if rows is None:
        return type
    elements = [function(*row) if may_be_unknown or None not in row else None for row in rows]
    fit = [e if e is None or _fits(e, type.dtype) else None for e in elements]
    return fact_of_parts(type, fit)


def _fits(value: Dim, dtype: DType) -> bool:
    """Whether ``dtype`` represents ``value`` exactly. Constant folding computes values that wrap around or
    are rounded. A symbolic size fits in no narrow integer, because it may be too large, and in no unsigned
    integer, because differences may be negative.
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
    """``axes`` as non-negative numbers, sorted; None means all axes. Raises InferError for axes that are out
    of range or repeated.
    """
    if axes is None:
        return tuple(range(rank))
    resolved = [at.axis(axis, rank) for axis in axes]
    if len(set(resolved)) != len(resolved):
        raise at.fail(f"axes {tuple(axes)} name an axis twice")
    return tuple(sorted(resolved))


def positive_axes(axes: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """``axes`` as non-negative numbers; None means all axes. For references, whose axes are valid."""
    return tuple(range(rank)) if axes is None else tuple(axis % max(rank, 1) for axis in axes)


def like(array: Any, model: Array) -> Array:
    """``array`` as an ndarray of the dtype of ``model``. NumPy functions may return scalars or promote
    dtypes.
    """
    return np.asarray(array, dtype=model.dtype)


def zero_of(array: Array) -> Any:
    """The zero of the dtype of ``array``: 0, or an empty string."""
    return "" if array.dtype == object else array.dtype.type(0)


def without_trailing_none(values: Sequence[Value | None]) -> tuple[Value | None, ...]:
    """``values`` without None at their end: absent optional operands at the end are left out."""
    count = max((k + 1 for k, value in enumerate(values) if value is not None), default=0)
    return tuple(values[:count])


def rank_of(value: Value) -> int:
    """The rank of ``value``. Raises UnknownRank if it is not known yet; decomposition then waits for
    inference.
    """
    if value.type.shape is None:
        raise UnknownRank
    return len(value.type.shape)


def quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` without NumPy's floating-point warnings: NaN and infinity are valid results."""

    @wraps(function)
    def silent(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*arguments)

    return silent


def mean_over(array: Array, axes: tuple[int, ...]) -> Array:
    """The mean along ``axes``, which stay with size 1. The mean of no elements is NaN, without NumPy's
    warning.
    """
    total = array.sum(axis=axes, keepdims=True, dtype=array.dtype)
    return np.asarray(total / array.dtype.type(prod(array.shape[axis] for axis in axes)))


def widened(array: Array) -> Array:
    """``array``, converted to f32 if it has 16-bit floats, which are summed in f32."""
    return array.astype(np.float32) if array.dtype.name in ("float16", "bfloat16") else array


@cache
def _operand_count(expression: Callable[..., object]) -> int | None:
    """The number of operands of a method ``expression``; None if it takes any number."""
    parameters = list(inspect.signature(expression).parameters.values())[1:]
    is_open = any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters)
    return None if is_open else len(parameters)


class Pointwise(Op):
    """Base class of elementwise ops whose operands have one dtype and are broadcast."""

    traits = Trait.ELEMENTWISE
    dtypes: ClassVar[frozenset[DType]] = FLOATS
    """The dtypes of operands; others are an error."""
    gives: ClassVar[DType | None] = None
    """The dtype of the output; None if it is that of the operands."""

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
        """Compute an integer or bool output element, as a dim, from the elements of the operands, which may
        be symbolic. None if it is unknown.
        """
        return None

    def known_real(self, symbols: SymbolTable, *elements: Dim) -> Dim | None:
        """The same for float operands whose elements are integers >= 0. Models convert sizes to floats to
        scale them.
        """
        return None


def need_broadcast(at: Inference, fact: Fact, shape: Sequence[Dim], what: str) -> None:
    """Raise InferError if ``fact`` does not broadcast to ``shape`` (unidirectional broadcasting)."""
    if fact.rank > len(shape):
        raise at.fail(f"{what} has {fact.rank} axes and cannot broadcast to {len(shape)} axes")
    for have, want in zip(reversed(fact.shape), reversed(shape), strict=False):
        at.require_broadcast(have, want, f"a size of {what}")

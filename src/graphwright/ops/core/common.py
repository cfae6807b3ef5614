"""Helpers of many ops: imports, checks of types and axes, and functions on arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import wraps
from math import prod
from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, DtypeError, Fact, Import, Importer, Inference, Op, UnknownRank
from graphwright.ir.symbols import Dim
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
)

FLOATS = frozenset({F16, BF16, F32, F64})
SIGNED = frozenset({I8, I16, I32, I64})
UNSIGNED = frozenset({U8, U16, U32, U64})
INTEGERS = SIGNED | UNSIGNED
NUMBERS = FLOATS | INTEGERS
LOGICAL = frozenset({BOOL})


def scalar(i: Importer, value: float, like: Value) -> Value:
    """The constant ``value``, a scalar in the dtype of ``like``."""
    return i.const(np.asarray(value, like.type.dtype.numpy))


def simple(factory: Callable[[], Op]) -> Import:
    """Imports as the op ``factory()`` on all inputs, in their order; attributes are ignored."""
    return lambda i: i.emit(factory(), *i.inputs())


def with_attributes(cls: type[Op]) -> Import:
    """Imports as ``cls`` on all inputs. Each field is the ONNX attribute of the same name, converted to the
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
    "u2", "i2", "f6e2m3", "f6e3m2",
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
        raise i.fail(f"{name} is not a supported dtype", hint=f"supported are: {', '.join(DTYPES)}")
    return DTYPES[name]


def need_dtype(at: Inference, fact: Fact, allowed: Collection[DType], what: str = "the input") -> None:
    """Raises DtypeError if the dtype of ``fact`` is not in ``allowed``; ``what`` names the operand in the
    error.
    """
    if fact.dtype not in allowed:
        *others, last = sorted(map(str, allowed))
        choice = f"{', '.join(others)} or {last}" if others else last
        raise at.fail(f"{what} is {fact.dtype}; it must be {choice}", DtypeError)


def need_sizes(at: Inference, fact: Fact | None, what: str) -> None:
    """Raises DtypeError if ``fact`` has elements other than integers of 32 or 64 bits."""
    if fact is not None:
        need_dtype(at, fact, {I32, I64}, what)


def need_scalar(at: Inference, fact: Fact, what: str) -> None:
    """Raises InferError unless ``fact`` is a scalar or a vector of one element. A symbolic size of a vector
    is constrained to 1.
    """
    if fact.shape in ((), (1,)):
        return
    if fact.rank != 1 or isinstance(fact.shape[0], int):
        raise at.fail(f"{what} is {fact.type}; it must be a scalar")
    at.equal(fact.shape[0], 1, f"elements of {what}, which must be a scalar")


def same_dtype(at: Inference, *facts: Fact) -> DType:
    """The common dtype of ``facts``. Raises DtypeError if they differ."""
    dtypes = {fact.dtype: None for fact in facts}
    if len(dtypes) > 1:
        raise at.fail(f"operands of {' and '.join(map(str, dtypes))}: they must have one dtype", DtypeError)
    return facts[0].dtype


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


def need_broadcast(at: Inference, fact: Fact, shape: Sequence[Dim], what: str) -> None:
    """Raises InferError if ``fact`` does not broadcast to ``shape`` (unidirectional broadcasting)."""
    if fact.rank > len(shape):
        raise at.fail(f"{what} has {fact.rank} axes and cannot broadcast to {len(shape)} axes")
    for have, want in zip(reversed(fact.shape), reversed(shape), strict=False):
        at.require_broadcast(have, want, f"a size of {what}")

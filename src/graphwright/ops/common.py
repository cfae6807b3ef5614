"""What several ops share: imports, checks of types, and arithmetic on known elements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import product as cartesian
from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Import, Importer, Inference, Op, UnknownRank
from graphwright.ir.symbols import Dim, product
from graphwright.ir.types import (
    BF16,
    BOOL,
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


def simple(factory: Callable[[], Op]) -> Import:
    """Import as ``factory()`` with all inputs in their order."""
    return lambda i: i.emit(factory(), *i.inputs())


def chain(i: Importer, op: Op) -> Value:
    """``op`` folded over all inputs, from the left."""
    first, *rest = (i.input(index) for index in range(len(i.inputs())))
    for value in rest:
        first = i.emit(op, first, value)
    return first


def integers(i: Importer, index: int, what: str) -> tuple[int, ...] | None:
    """Input ``index`` as integers: None if absent; a diagnostic if it is computed."""
    if i.optional(index) is None:
        return None
    array = i.constant(index)
    if array is None:
        raise i.fail(
            f"{what} is computed at run time", hint=f"make {what} a constant, or simplify the model first"
        )
    return tuple(int(v) for v in array.ravel())


def need_dtype(at: Inference, fact: Fact, allowed: Collection[DType], what: str = "the input") -> None:
    """Refuse a dtype that is not in ``allowed``."""
    if fact.dtype not in allowed:
        raise at.fail(f"{what} is {fact.dtype}; it takes {', '.join(sorted(map(str, allowed)))}")


def same_dtype(at: Inference, *facts: Fact) -> DType:
    """The dtype of all ``facts``; refuses a mixture."""
    dtypes = {fact.dtype: None for fact in facts}
    if len(dtypes) > 1:
        raise at.fail(f"operands of {' and '.join(map(str, dtypes))}: they must have one dtype")
    return facts[0].dtype


def known_size(dims: Sequence[Dim]) -> int | None:
    """Number of elements of a shape that is small enough to track; None otherwise."""
    size = product(tuple(dims))
    return size if isinstance(size, int) and size <= MAX_ELEMENTS else None


def broadcast_elements(facts: Sequence[Fact], shape: Sequence[Dim]) -> list[tuple[Dim, ...]] | None:
    """For each element of ``shape``, in row-major order, the operands' elements that meet there; None if not known."""
    if known_size(shape) is None or any(fact.elements is None for fact in facts):
        return None
    columns = [list(_spread(fact, shape)) for fact in facts]
    return list(zip(*columns, strict=True))


def _spread(fact: Fact, shape: Sequence[Dim]) -> Iterator[Dim]:
    assert fact.elements is not None
    index = np.arange(len(fact.elements)).reshape([int(d) for d in fact.shape])  # type: ignore[arg-type]
    for position in np.broadcast_to(index, [int(d) for d in shape]).ravel():  # type: ignore[arg-type]
        yield fact.elements[position]


def elementwise_fact(
    type: TensorType, facts: Sequence[Fact], function: Callable[..., Dim | None] | None
) -> TensorType | Fact:
    """``type``, with elements where ``function`` of the operands' elements is known for every one of them."""
    if function is None or type.dtype.kind not in ("int", "uint", "bool") or type.shape is None:
        return type
    rows = broadcast_elements(facts, type.shape)
    if rows is None:
        return type
    elements = [function(*row) for row in rows]
    if any(e is None or (isinstance(e, int) and not _fits(e, type.dtype)) for e in elements):
        return type
    return Fact(type, tuple(e for e in elements if e is not None))


def _fits(value: int, dtype: DType) -> bool:
    """Whether ``value`` needs no wrap-around in ``dtype``: what wraps is left to folding."""
    if dtype.kind == "bool":
        return value in (0, 1)
    if dtype.kind == "uint":
        return 0 <= value < 2**dtype.bits
    return -(2 ** (dtype.bits - 1)) <= value < 2 ** (dtype.bits - 1)


def static_positions(shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every index of ``shape`` in row-major order."""
    return cartesian(*(range(size) for size in shape))


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


def rank_of(value: Value) -> int:
    """The rank of a graph's value; UnknownRank where it is not known, so that decomposing waits for shapes."""
    if value.type.shape is None:
        raise UnknownRank
    return len(value.type.shape)

"""Inference of elements: those of shapes and other small tensors, as numbers or symbolic dims."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from graphwright.ir.op import Fact
from graphwright.ir.symbols import Dim, SymbolTable, numbers
from graphwright.ir.types import DType, TensorType

MAX_ELEMENTS = 256
"""The elements of larger integer tensors are not tracked during inference: no shape has so many."""
EXACT = 2**24
"""Every integer up to this one is exact in f32. Sizes that models compute in floats are assumed to be
smaller.
"""
MAX_PARTIAL = 16
"""The size of the largest tensor of which only some elements may be known: about the rank of a shape."""


def known_size(dims: Sequence[Dim]) -> int | None:
    """The number of elements of a shape, if it is a number and at most MAX_ELEMENTS; otherwise, or if a size
    is negative, None.
    """
    known = [dim for dim in dims if isinstance(dim, int)]
    if min(known, default=0) < 0 or (len(known) < len(dims) and 0 not in known):
        return None
    size = math.prod(known)
    return size if size <= MAX_ELEMENTS else None


def parts_of(facts: Sequence[Fact]) -> list[tuple[Dim | None, ...]] | None:
    """The elements of each fact, None for unknown ones. None if no fact has a known element, or if a fact
    without one has more than MAX_PARTIAL elements.
    """
    if facts and all(_known_parts(fact) is None for fact in facts):
        return None
    found = [_parts_of(fact) for fact in facts]
    parts = [each for each in found if each is not None]
    return parts if len(parts) == len(found) else None


def _known_parts(fact: Fact) -> tuple[Dim | None, ...] | None:
    return fact.partial_elements if fact.elements is None else fact.elements


def _parts_of(fact: Fact) -> tuple[Dim | None, ...] | None:
    """The elements of ``fact``; None if none is known and there are more than MAX_PARTIAL."""
    known = _known_parts(fact)
    if known is not None or fact.type.shape is None:
        return known
    size = known_size(fact.type.shape)
    return None if size is None or size > MAX_PARTIAL else (None,) * size


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


def size_fact(symbols: SymbolTable, fact: Fact) -> Fact:
    """``fact``, in an integer or float dtype, with only those known elements that are integers >= 0."""
    elements = _known_parts(fact)
    if elements is None and fact.data is not None and fact.dtype.is_float and fact.data.size <= MAX_ELEMENTS:
        elements = tuple(map(_size_of, fact.data.astype(np.float64).ravel().tolist()))
    if elements is None:
        return Fact(fact.type)
    sizes = [e if e is not None and symbols.proves_at_least(e, 0) else None for e in elements]
    found = fact_of_parts(fact.type, sizes)
    return found if isinstance(found, Fact) else Fact(found)


def _size_of(value: float) -> int | None:
    """``value`` if it is an integer >= 0; None for others, and for -0.0."""
    return int(value) if value.is_integer() and math.copysign(1, value) > 0 else None


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
        return value == 0 or (0 < value < 2**127 and _odd_factor(value) <= EXACT)
    low, high = (
        (0, 1 << dtype.bits) if dtype.kind == "uint" else (-(1 << dtype.bits - 1), 1 << dtype.bits - 1)
    )
    return low <= value < high


def _odd_factor(value: int) -> int:
    """``value`` without its factors of 2, which a float represents by its exponent."""
    return value // (value & -value)

"""Functions for the inference of ops that take sizes as operands, or move elements of tensors of sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphwright.ir.free_symbols import symbols_named
from graphwright.ir.op import Array, Fact, Inference, Op, UnknownRank, is_known
from graphwright.ir.symbols import Dim, Expr
from graphwright.ir.types import TensorType
from graphwright.ops.core.known_elements import MAX_ELEMENTS, fact_of_parts, known_size, parts_of


def known_ints(fact: Fact | None) -> tuple[int, ...] | None:
    """The elements of ``fact`` if all are numbers; otherwise None."""
    if fact is None or not is_known(fact.elements):
        return None
    return tuple(map(int, fact.elements))


def known_dims(fact: Fact | None) -> tuple[Dim, ...] | None:
    """The elements of ``fact``, numbers or symbolic sizes; None if they are unknown."""
    return None if fact is None else fact.elements


def known_floats(fact: Fact | None) -> tuple[float, ...] | None:
    """The elements of a constant tensor as floats; None if ``fact`` is not constant."""
    if fact is None or fact.data is None:
        return None
    return tuple(float(v) for v in fact.data.ravel())


def with_moved_elements(
    op: Op, type: TensorType, *facts: Fact, move: Callable[..., Any] | None = None
) -> Fact | TensorType:
    """The fact of a result of ``type`` whose elements are elements of ``facts``: the reference of ``op``, or
    ``move``, is computed on them. Only ``type`` if the elements are unknown, or an attribute of ``op`` is a
    symbolic size.
    """
    if type.shape is None or known_size(type.shape) is None:
        return type
    parts = parts_of(facts)
    if parts is None or not all(fact.type.is_static for fact in facts) or symbols_named(op):
        return type
    return fact_of_parts(type, elements_of((move or op.reference)(*map(_array_of, parts, facts))))


def elements_of(array: Array) -> tuple[Dim | None, ...]:
    """The elements of an array of sizes in row-major order; None for unknown ones."""
    return tuple(e if e is None or isinstance(e, Expr) else int(e) for e in array.ravel().tolist())


def _array_of(elements: Sequence[Dim | None], fact: Fact) -> Array:
    plain = all(isinstance(e, int) and abs(e) < 2**63 for e in elements)
    array: Array = np.empty(len(elements), dtype=np.int64 if plain else object)
    array[:] = elements
    return array.reshape(fact.shape)


def cancel(left: Sequence[Dim], right: Sequence[Dim]) -> tuple[list[Dim], list[Dim]]:
    """The factors of two products without their common factors, and without 1."""
    kept, rest = [], [d for d in right if d != 1]
    for dim in left:
        if dim in rest:
            rest.remove(dim)
        elif dim != 1:
            kept.append(dim)
    return kept, rest


def new_sizes(at: Inference, count: Dim | None, hint: str) -> tuple[Dim, ...]:
    """``count`` new symbols, for sizes that depend on elements. Raises UnknownRank if ``count`` is not a
    number.
    """
    if not isinstance(count, int):
        raise UnknownRank
    return tuple(at.symbols.fresh(hint) for _ in range(count))


def known_parts(fact: Fact | None) -> tuple[Dim | None, ...]:
    """The elements of a vector, None for unknown ones. Raises UnknownRank if its length is unknown."""
    length = length_of(fact)
    if fact is None or not isinstance(length, int):
        raise UnknownRank
    if fact.elements is not None:
        return fact.elements
    return fact.partial_elements or (None,) * length


def length_of(fact: Fact | None) -> Dim | None:
    """The length of a vector; None if it is unknown, larger than MAX_ELEMENTS, or ``fact`` is not a
    vector.
    """
    shape = None if fact is None else fact.type.shape
    if shape is None or len(shape) != 1 or (isinstance(shape[0], int) and shape[0] > MAX_ELEMENTS):
        return None
    return shape[0]


def number(dim: Dim | None) -> int:
    """``dim`` as an int. For references, which run after symbols have been replaced by numbers."""
    if not isinstance(dim, int):
        raise TypeError(f"the size {dim} is symbolic: bind the sizes of the inputs first")
    return dim

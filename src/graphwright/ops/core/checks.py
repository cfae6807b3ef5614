"""The dtypes that ops accept, and checks of operands during inference."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from graphwright.ir.graph import Value
from graphwright.ir.op import DtypeError, Fact, Inference, UnknownRank
from graphwright.ir.symbols import Dim
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
)

FLOATS = frozenset({F16, BF16, F32, F64})
SIGNED = frozenset({I8, I16, I32, I64})
UNSIGNED = frozenset({U8, U16, U32, U64})
INTEGERS = SIGNED | UNSIGNED
NUMBERS = FLOATS | INTEGERS
LOGICAL = frozenset({BOOL})


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


def rank_of(value: Value) -> int:
    """The rank of ``value``. Raises UnknownRank if it is not known yet; decomposition then waits for
    inference.
    """
    if value.type.shape is None:
        raise UnknownRank
    return len(value.type.shape)


def need_broadcast(at: Inference, fact: Fact, shape: Sequence[Dim], what: str) -> None:
    """Raises InferError if ``fact`` does not broadcast to ``shape`` (unidirectional broadcasting)."""
    if fact.rank > len(shape):
        raise at.fail(f"{what} has {fact.rank} axes and cannot broadcast to {len(shape)} axes")
    for have, want in zip(reversed(fact.shape), reversed(shape), strict=False):
        at.require_broadcast(have, want, f"a size of {what}")

"""Helpers of ops on sequences and optional values. The type of a sequence is a scalar of dtype ``seq(T)``;
references represent it as a list.
"""

from __future__ import annotations

from graphwright.ir.op import Array, Fact, Inference
from graphwright.ir.types import I32, I64, DType, TensorType, sequence_of
from graphwright.ops.core.checks import need_dtype, need_scalar
from graphwright.ops.core.size_inference import known_ints

Types = tuple[TensorType, ...] | None
"""The types of the tensors in a sequence, in order; None if they are unknown."""


def sequence_fact(element: DType, held: Types) -> Fact:
    """The fact of a sequence of tensors of dtype ``element``."""
    return Fact(TensorType(sequence_of(element), ()), item_types=held)


def element_of(at: Inference, fact: Fact) -> DType:
    """The dtype of the tensors in a sequence. Raises InferError if ``fact`` is not a sequence."""
    if fact.dtype.kind != "sequence" or fact.dtype.element is None:
        raise at.fail(f"the input is {fact.type}; it must be a sequence")
    return fact.dtype.element


def non_negative(position: int, count: int, last: int) -> int:
    """``position`` in a sequence of ``count`` tensors, with negative positions counted from the end. Raises
    IndexError outside of ``[-count, last]``.
    """
    if not -count <= position <= last:
        raise IndexError(f"position {position} is out of range for a sequence of {count} tensors")
    return position + count if position < 0 else position


def position_of(position: Array | None, count: int, last: int) -> int:
    """The operand ``position`` of a reference as a non-negative number; ``last`` if it is absent."""
    return last if position is None else non_negative(int(position.reshape(())), count, last)


def items_and_position(
    at: Inference, xs: Fact, position: Fact | None, *, beyond: bool = False
) -> tuple[tuple[TensorType, ...], int] | None:
    """The types of the tensors in the sequence ``xs``, and ``position`` as an index into it. None if either
    is unknown. An absent position is that of the last tensor, or the end of the sequence if ``beyond``, with
    which the end is valid. Raises InferError if the position is not one i32 or i64 in range.
    """
    if position is not None:
        need_dtype(at, position, {I32, I64}, "the position")
        if position.type.shape is not None:
            need_scalar(at, position, "the position")
    items = xs.item_types
    if items is None:
        return None
    last = len(items) - (not beyond)
    known = (last,) if position is None else known_ints(position)
    if known is None:
        return None
    try:
        return items, non_negative(known[0], len(items), last)
    except IndexError as error:
        raise at.fail(str(error)) from None


def common_type(element: DType, held: Types) -> TensorType:
    """The common type of the tensors; only the dtype ``element`` if their shapes differ or are unknown."""
    return held[0] if held and len(set(held)) == 1 else TensorType(element, None)

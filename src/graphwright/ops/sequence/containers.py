"""What ops of sequences and optionals share: a sequence is a scalar of dtype ``seq(T)``, a list in NumPy."""

from __future__ import annotations

from graphwright.ir.op import Array, Fact, Inference
from graphwright.ir.types import I32, I64, DType, TensorType, sequence_of
from graphwright.ops.core.common import need_dtype
from graphwright.ops.core.shaping import known_ints

Types = tuple[TensorType, ...] | None
"""Of the tensors in a sequence, in their order; None where they are not known."""


def sequence_fact(element: DType, held: Types) -> Fact:
    """A sequence of tensors of ``element``."""
    return Fact(TensorType(sequence_of(element), ()), item_types=held)


def element_of(at: Inference, fact: Fact) -> DType:
    """The dtype of the tensors in a sequence; refuses what is none."""
    if fact.dtype.kind != "sequence" or fact.dtype.element is None:
        raise at.fail(f"the input is {fact.type}; it must be a sequence")
    return fact.dtype.element


def need_position(at: Inference, position: Fact | None) -> None:
    """Refuse an operand that is not one integer."""
    if position is None:
        return
    need_dtype(at, position, {I32, I64}, "the position")
    if position.type.shape not in (None, (), (1,)):
        raise at.fail(f"the position is {position.type}; it must be a scalar")


def counted(position: int, count: int, last: int) -> int:
    """``position`` counted from the front of ``count`` tensors; IndexError outside of ``[-count, last]``."""
    if not -count <= position <= last:
        raise IndexError(f"position {position} is outside of {count} tensors")
    return position + count if position < 0 else position


def place(position: Array | None, count: int, last: int) -> int:
    """A reference's operand, ``last`` where it is absent, as :func:`counted` has it."""
    return last if position is None else counted(int(position.reshape(())), count, last)


def known_place(at: Inference, position: Fact | None, count: int, last: int) -> int | None:
    """What inference knows of :func:`place`; refuses one outside of the sequence."""
    known = (last,) if position is None else known_ints(position)
    if known is None:
        return None
    try:
        return counted(known[0], count, last)
    except IndexError as error:
        raise at.fail(str(error)) from None


def common_type(element: DType, held: Types) -> TensorType:
    """The type of any of the tensors: their own if all are alike."""
    return held[0] if held and len(set(held)) == 1 else TensorType(element, None)

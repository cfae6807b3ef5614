"""The Constant op: a tensor from the constant pool of the module."""

from __future__ import annotations

from graphwright.ir.graph import Value
from graphwright.ir.op import ConstRef, Inference, Op, Trait, op
from graphwright.ir.types import TensorType


@op("Constant")
class Constant(Op):
    """A tensor of the constant pool. It has no ``reference``: folding reads the array from the pool."""

    traits = Trait.CONSTANT
    value: ConstRef
    type: TensorType

    def infer(self, at: Inference) -> TensorType:
        return self.type


def constant_of(value: Value | None) -> Constant | None:
    """The Constant op that produces ``value``; None for any other value."""
    producer = None if value is None else value.producer
    return producer.op if producer is not None and isinstance(producer.op, Constant) else None


def is_constant(value: Value) -> bool:
    """Whether a Constant op produces ``value``."""
    return constant_of(value) is not None

"""The one op that every graph needs: a tensor from the module's constant pool."""

from __future__ import annotations

from graphwright.ir.graph import Value
from graphwright.ir.op import ConstRef, Inference, Op, op
from graphwright.ir.types import TensorType


@op("Constant")
class Constant(Op):
    """A tensor of the constant pool. Folding reads its array from the pool, so there is no ``reference``."""

    value: ConstRef
    type: TensorType

    def infer(self, at: Inference) -> TensorType:
        return self.type


def constant_of(value: Value | None) -> Constant | None:
    """The op of ``value`` if it is a constant of its graph."""
    producer = None if value is None else value.producer
    return producer.op if producer is not None and isinstance(producer.op, Constant) else None


def is_constant(value: Value) -> bool:
    """Whether ``value`` is a constant of its graph."""
    return constant_of(value) is not None

"""Counts the simple operations that an op performs on each element."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from graphwright.cost.loops import FUNCTIONS
from graphwright.ir.graph import Node
from graphwright.ir.loops.nodes import Apply, Bits, Cast, Ref, Scalar
from graphwright.ir.op import Op, Trait
from graphwright.ir.op.plugin_ops import is_plugin_op
from graphwright.ir.types import DType

COSTLY: Final = 8
"""Simple operations from which on an op counts as costly: those of a division."""


def operations_of(node: Node) -> int:
    """Simple operations on each element."""
    if Trait.REDUCTION in node.op.traits or not node.op.has_expression():
        return 1
    return _operations_of(node.op, tuple(None if v is None else v.type.dtype for v in node.inputs))


@cache
def _operations_of(op: Op, dtypes: tuple[DType | None, ...]) -> int:
    if is_plugin_op(type(op)):
        return COSTLY
    operands = [None if d is None else Ref(f"x{k}", d.computed) for k, d in enumerate(dtypes)]
    return max(1, sum(FUNCTIONS.get(part.function, 1) for part in set(_applied(op.expression(*operands)))))


def _applied(value: Scalar) -> Iterator[Apply]:
    """The functions in ``value``; one that occurs several times is computed once."""
    match value:
        case Apply(_, operands):
            yield value
            for operand in operands:
                yield from _applied(operand)
        case Cast(operand) | Bits(operand):
            yield from _applied(operand)

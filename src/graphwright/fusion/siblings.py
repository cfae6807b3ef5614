"""Legality of a dual GEMM: two matrix products with the same left operand and constant right operands."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.builtin.constant import is_constant
from graphwright.ir.graph import Node
from graphwright.ir.refusal import Code, Refusal
from graphwright.ir.types import F32
from graphwright.ops.core.matmul import MatMul


def siblings_refusal(contractions: Sequence[Node]) -> Refusal | None:
    """Why no single kernel computes all ``contractions``; None for two products that a dual GEMM computes."""
    first, *others = contractions
    ops = [node.op for node in contractions if isinstance(node.op, MatMul)]
    share_left = all(node.inputs[0] is first.inputs[0] for node in others)
    if len(others) > 1 or len(ops) < len(contractions) or not share_left:
        return Refusal(Code.TWO_CONTRACTIONS, "both sides contain a contraction")
    weights = [node.operand(1) for node in contractions]
    types = list(dict.fromkeys(value.type for value in weights))
    if not all(map(is_constant, weights)):
        return Refusal(Code.SIBLING_WEIGHTS, "a right operand is not constant")
    if len(types) > 1 or len(types[0].dims) != 2:
        return Refusal(Code.SIBLING_WEIGHTS, f"the right operands have types {' and '.join(map(str, types))}")
    if any((op.precision or F32) != types[0].dtype for op in ops):
        return Refusal(
            Code.SIBLING_WEIGHTS, f"right operands of type {types[0]} are multiplied in another precision"
        )
    return None

"""When one kernel can compute two contractions: products of one left factor and constant right factors."""

from __future__ import annotations

from collections.abc import Sequence

from graphwright.ir.constant import is_constant
from graphwright.ir.graph import Node
from graphwright.ir.refusal import Code, Refusal
from graphwright.ir.types import F32
from graphwright.ops.core.matmul import MatMul


def siblings_refusal(contractions: Sequence[Node]) -> Refusal | None:
    """Why no one kernel computes all ``contractions``; None for two products, which a dual GEMM computes."""
    first, *others = contractions
    ops = [node.op for node in contractions if isinstance(node.op, MatMul)]
    of_one_factor = all(node.inputs[0] is first.inputs[0] for node in others)
    if len(others) > 1 or len(ops) < len(contractions) or not of_one_factor:
        return Refusal(Code.TWO_CONTRACTIONS, "two contractions")
    weights = [node.operand(1) for node in contractions]
    types = list(dict.fromkeys(value.type for value in weights))
    if not all(map(is_constant, weights)):
        return Refusal(Code.SIBLING_WEIGHTS, "a right factor is computed")
    if len(types) > 1 or len(types[0].dims) != 2:
        return Refusal(Code.SIBLING_WEIGHTS, f"right factors of {' and '.join(map(str, types))}")
    if any((op.precision or F32) != types[0].dtype for op in ops):
        return Refusal(Code.SIBLING_WEIGHTS, f"right factors of {types[0]} are multiplied in another type")
    return None

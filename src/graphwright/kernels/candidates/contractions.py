"""Contractions that are not fused with other ops."""

from __future__ import annotations

from graphwright.ir.graph import Node
from graphwright.kernels.candidates.context import Context, Contraction
from graphwright.kernels.candidates.registry import contraction_of
from graphwright.kernels.launch import Launch, Run


def without_epilogue(node: Node, context: Context) -> Launch | Run | str:
    """A contraction without an epilogue."""
    found = contraction_of(node.op)
    if found is None:
        return f"{node.op.name} has no kernel"
    return found[0](Contraction(node, node.inputs, node.output), context)

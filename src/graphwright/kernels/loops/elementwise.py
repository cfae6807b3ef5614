"""Elementwise ops that fusion does not handle: those with an absent operand."""

from __future__ import annotations

from graphwright.ir.graph import Node
from graphwright.ir.loops.nodes import Load, Store, cast
from graphwright.ir.symbols import symbol
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Launch
from graphwright.kernels.loops.kernel_builder import KernelBuilder, nest
from graphwright.ops.core.clip import Clip


@candidate(Clip)
def clip(node: Node, context: Context) -> Launch:
    """A generated kernel for a Clip that was not fused; its bounds may be known only at run time."""
    x, y = node.operand(0), node.output
    dtype, count = x.type.dtype.computed, x.type.elements
    builder = KernelBuilder(node, context)
    element = cast(Load(builder.input(x, (count,)), (symbol("i"),)), dtype)
    bounds = [None if b is None else cast(Load(builder.input(b, (1,)), (0,)), dtype) for b in node.inputs[1:]]
    store = Store(
        builder.output(y, (count,)), (symbol("i"),), cast(node.op.expression(element, *bounds), y.type.dtype)
    )
    return builder.launch(nest((("i", builder.size(count)),), store), in_place=((y, x),))

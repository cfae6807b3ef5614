"""Elementwise ops that fusion does not handle: those with an absent operand."""

from __future__ import annotations

from graphwright.ir.graph import Node
from graphwright.ir.loops.nodes import Load, Store, cast
from graphwright.ir.symbols import symbol
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.loops import Draft, nest
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Run
from graphwright.ops.core.clip import Clip


@candidate(Clip)
def clip(node: Node, context: Context) -> Run:
    """A generated kernel for a Clip that was not fused; its bounds may be known only at run time."""
    x, y = node.operand(0), node.output
    dtype, count = x.type.dtype.computed, x.type.elements
    draft = Draft(node, context)
    element = cast(Load(draft.input(x, (count,)), (symbol("i"),)), dtype)
    bounds = [None if b is None else cast(Load(draft.input(b, (1,)), (0,)), dtype) for b in node.inputs[1:]]
    store = Store(
        draft.output(y, (count,)), (symbol("i"),), cast(node.op.expression(element, *bounds), y.type.dtype)
    )
    return Run((draft.launch(nest((("i", draft.size(count)),), store), in_place=((y, x),)),))

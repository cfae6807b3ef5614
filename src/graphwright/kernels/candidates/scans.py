"""Running sums and products."""

from __future__ import annotations

import numpy as np

from graphwright.ir.graph import Node
from graphwright.ir.loops.nodes import Accumulate, Alloc, Buffer, Kind, Level, Load, Loop, Store, cast
from graphwright.ir.symbols import Dim, symbol
from graphwright.kernels.candidates.loops import Draft, nest, rows_and_columns
from graphwright.kernels.candidates.registry import Context, candidate
from graphwright.kernels.launch import Run
from graphwright.ops.cumulative import CumProd, CumSum, Cumulative


@candidate(CumSum, CumProd)
def cumulative(node: Node, context: Context) -> Run | str:
    """One running total for each place of the other axes; those behind the axis side by side in a vector."""
    op, x, y = node.op, node.operand(0), node.output
    assert isinstance(op, Cumulative)
    shape = x.type.dims or (1,)
    if op.axis is None or len(node.inputs) > 1:
        return "its axis is computed at run time"
    outer, count, inner = rows_and_columns(shape, op.axis % len(shape))
    draft = Draft(node, context)
    sizes = (outer, count, inner)
    source, target = draft.input(x, sizes), draft.output(y, sizes)
    dtype = x.type.dtype.computed
    total = Buffer("total", dtype, (), Level.REGISTER)
    step: Dim = symbol("t")
    if op.reverse:
        step = draft.size(count) - 1 - step
    index = (symbol("o"), step, 0 if inner == 1 else symbol("i"))
    added = Accumulate(total, (), "add" if op.ufunc is np.add else "mul", cast(Load(source, index), dtype))
    store = Store(target, index, cast(Load(total, ()), y.type.dtype))
    scan = Loop("t", Kind.SERIAL, draft.size(count), (store, added) if op.exclusive else (added, store))
    axes = [("o", draft.size(outer)), ("i", draft.size(inner))]
    start = Alloc(total, 0 if op.ufunc is np.add else 1)
    alone = inner == 1
    body = nest(axes[:1] if alone else axes, start, scan, innermost=Kind.PARALLEL if alone else Kind.VECTOR)
    return Run((draft.launch(body, work=x.type.elements),))

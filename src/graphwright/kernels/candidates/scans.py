"""Running sums and products."""

from __future__ import annotations

import numpy as np

from graphwright.ir.graph import Node
from graphwright.ir.loops.nodes import (
    Accumulate,
    Alloc,
    Buffer,
    Kind,
    Level,
    Load,
    Loop,
    Statement,
    Store,
    cast,
)
from graphwright.ir.symbols import Dim, ceildiv, minimum, symbol
from graphwright.kernels.candidates.loops import Draft, nest, rows_and_columns
from graphwright.kernels.candidates.registry import Context, candidate
from graphwright.kernels.launch import Run
from graphwright.ops.cumulative import CumProd, CumSum, Cumulative

_BLOCK = 256
"""Columns with running totals of their own, which stay in the first-level cache."""


@candidate(CumSum, CumProd)
def cumulative(node: Node, context: Context) -> Run | str:
    """One running total for each place of the other axes; those behind the axis side by side, in blocks that
    are read row by row."""
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
    alone = inner == 1
    block = Buffer("total", dtype, () if alone else (_BLOCK,), Level.REGISTER if alone else Level.CACHE)
    step: Dim = symbol("t")
    if op.reverse:
        step = draft.size(count) - 1 - step
    first = _BLOCK * symbol("b")
    place: tuple[Dim, ...] = () if alone else (symbol("i"),)
    index = (symbol("o"), step, 0 if alone else first + symbol("i"))
    added = Accumulate(block, place, "add" if op.ufunc is np.add else "mul", cast(Load(source, index), dtype))
    store = Store(target, index, cast(Load(block, place), y.type.dtype))
    both: tuple[Statement, ...] = (store, added) if op.exclusive else (added, store)
    if not alone:
        both = (Loop("i", Kind.VECTOR, minimum(_BLOCK, draft.size(inner) - first), both),)
    scan = Loop("t", Kind.SERIAL, draft.size(count), both)
    axes = [("o", draft.size(outer)), ("b", ceildiv(draft.size(inner), _BLOCK))]
    start = Alloc(block, 0 if op.ufunc is np.add else 1)
    body = nest(axes[:1] if alone else axes, start, scan, innermost=Kind.PARALLEL)
    return Run((draft.launch(body, work=x.type.elements),))

"""Cumulative sums and products."""

from __future__ import annotations

import numpy as np

from graphwright.ir.graph import Node
from graphwright.ir.loops.nodes import (
    Accumulate,
    Alloc,
    Buffer,
    Const,
    Kind,
    Level,
    Load,
    Loop,
    Statement,
    Store,
    apply,
    cast,
)
from graphwright.ir.symbols import Dim, ceildiv, floordiv, maximum, minimum, symbol
from graphwright.ir.types import DType
from graphwright.kernels.candidates.context import Context
from graphwright.kernels.candidates.registry import candidate
from graphwright.kernels.launch import Launch, Run
from graphwright.kernels.loops.kernel_builder import KernelBuilder, nest, rows_and_columns
from graphwright.ops.core.cumulative import CumProd, CumSum, Cumulative
from graphwright.records import dataclass

_BLOCK = 128
"""Columns per unit of work: few enough that their running totals stay in the L1 cache, and that there are
units for several threads.
"""
_LANES = 16
"""Rows that are scanned in parallel, one per lane: a single row would wait for the latency of each addition.
"""


@candidate(CumSum, CumProd)
def cumulative(node: Node[Cumulative], context: Context) -> Launch | Run | str:
    """One running total for each position of the other axes, in the order of the elements."""
    op, x = node.op, node.operand(0)
    shape = x.type.dims or (1,)
    if op.axis is None or len(node.inputs) > 1:
        return "its axis is computed at run time"
    outer, count, inner = rows_and_columns(shape, op.axis % len(shape))
    scan = _Scan(node, context, op, (outer, count, inner))
    if inner != 1:
        return scan.columns()
    in_lanes = floordiv(outer, _LANES) if x.type.dtype.is_float else 0
    launches = []
    if in_lanes != 0:
        launches.append(scan.rows_in_lanes(in_lanes))
    if outer != in_lanes * _LANES:
        launches.append(scan.rows(in_lanes * _LANES))
    return Run(tuple(launches) or (scan.rows(0),))


@dataclass(frozen=True)
class _Scan:
    """Running totals along the middle one of three axes."""

    node: Node
    context: Context
    op: Cumulative
    sizes: tuple[Dim, Dim, Dim]

    def columns(self) -> Launch:
        """Columns in parallel, in blocks that are read row by row."""
        builder = KernelBuilder(self.node, self.context)
        outer, _, inner = map(builder.size, self.sizes)
        first = _BLOCK * symbol("b")
        axes = [("o", outer), ("b", ceildiv(inner, _BLOCK))]
        if not self.op.exclusive and self.node.output.type.dtype == self._dtype:
            return self._launch(builder, axes, *self._sums_of_rows(builder, first, inner))
        total = Buffer("total", self._dtype, (_BLOCK,), Level.CACHE)
        step = self._step(builder, total, (symbol("i"),), symbol("o"), first + symbol("i"))
        lanes = Loop("i", Kind.VECTOR, minimum(_BLOCK, inner - first), step)
        return self._launch(builder, axes, Alloc(total, self._start), self._over_axis(builder, lanes))

    def _sums_of_rows(self, builder: KernelBuilder, first: Dim, inner: Dim) -> tuple[Loop, Loop]:
        """Computes each row of the result from the row before it and a row of ``x``; no separate totals are
        stored.
        """
        source = builder.input(self.node.operand(0), self.sizes)
        target = builder.output(self.node.output, self.sizes)
        count, t, column = builder.size(self.sizes[1]), symbol("t"), first + symbol("i")

        def row(step: Dim) -> tuple[Dim, Dim, Dim]:
            return symbol("o"), count - 1 - step if self.op.reverse else step, column

        combine = "add" if self.op.ufunc is np.add else "mul"
        begun = apply(combine, Const(self._start, self._dtype), Load(source, row(t)))
        summed = apply(combine, Load(target, row(t)), Load(source, row(t + 1)))
        extents = (minimum(count, 1), begun, t), (maximum(count - 1, 0), summed, t + 1)
        begin, go_on = (
            Loop("t", Kind.SERIAL, extent, (
                Loop("i", Kind.VECTOR, minimum(_BLOCK, inner - first), (Store(target, row(to), value),)),
            ))
            for extent, value, to in extents
        )  # fmt: skip
        return begin, go_on

    def rows_in_lanes(self, blocks: Dim) -> Launch:
        """The first rows, a vector of them at a time."""
        builder = KernelBuilder(self.node, self.context, f"{self.op.name.lower()}_lanes")
        total = Buffer("total", self._dtype, (), Level.REGISTER)
        step = self._step(builder, total, (), _LANES * symbol("b") + symbol("v"), 0)
        body = (Alloc(total, self._start), self._over_axis(builder, *step))
        return self._launch(builder, [("b", builder.size(blocks))], Loop("v", Kind.VECTOR, _LANES, body))

    def rows(self, first: Dim) -> Launch:
        """Rows from ``first`` on, one by one."""
        builder = KernelBuilder(self.node, self.context)
        total = Buffer("total", self._dtype, (), Level.REGISTER)
        step = self._step(builder, total, (), builder.size(first) + symbol("o"), 0)
        axes = [("o", builder.size(self.sizes[0] - first))]
        return self._launch(builder, axes, Alloc(total, self._start), self._over_axis(builder, *step))

    @property
    def _dtype(self) -> DType:
        return self.node.operand(0).type.dtype.computed

    @property
    def _start(self) -> int:
        return 0 if self.op.ufunc is np.add else 1

    def _step(
        self, builder: KernelBuilder, total: Buffer, index: tuple[Dim, ...], row: Dim, column: Dim
    ) -> tuple[Statement, Statement]:
        """Adds element ``t`` of the axis to the total, and stores the total."""
        source = builder.input(self.node.operand(0), self.sizes)
        target = builder.output(self.node.output, self.sizes)
        at: Dim = symbol("t")
        if self.op.reverse:
            at = builder.size(self.sizes[1]) - 1 - at
        combiner = "add" if self.op.ufunc is np.add else "mul"
        added = Accumulate(total, index, combiner, cast(Load(source, (row, at, column)), self._dtype))
        store = Store(target, (row, at, column), cast(Load(total, index), target.dtype))
        return (store, added) if self.op.exclusive else (added, store)

    def _over_axis(self, builder: KernelBuilder, *body: Statement) -> Loop:
        return Loop("t", Kind.SERIAL, builder.size(self.sizes[1]), body)

    def _launch(self, builder: KernelBuilder, axes: list[tuple[str, Dim]], *body: Statement) -> Launch:
        return builder.launch(nest(axes, *body, innermost=Kind.PARALLEL))

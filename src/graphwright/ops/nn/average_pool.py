"""AveragePool."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, AtenImport, AtenImporter, Fact, Importer, Inference, Sample, arg, op
from graphwright.ir.op.exporter import Exporter, as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F16, F32, F64, I32, TensorType
from graphwright.ops.core.aten_imports import per_axis
from graphwright.ops.core.checks import FLOATS, need_dtype, rank_of
from graphwright.ops.core.size_inference import number
from graphwright.ops.core.squeeze import Squeeze
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.nn.spatial import (
    POOL_ATTRIBUTES,
    BlockedPool,
    Pool,
    accumulator,
    import_pool,
    with_pad_node,
)


@op("AveragePool")
class AveragePool(BlockedPool, Pool):
    """The mean of every window of x[N, C, D...]: of its elements, or with ``include_pads`` of its elements
    and pads.

    With ``ceil``, a window may reach beyond the pads; that part is never counted. The mean of a window
    without elements is 0, as in ONNX Runtime.
    """

    include_pads: bool = False

    def infer(self, at: Inference, x: Fact) -> TensorType:
        need_dtype(at, x, FLOATS)
        return self.pooled(at, x)

    def reference(self, x: Array) -> Array:
        counts, shape, wide = self.window_counts(x), self.windows, accumulator(x)
        padded = shape.padded(x.astype(wide, copy=False), counts, 0)
        total = np.zeros((*x.shape[:2], *counts), wide)
        for position in shape.positions():
            total += padded[shape.elements_of_tap(position, counts)]
        sizes = [self._counted(axis, dim, counts[axis]) for axis, dim in enumerate(x.shape[2:])]
        divisor = np.maximum(reduce(np.multiply.outer, sizes), 1).astype(wide)
        return np.asarray(total / divisor).astype(x.dtype, copy=False)

    def _counted(self, axis: int, dim: int, count: int) -> Array:
        """The number of counted elements of each window along one axis."""
        shape = self.windows
        begin, end = number(shape.pads[axis]), number(shape.pads[axis + shape.rank])
        starts = np.arange(count) * shape.strides[axis] - begin
        taps = starts[:, None] + np.arange(self.kernel[axis]) * shape.dilations[axis]
        low, high = (-begin, dim + end) if self.include_pads else (0, dim)
        return np.asarray(((taps >= low) & (taps < high)).sum(1))


def average_pool_of(i: Importer) -> AveragePool:
    """The op of a source node."""
    return AveragePool(**import_pool(i), include_pads=bool(i.attr("count_include_pad", 0)))


AveragePool.onnx = {("AveragePool", 1): lambda i: i.emit(average_pool_of(i), i.input(0))}
_as_pool = as_onnx("AveragePool", POOL_ATTRIBUTES, count_include_pad="include_pads")


def _export(e: Exporter, op: AveragePool, x: Value) -> Any:
    """Symbolic pads are exported as a Pad node. Without ``include_pads``, the mean of the zero-padded input
    is then divided by the fraction of each window that is no padding.
    """
    bare, padded = with_pad_node(e, op, x)
    mean = _as_pool(e, bare, padded)
    if bare is op or op.include_pads:
        return mean
    ones = e.emit("ConstantOfShape", e.emit("Shape", x), value=np.ones(1, x.type.dtype.numpy))
    return e.emit("Div", mean, _as_pool(e, *with_pad_node(e, op, ones)))


AveragePool.to_onnx = _export
_X = arg(F32, 2, 3, 7, 6)
AveragePool.samples = (
    Sample(AveragePool((2, 2), (2, 2)), (_X,)),
    Sample(AveragePool((3, 3), (2, 2), (1, 1, 1, 1)), (arg(F32, symbol("N"), 3, symbol("H"), 6),)),
    Sample(AveragePool((3, 3), (2, 2), (1, 1, 1, 1), include_pads=True), (_X,)),
    Sample(AveragePool((3, 2), (2, 2), (1, 0, 1, 0), ceil=True, include_pads=True), (_X,)),
    Sample(AveragePool((2, 2), dilations=(2, 3)), (_X,)),
    Sample(AveragePool((3, 3), (2, 2), auto_pad="SAME_UPPER"), (arg(F32, 1, 2, symbol("H"), 6),)),
    Sample(AveragePool((3,)), (arg(F64, 1, 2, 5),)),
    Sample(AveragePool((2, 2)), (arg(F16, 1, 2, 3, 3),)),
    Sample(AveragePool((2, 2)), (arg(I32, 1, 2, 3, 3),), "the input is i32"),
    Sample(AveragePool((2, 2), pads=(1, 1)), (_X,), "2 pads for 2 spatial axes: there must be 4"),
    Sample(AveragePool((2, 9)), (_X,), "but a window spans 9"),
)


def _aten_avg_pool(rank: int) -> AtenImport:
    """PyTorch also accepts an image without a batch axis."""

    def convert(i: AtenImporter) -> Any:
        kernel = i.attr("kernel_size")
        sizes = (kernel, i.attr("stride") or kernel, i.attr("padding"))
        kernel, strides, padding = (per_axis(n, rank) for n in sizes)
        include_pads, ceil = bool(i.attr("count_include_pad")), bool(i.attr("ceil_mode"))
        if rank > 1 and i.attr("divisor_override") is not None:
            raise i.fail("divisor_override is not supported")
        op = AveragePool(kernel, strides, padding * 2, (), ceil, include_pads=include_pads)
        x = i.input(0)
        if rank_of(x) == rank + 2:
            return i.emit(op, x)
        return i.emit(Squeeze((0,)), i.emit(op, i.emit(Unsqueeze((0,)), x)))

    return convert


AveragePool.aten = {f"avg_pool{n}d": _aten_avg_pool(n) for n in (1, 2, 3)}

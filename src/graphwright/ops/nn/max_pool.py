"""MaxPool."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.graph import Value
from graphwright.ir.op import Array, AtenImport, AtenImporter, Fact, Inference, OnnxImporter, Sample, arg, op
from graphwright.ir.op.exporter import Exporter, as_onnx
from graphwright.ir.symbols import product, symbol
from graphwright.ir.types import F32, F64, I8, I64, U8, TensorType
from graphwright.ops.core.aten_imports import per_axis
from graphwright.ops.core.checks import rank_of
from graphwright.ops.core.mod import Mod
from graphwright.ops.core.range import scalar_of
from graphwright.ops.core.squeeze import Squeeze
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.nn.spatial import (
    AUTO_PADS,
    POOL_ATTRIBUTES,
    BlockedPool,
    Pool,
    import_pool,
    same_pads,
    with_pad_node,
)
from graphwright.records import replace


@op("MaxPool")
class MaxPool(BlockedPool, Pool):
    """The maximum of every window of x[N, C, D...]; NaN if the window contains NaN. Pads are ignored.

    With ``indices``, output 1 holds the position of each maximum in the flattened input, the first one of
    equal elements. With ``column_major``, these positions count the spatial axes in column-major order.
    Attributes: see :class:`Pool`.
    """

    indices: bool = False
    column_major: bool = False

    def output_count(self) -> int:
        return 2 if self.indices else 1

    def infer(self, at: Inference, x: Fact) -> TensorType | tuple[TensorType, TensorType]:
        type = self.pooled(at, x)
        return (type, TensorType(I64, type.shape)) if self.indices else type

    def reference(self, x: Array) -> Array | tuple[Array, Array]:
        counts, shape = self.window_counts(x), self.windows
        padded = shape.padded(x, counts, _lowest(x.dtype))
        best: Array = np.full((*x.shape[:2], *counts), _lowest(x.dtype), dtype=x.dtype)
        if not self.indices:
            for position in shape.positions():
                np.maximum(best, padded[shape.elements_of_tap(position, counts)], out=best)
            return best
        all_indices = shape.padded(self._flat_indices(x.shape), counts, -1)
        best_index = np.full(best.shape, -1, dtype=np.int64)
        for position in shape.positions():
            value, index = (array[shape.elements_of_tap(position, counts)] for array in (padded, all_indices))
            better = (index >= 0) & ((best_index < 0) | (value > best) | (np.isnan(value) & ~np.isnan(best)))
            best, best_index = np.where(better, value, best), np.where(better, index, best_index)
        return best, best_index

    def _flat_indices(self, shape: tuple[int, ...]) -> Array:
        """The position of every element in the flattened input."""
        size = int(np.prod(shape[2:]))
        inner = np.arange(size).reshape(shape[2:], order="F" if self.column_major else "C")
        outer = np.arange(shape[0] * shape[1]).reshape(*shape[:2], *[1] * (len(shape) - 2))
        return np.asarray(outer * size + inner)


def _lowest(dtype: np.dtype[Any]) -> Any:
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def _import(i: OnnxImporter) -> Any:
    pool = MaxPool(
        **import_pool(i), indices=i.output_count > 1, column_major=bool(i.attr("storage_order", 0))
    )
    return i.emit(pool, i.input(0))


MaxPool.onnx = {("MaxPool", 1): _import}
_as_pool = as_onnx("MaxPool", POOL_ATTRIBUTES, outputs="indices", storage_order="column_major")


def _export(e: Exporter, op: MaxPool, x: Value) -> Any:
    """ONNX has no symbolic pads: a Pad node before the pooling adds them, filled with the smallest value of
    the dtype. The indices would count these pads, so an op with indices is exported with the ``auto_pad``
    that its pads come from.
    """
    if all(isinstance(pad, int) for pad in op.pads):
        return _as_pool(e, op, x)
    if op.indices:
        same = [mode for mode in AUTO_PADS[1:] if same_pads(x.type.dims[2:], op.windows, mode) == op.pads]
        return _as_pool(e, replace(op, pads=(), auto_pad=same[0]) if same else op, x)
    dtype = x.type.dtype.numpy
    return _as_pool(e, *with_pad_node(e, op, x, e.const(np.array(_lowest(dtype), dtype))))


MaxPool.to_onnx = _export
_X = arg(F32, 2, 3, 7, 6)
MaxPool.samples = (
    Sample(MaxPool((2, 2), (2, 2)), (_X,)),
    Sample(MaxPool((3, 3), (2, 2), (1, 1, 1, 1)), (arg(F32, symbol("N"), 3, symbol("H"), 6),)),
    Sample(MaxPool((3, 2), (2, 2), (1, 0, 1, 0), ceil=True), (_X,)),
    Sample(MaxPool((3, 2), (2, 2), ceil=True), (arg(F32, 1, 3, symbol("H"), 6),)),
    Sample(MaxPool((2, 2), (1, 2), dilations=(3, 2), indices=True), (_X,)),
    Sample(MaxPool((3, 3), (2, 2), (1, 1, 1, 1), indices=True, column_major=True), (_X,)),
    Sample(MaxPool((3, 3), (2, 2), auto_pad="SAME_LOWER"), (arg(F32, 1, 2, symbol("H"), 6),)),
    Sample(MaxPool((3,)), (arg(I8, 1, 2, 5),)),
    Sample(MaxPool((2, 2)), (arg(U8, 1, 2, 3, 3),)),
    Sample(MaxPool((2, 1, 2)), (arg(F64, 1, 2, 3, 3, 4),)),
    Sample(MaxPool((2, 2)), (arg(F32, 2, 3, 7),), "must have rank 4"),
    Sample(MaxPool((9, 2)), (_X,), "but a window spans 9"),
    Sample(MaxPool((2, 2), (0, 1)), (_X,), "the strides are [0, 1]"),
    Sample(MaxPool((2, 2), auto_pad="SAME"), (_X,), "auto_pad 'SAME'"),
)


def _aten_max_pool_with_indices(rank: int) -> AtenImport:
    """The maxima, and their positions in their image. PyTorch also accepts an image without a batch axis."""

    def convert(i: AtenImporter) -> Any:
        kernel = i.attr("kernel_size")
        sizes = (kernel, i.attr("stride") or kernel, i.attr("padding"), i.attr("dilation"))
        kernel, strides, padding, dilations = (per_axis(n, rank) for n in sizes)
        op = MaxPool(kernel, strides, padding * 2, dilations, bool(i.attr("ceil_mode")))
        x = i.input(0)
        if rank_of(x) == rank + 2:
            return _with_indices(i, op, x)
        outputs = _with_indices(i, op, i.emit(Unsqueeze((0,)), x))
        return tuple(None if y is None else i.emit(Squeeze((0,)), y) for y in outputs)

    return convert


def _with_indices(i: AtenImporter, op: MaxPool, x: Value) -> tuple[Value, Value | None]:
    """The maxima and their positions, None if they are not used. PyTorch counts positions within an image,
    ONNX within the whole batch.
    """
    if not i.is_used(1):
        return i.emit(op, x), None
    y, indices = i.emit(replace(op, indices=True), x)
    return y, i.emit(Mod(), indices, scalar_of(i.builder, product(x.type.dims[2:])))


MaxPool.aten = {f"max_pool{n}d_with_indices": _aten_max_pool_with_indices(n) for n in (2, 3)}

"""MaxPool."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.exporter import Exporter, as_onnx
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, AtenImport, AtenImporter, Fact, Inference, OnnxImporter, Sample, arg, op
from graphwright.ir.symbols import product, symbol
from graphwright.ir.types import F32, F64, I8, I64, U8, TensorType
from graphwright.ops.core.aten import per_axis
from graphwright.ops.core.binary import Mod
from graphwright.ops.core.common import rank_of
from graphwright.ops.core.range import scalar_of
from graphwright.ops.core.squeeze import Squeeze
from graphwright.ops.core.unsqueeze import Unsqueeze
from graphwright.ops.nn.spatial import POOL_ATTRIBUTES, BlockedPool, Pool, import_pool
from graphwright.records import replace


@op("MaxPool")
class MaxPool(BlockedPool, Pool):
    """The largest element of every window; NaN wins. Pads are never taken.

    With ``indices`` a second output holds its flat position in the input, the first of equal ones.
    ``column_major`` counts positions along the first spatial axis first.
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
                np.maximum(best, padded[shape.taken(position, counts)], out=best)
            return best
        places = shape.padded(self._places(x.shape), counts, -1)
        where = np.full(best.shape, -1, dtype=np.int64)
        for position in shape.positions():
            value, place = padded[shape.taken(position, counts)], places[shape.taken(position, counts)]
            better = (place >= 0) & ((where < 0) | (value > best) | (np.isnan(value) & ~np.isnan(best)))
            best, where = np.where(better, value, best), np.where(better, place, where)
        return best, where

    def _places(self, shape: tuple[int, ...]) -> Array:
        """The flat position of every element."""
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
    """Pads that follow from open sizes become a node of their own, which fills with what is never taken."""
    if all(isinstance(pad, int) for pad in op.pads) or op.indices:
        return _as_pool(e, op, x)
    half, dtype = len(op.pads) // 2, x.type.dtype.numpy
    pads = e.sizes((0, 0, *op.pads[:half], 0, 0, *op.pads[half:]))
    padded: Any = e.emit("Pad", x, pads, e.const(np.array(_lowest(dtype), dtype)))
    return _as_pool(e, replace(op, pads=()), padded)


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
    Sample(MaxPool((2, 2)), (arg(F32, 2, 3, 7),), "needs rank 4"),
    Sample(MaxPool((9, 2)), (_X,), "less a window of 9: -2 is less than -1"),
    Sample(MaxPool((2, 2), (0, 1)), (_X,), "strides of [0, 1]"),
    Sample(MaxPool((2, 2), auto_pad="SAME"), (_X,), "auto_pad 'SAME'"),
)


def _pooled(rank: int) -> AtenImport:
    """The largest of each window, and where it lies in its image; of a batch of images, or of one."""

    def convert(i: AtenImporter) -> Any:
        kernel = i.attr("kernel_size")
        sizes = (kernel, i.attr("stride") or kernel, i.attr("padding"), i.attr("dilation"))
        kernel, strides, padding, dilations = (per_axis(n, rank) for n in sizes)
        made = MaxPool(kernel, strides, padding * 2, dilations, bool(i.attr("ceil_mode")))
        x = i.input(0)
        if rank_of(x) == rank + 2:
            return _with_places(i, made, x)
        of_one = _with_places(i, made, i.emit(Unsqueeze((0,)), x))
        return tuple(None if y is None else i.emit(Squeeze((0,)), y) for y in of_one)

    return convert


def _with_places(i: AtenImporter, made: MaxPool, x: Value) -> tuple[Value, Value | None]:
    """Places count within an image, those of ONNX through the whole batch; None where none is read."""
    if not i.is_used(1):
        return i.emit(made, x), None
    y, places = i.emit(replace(made, indices=True), x)
    return y, i.emit(Mod(), places, scalar_of(i.builder, product(x.type.dims[2:])))


MaxPool.aten = {f"max_pool{n}d_with_indices": _pooled(n) for n in (2, 3)}

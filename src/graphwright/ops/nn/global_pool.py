"""GlobalAveragePool, GlobalMaxPool and GlobalLpPool: reductions over the spatial axes, which stay with size
1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, AtenImporter, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F16, F32, F64, I32, TensorType
from graphwright.ops.core.checks import FLOATS, need_dtype, rank_of
from graphwright.ops.core.imports import simple
from graphwright.ops.core.pow import Pow
from graphwright.ops.core.reductions import ReduceL1, ReduceL2, ReduceMax, ReduceMean, ReduceSum
from graphwright.ops.core.references import mean_over, quiet
from graphwright.ops.core.unary import Abs
from graphwright.ops.nn.interpolate import Interpolate
from graphwright.ops.nn.spatial import accumulator, norm_of


def _infer(at: Inference, x: Fact) -> TensorType:
    need_dtype(at, x, FLOATS)
    if x.rank < 3:
        raise at.fail(f"the input is {x.type}; it must be [N, C, D...] with at least one spatial axis")
    return TensorType(x.dtype, (*x.shape[:2], *[1] * (x.rank - 2)))


def _spatial(rank: int) -> tuple[int, ...]:
    return tuple(range(2, rank))


@op("GlobalAveragePool")
class GlobalAveragePool(Op):
    """The mean of each channel of x[N, C, D...]: y[N, C, 1...]."""

    def infer(self, at: Inference, x: Fact) -> TensorType:
        return _infer(at, x)

    @quiet
    def reference(self, x: Array) -> Array:
        return mean_over(x.astype(accumulator(x), copy=False), _spatial(x.ndim)).astype(x.dtype)

    def decompose(self, b: Builder, x: Value) -> Any:
        return b(ReduceMean(_spatial(rank_of(x))), x)


@op("GlobalMaxPool")
class GlobalMaxPool(Op):
    """The maximum of each channel of x[N, C, D...]: y[N, C, 1...]."""

    def infer(self, at: Inference, x: Fact) -> TensorType:
        return _infer(at, x)

    def reference(self, x: Array) -> Array:
        return np.asarray(np.max(x, _spatial(x.ndim), keepdims=True, initial=-np.inf)).astype(x.dtype)

    def decompose(self, b: Builder, x: Value) -> Any:
        return b(ReduceMax(_spatial(rank_of(x))), x)


@op("GlobalLpPool")
class GlobalLpPool(Op):
    """The p-norm of each channel of x[N, C, D...]: y[N, C, 1...]."""

    p: int = 2

    def verify(self) -> None:
        if self.p < 1:
            raise InferError(f"p = {self.p}: the order of a norm must be at least 1")

    def infer(self, at: Inference, x: Fact) -> TensorType:
        return _infer(at, x)

    def reference(self, x: Array) -> Array:
        powers = np.abs(x.astype(accumulator(x))) ** self.p
        total = np.sum(powers, _spatial(x.ndim), keepdims=True)
        return np.asarray(total ** (1 / self.p)).astype(x.dtype)

    def decompose(self, b: Builder, x: Value) -> Any:
        axes = _spatial(rank_of(x))
        if self.p in (1, 2):
            return b((ReduceL1 if self.p == 1 else ReduceL2)(axes), x)
        powers = b(Pow(), b(Abs(), x), b.const(self.p, x.type.dtype))
        return b(Pow(), b(ReduceSum(axes), powers), b.const(1 / self.p, x.type.dtype))


def _import_lp(i: Importer) -> Any:
    return i.emit(GlobalLpPool(norm_of(i)), i.input(0))


GlobalAveragePool.onnx = {("GlobalAveragePool", 1): simple(GlobalAveragePool)}
GlobalAveragePool.to_onnx = as_onnx("GlobalAveragePool")
GlobalMaxPool.onnx = {("GlobalMaxPool", 1): simple(GlobalMaxPool)}
GlobalMaxPool.to_onnx = as_onnx("GlobalMaxPool")
GlobalLpPool.onnx = {("GlobalLpPool", 2): _import_lp}
GlobalLpPool.to_onnx = as_onnx("GlobalLpPool", p="p")
for _pool in (GlobalAveragePool, GlobalMaxPool, GlobalLpPool):
    _pool.samples = (
        Sample(_pool(), (arg(F32, symbol("N"), 3, symbol("H"), 5),)),
        Sample(_pool(), (arg(F64, 1, 2, 4),)),
        Sample(_pool(), (arg(F16, 1, 2, 3, 2, 2),)),
        Sample(_pool(), (arg(F32, 2, 3),), "with at least one spatial axis"),
        Sample(_pool(), (arg(I32, 2, 3, 4),), "the input is i32"),
    )
GlobalLpPool.samples += (
    Sample(GlobalLpPool(1), (arg(F32, 2, 3, 4),)),
    Sample(GlobalLpPool(3), (arg(F32, 2, 3, 4),)),
    Sample(GlobalLpPool(0), (arg(F32, 2, 3, 4),), "p = 0"),
)


def _aten_adaptive_avg_pool(i: AtenImporter) -> Any:
    """Window k of n is ``[floor(k * size / n), ceil((k + 1) * size / n))``. Interpolate computes the means
    along one axis after the other.
    """
    x, sizes = i.input(0), i.attr("output_size")
    rank = rank_of(x)
    if all(size == 1 for size in sizes) and rank == len(sizes) + 2:
        return i.emit(GlobalAveragePool(), x)
    for axis, size in zip(range(rank - len(sizes), rank), sizes, strict=True):
        dim = x.type.dims[axis]
        if not isinstance(dim, int) or not isinstance(size, int):
            raise i.fail("adaptive pooling of dynamic dimensions is not supported")
        positions, weights = _adaptive_windows(dim, size)
        x = i.emit(Interpolate(axis), x, i.const(positions), i.const(weights.astype(x.type.dtype.numpy)))
    return x


def _adaptive_windows(dim: int, count: int) -> tuple[Array, Array]:
    """The positions of the elements of each of ``count`` windows over ``dim`` elements, and their weights.
    Windows that are shorter than the longest one have positions -1.
    """
    starts = np.arange(count) * dim // count
    sizes = -(-(np.arange(count) + 1) * dim // count) - starts
    steps = np.arange(max(sizes, default=0))
    inside = steps < sizes[:, None]
    return np.where(inside, starts[:, None] + steps, -1), inside / sizes[:, None]


GlobalAveragePool.aten = dict.fromkeys(
    ("_adaptive_avg_pool2d", "_adaptive_avg_pool3d"), _aten_adaptive_avg_pool
)

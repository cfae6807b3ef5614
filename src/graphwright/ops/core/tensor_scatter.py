"""TensorScatter."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Importer, Inference, InferError, Op, Sample, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import BF16, F32, I32, I64, STRING, TensorType
from graphwright.ops.core.binary import Add
from graphwright.ops.core.checks import need_dtype, rank_of, same_dtype
from graphwright.ops.core.expand import Expand
from graphwright.ops.core.mod import Mod
from graphwright.ops.core.range import Range
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.scatter_elements import ScatterElements

MODES = ("linear", "circular")


@op("TensorScatter")
class TensorScatter(Op):
    """Writes an update into a cache (a KV cache) along ``axis``; ONNX opset 24.

    The optional operand 2, i64[batch], are the positions of the first element, by default 0. In ``mode``
    circular, positions wrap around at the end of the axis; in linear, the update must fit.
    """

    axis: int = -2
    mode: str = "linear"
    optional_inputs = frozenset({2})

    def verify(self) -> None:
        if self.mode not in MODES:
            raise InferError(f"mode {self.mode!r} is not one of {', '.join(MODES)}")

    def infer(self, at: Inference, cache: Fact, update: Fact, write: Fact | None = None) -> TensorType:
        dtype = same_dtype(at, cache, update)
        if cache.rank < 2 or update.rank != cache.rank:
            raise at.fail(
                f"the cache is {cache.type} and the update {update.type}: their ranks must be equal, "
                "and at least 2"
            )
        along = at.axis(self.axis, cache.rank)
        if along == 0:
            raise at.fail(f"axis {self.axis} is the batch axis")
        for axis, (have, given) in enumerate(zip(cache.shape, update.shape, strict=True)):
            if axis == along:
                at.at_most(given, have, "size of the update and of the cache")
            else:
                at.equal(have, given, f"axis {axis} of the cache and of the update")
        if write is not None:
            need_dtype(at, write, frozenset({I64}), "the index tensor")
            if write.rank != 1:
                raise at.fail(f"the indices are {write.type}; they must be a vector")
            at.equal(write.shape[0], cache.shape[0], "indices and batch")
        return TensorType(dtype, cache.shape)

    def reference(self, cache: Array, update: Array, write: Array | None = None) -> Array:
        out = cache.copy()
        target, source = np.moveaxis(out, self.axis, 1), np.moveaxis(update, self.axis, 1)
        first = np.zeros(len(cache), np.int64) if write is None else write
        positions = first[:, np.newaxis] + np.arange(source.shape[1])
        if self.mode == "circular" and target.shape[1]:
            positions %= target.shape[1]
        target[np.arange(len(cache))[:, np.newaxis], positions] = source
        return out

    def decompose(self, b: Builder, cache: Value, update: Value, write: Value | None = None) -> Value | None:
        """ScatterElements at computed positions; None for a circular cache of symbolic size."""
        rank = rank_of(cache)
        along, dims = self.axis % rank, update.type.dims
        size = cache.type.dims[along]
        if self.mode == "circular" and (not isinstance(size, int) or size == 0):
            return None
        shape = tuple(dims[axis] if axis == along else 1 for axis in range(rank))
        positions = reshaped(b, b(Range((0, dims[along], 1))), shape)
        if write is not None:
            column = reshaped(b, write, (cache.type.dims[0], *[1] * (rank - 1)))
            positions = b(Add(), column, positions)
            if self.mode == "circular":
                positions = b(Mod(), positions, b.const(np.array(size, np.int64)))
        scattered: Value = b(ScatterElements(along), cache, b(Expand(dims), positions), update)
        return scattered


def _import(i: Importer) -> Any:
    op = TensorScatter(int(i.attr("axis", -2)), str(i.attr("mode", "linear")))
    write = i.optional(2)
    return i.emit(op, i.input(0), i.input(1), *([] if write is None else [write]))


TensorScatter.onnx = {("TensorScatter", 24): _import}
TensorScatter.to_onnx = as_onnx("TensorScatter", since=24, axis="axis", mode="mode")
_N, _S = symbol("N"), symbol("S")
_FROM = arg(I64, 2, values=(1, 3))
TensorScatter.samples = (
    Sample(TensorScatter(), (arg(F32, 2, 3, 5, 4), arg(F32, 2, 3, 2, 4), _FROM)),
    Sample(TensorScatter(1, "circular"), (arg(BF16, 2, 4, 3), arg(BF16, 2, 3, 3), _FROM)),
    Sample(TensorScatter(-1), (arg(I32, 2, 5), arg(I32, 2, 3))),
    Sample(TensorScatter(), (arg(F32, _N, _S, 4), arg(F32, _N, 2, 4), arg(I64, _N, fill="index"))),
    Sample(TensorScatter(-2, "circular"), (arg(F32, _N, 6, 4), arg(F32, _N, _S, 4), arg(I64, _N))),
    Sample(TensorScatter(), (arg(STRING, 2, 5, 1), arg(STRING, 2, 1, 1), _FROM)),
    Sample(TensorScatter(), (arg(F32, 2, 4, 3), arg(F32, 2, 0, 3), _FROM)),
    Sample(TensorScatter(0), (arg(F32, 2, 4), arg(F32, 2, 4)), "axis 0 is the batch axis"),
    Sample(
        TensorScatter(1),
        (arg(F32, 2, 4), arg(F32, 2, 5)),
        "size of the update and of the cache: 5 is more than 4",
    ),
    Sample(TensorScatter(1), (arg(F32, 2, 4), arg(F32, 3, 2)), "axis 0 of the cache and of the update"),
    Sample(TensorScatter(1), (arg(F32, 3, 4), arg(F32, 3, 2), _FROM), "indices and batch: 2 and 3 differ"),
    Sample(TensorScatter(1), (arg(F32, 2, 4), arg(I32, 2, 2)), "operands of f32 and i32"),
    Sample(TensorScatter(1, "round"), (arg(F32, 2, 4), arg(F32, 2, 2)), "mode 'round'"),
)

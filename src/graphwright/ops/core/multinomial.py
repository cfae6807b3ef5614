"""Multinomial."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, Trait, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F16, F32, F64, I32, I64, DType, TensorType
from graphwright.ops.core.checks import FLOATS, need_dtype
from graphwright.ops.core.imports import dtype_attribute
from graphwright.ops.core.random import generator, seed_of
from graphwright.ops.core.references import quiet


@op("Multinomial")
class Multinomial(Op):
    """Draws ``count`` classes for each row of logits[N, C]: y[N, count], of ``dtype`` i32 or i64.

    The probabilities are the softmax of the logits. Samples are drawn by inversion of the cumulative
    distribution. For ``seed`` see :class:`~graphwright.ops.core.random.Random`.
    """

    count: int = 1
    dtype: DType = I32
    seed: float | None = None
    traits = Trait.EFFECT

    def infer(self, at: Inference, logits: Fact) -> TensorType:
        need_dtype(at, logits, FLOATS)
        if self.dtype not in (I32, I64):
            raise at.fail(f"the dtype is {self.dtype}; it must be i32 or i64")
        if self.count < 0:
            raise at.fail(f"the number of samples is {self.count}; it must be at least 0")
        if logits.rank != 2:
            raise at.fail(f"the logits are {logits.type}; they must be [batch, classes]")
        at.at_least(logits.shape[1], 1, "the number of classes")
        return TensorType(self.dtype, (logits.shape[0], self.count))

    @quiet
    def reference(self, logits: Array) -> Array:
        wide = logits.astype(np.float64)
        weights = np.exp(wide - np.max(wide, axis=1, keepdims=True))
        cumulative = np.cumsum(weights, axis=1)
        draws = generator(self.seed).uniform(size=(len(wide), self.count)) * cumulative[:, -1:]
        classes = np.zeros(draws.shape, np.int64)
        for found, drawn, sums in zip(classes, draws, cumulative, strict=True):
            found[:] = np.searchsorted(sums, drawn, side="right")
        return np.asarray(np.minimum(classes, wide.shape[1] - 1), self.dtype.numpy)


def _import(i: Importer) -> Any:
    dtype = dtype_attribute(i, i.attr("dtype", 6))
    return i.emit(Multinomial(int(i.attr("sample_size", 1)), dtype, seed_of(i)), i.input(0))


Multinomial.onnx = {("Multinomial", 7): _import}
Multinomial.to_onnx = as_onnx("Multinomial", sample_size="count", dtype="dtype", seed="seed")
Multinomial.samples = (
    *(Sample(Multinomial(5, I64, 1.0), (arg(dtype, 3, 4),)) for dtype in (F32, F64, F16)),
    Sample(Multinomial(2, I32, 0.0), (arg(F32, symbol("N"), 3),)),
    Sample(Multinomial(0, I32, 0.0), (arg(F32, 2, 3),)),
    Sample(Multinomial(3, seed=4.0), (arg(F32, 2, 3, values=(0, float("-inf"), 1, 5, 5, 5)),)),
    Sample(Multinomial(), (arg(F32, 3),), "they must be [batch, classes]"),
    Sample(Multinomial(1, F32), (arg(F32, 2, 3),), "the dtype is f32"),
    Sample(Multinomial(), (arg(I32, 2, 3),), "the input is i32"),
    Sample(Multinomial(), (arg(F32, 2, 0),), "the number of classes"),
)

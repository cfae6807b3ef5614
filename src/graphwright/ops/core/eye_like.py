"""EyeLike."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.ir.op import Array, Fact, Importer, Inference, Op, Sample, Trait, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import symbol
from graphwright.ir.types import F32, I32, I64, DType, TensorType
from graphwright.ops.core.imports import dtype_attribute


@op("EyeLike")
class EyeLike(Op):
    """A matrix of the shape of the input, with ones on diagonal ``k`` and zeros elsewhere. A positive ``k``
    is above the main diagonal. ``dtype`` None is the dtype of the input.
    """

    k: int = 0
    dtype: DType | None = None
    traits = Trait.SHAPE_ONLY

    def infer(self, at: Inference, x: Fact) -> TensorType:
        if x.rank != 2:
            raise at.fail(f"the input is {x.type}; it must be a matrix")
        return TensorType(self.dtype or x.dtype, x.shape)

    def reference(self, x: Array) -> Array:
        dtype = x.dtype if self.dtype is None else self.dtype.numpy
        return np.eye(x.shape[0], x.shape[1], self.k).astype(dtype)


def _import(i: Importer) -> Any:
    dtype = None if i.attr("dtype") is None else dtype_attribute(i, i.attr("dtype"))
    return i.emit(EyeLike(i.attr("k", 0), dtype), i.input(0))


EyeLike.onnx = {("EyeLike", 9): _import}
EyeLike.to_onnx = as_onnx("EyeLike", k="k", dtype="dtype")
EyeLike.samples = (
    Sample(EyeLike(), (arg(F32, 3, symbol("N")),)),
    Sample(EyeLike(-1, I64), (arg(I32, 3, 4),)),
    Sample(EyeLike(7), (arg(F32, 3, 4),)),
    Sample(EyeLike(), (arg(F32, 3),), "it must be a matrix"),
)

"""ArrayFeatureExtractor."""

from __future__ import annotations

import numpy as np

from graphwright.ir.build import Builder
from graphwright.ir.graph import Value
from graphwright.ir.op import Array, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.symbols import product, symbol
from graphwright.ir.types import F32, F64, I32, I64, STRING, TensorType
from graphwright.ops.core.checks import need_dtype, rank_of
from graphwright.ops.core.gather import Gather, check_bounds
from graphwright.ops.core.imports import simple
from graphwright.ops.core.reshape import reshaped
from graphwright.ops.core.unsqueeze import Unsqueeze

DTYPES = frozenset({F32, F64, I64, I32, STRING})


@op("ArrayFeatureExtractor")
class ArrayFeatureExtractor(Op):
    """The elements of the last axis at the indices in operand 1, which are flattened. For a vector, the
    result is [1, count].
    """

    def infer(self, at: Inference, x: Fact, indices: Fact) -> TensorType:
        need_dtype(at, x, DTYPES)
        need_dtype(at, indices, {I64}, "the index tensor")
        if x.rank == 0:
            raise at.fail("a scalar has no axis to select elements from")
        check_bounds(at, indices, x.shape[-1], x.rank - 1)
        return TensorType(x.dtype, (*(x.shape[:-1] or (1,)), product(indices.shape)))

    def reference(self, x: Array, indices: Array) -> Array:
        selected = np.asarray(np.take(x, indices.ravel(), -1), dtype=x.dtype)
        return selected if x.ndim > 1 else selected[np.newaxis]

    def decompose(self, b: Builder, x: Value, indices: Value) -> Value:
        if rank_of(indices) != 1:
            indices = reshaped(b, indices, (product(indices.type.dims),))
        selected: Value = b(Gather(-1), x, indices)
        return selected if rank_of(x) > 1 else b(Unsqueeze((0,)), selected)


ArrayFeatureExtractor.onnx = {("ArrayFeatureExtractor", 1, "ai.onnx.ml"): simple(ArrayFeatureExtractor)}
_N = symbol("N")
ArrayFeatureExtractor.samples = (
    *(
        Sample(ArrayFeatureExtractor(), (arg(t, 2, 3, 4), arg(I64, 3, values=(3, 0, 3))))
        for t in (F32, F64, I64, I32, STRING)
    ),
    Sample(ArrayFeatureExtractor(), (arg(F32, 5), arg(I64, 2, values=(4, 1)))),
    Sample(ArrayFeatureExtractor(), (arg(F32, _N, 5), arg(I64, 2, 3, fill="index"))),
    Sample(ArrayFeatureExtractor(), (arg(F32, 2, 5), arg(I64, fill="index"))),
    Sample(ArrayFeatureExtractor(), (arg(F32, 0, 5), arg(I64, symbol("K"), fill="index"))),
    Sample(ArrayFeatureExtractor(), (arg(F32, 5), arg(I64, 1, values=(5,))), "index 5 is outside axis 0"),
    Sample(ArrayFeatureExtractor(), (arg(F32, 5), arg(I32, 1)), "the index tensor is i32"),
    Sample(ArrayFeatureExtractor(), (arg(F32), arg(I64, 1)), "a scalar has no axis"),
)

"""Size."""

from __future__ import annotations

import numpy as np

from graphwright.ir.op import Array, Fact, Inference, Op, Sample, Trait, arg, op
from graphwright.ir.op.exporter import as_onnx
from graphwright.ir.symbols import product, symbol
from graphwright.ir.types import F32, I64, TensorType
from graphwright.ops.core.imports import simple


@op("Size")
class Size(Op):
    """The number of elements of the input, as an i64 scalar."""

    traits = Trait.SHAPE_ONLY

    def infer(self, at: Inference, x: Fact) -> Fact:
        return Fact(TensorType(I64, ()), (product(x.shape),))

    def reference(self, x: Array) -> Array:
        return np.array(x.size, dtype=np.int64)


Size.onnx = {("Size", 1): simple(Size)}
Size.to_onnx = as_onnx("Size")
Size.samples = (Sample(Size(), (arg(F32, symbol("N"), 3),)), Sample(Size(), (arg(F32),)))

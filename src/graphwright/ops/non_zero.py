"""NonZero."""

from __future__ import annotations

import numpy as np

from graphwright.ir.op import Array, Fact, Inference, Op, Sample, arg, op
from graphwright.ir.symbols import symbol
from graphwright.ir.types import BOOL, F32, I64, TensorType
from graphwright.ops.common import simple


@op("NonZero")
class NonZero(Op):
    """Indices of the elements that are not 0: i64[rank, count], row-major; the count becomes a new symbol."""

    def infer(self, at: Inference, x: Fact) -> TensorType:
        count = at.symbols.fresh("nonzero") if x.data is None else int(np.count_nonzero(x.data))
        return TensorType(I64, (x.rank, count))

    def reference(self, x: Array) -> Array:
        if x.ndim == 0:
            return np.zeros((0, int(x != 0)), dtype=np.int64)
        return np.array(np.nonzero(x), dtype=np.int64).reshape(x.ndim, -1)


NonZero.onnx = {("NonZero", 9): simple(NonZero)}
NonZero.samples = (
    Sample(NonZero(), (arg(F32, 3, 4, fill="index"),)),
    Sample(NonZero(), (arg(BOOL, symbol("N")),)),
    Sample(NonZero(), (arg(F32),)),
)
